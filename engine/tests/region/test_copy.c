/*
 * The ways to copy, and which one an instance uses: each copies right, of any length and from and to any place; the
 * choice follows from the times; all processes of an instance go by it.
 */
#include "fixture.h"

#include "copy/choice.h"
#include "copy/copy.h"
#include "copy/ways.h"

#define LONGEST 4200u
#define PLACES 64u
#define GUARD 64u
#define ROOM (GUARD + PLACES + LONGEST + GUARD)

static unsigned char from[ROOM], to[ROOM], expected[ROOM];

/* Neighbours differ, and so do bytes that are a vector or a page apart. */
static void fill(void)
{
    for (uint32_t i = 0; i < ROOM; i++) {
        from[i] = (unsigned char)(i * 167 + i / 64 * 31 + i / 4096);
        expected[i] = 0xa5;
    }
    memcpy(to, expected, ROOM);
}

/* Every byte of `to` is looked at, those around the copied ones too. */
static void copies(tb_copy_bytes *copy, uint32_t source, uint32_t target, uint32_t n)
{
    copy(to + GUARD + target, from + GUARD + source, n);
    memcpy(expected + GUARD + target, from + GUARD + source, n);
    if (memcmp(to, expected, ROOM) != 0)
        fail_msg("%u bytes from place %u to place %u are copied wrong", n, source, target);
    memset(to + GUARD + target, 0xa5, n);
    memset(expected + GUARD + target, 0xa5, n);
}

/* Each place of one side with a few of the other; each length with a few places. */
static void each_way_copies_right(void **state)
{
    (void)state;
    fill();
    for (uint32_t w = 0; w < TB_COPY_WAYS; w++) {
        tb_copy_bytes *copy = tb_copy_ways[w].copy;
        if (!tb_copy_ways[w].is_here())
            continue;
        for (uint32_t n = 0; n <= LONGEST; n++) {
            copies(copy, n % PLACES, n * 7 / PLACES % PLACES, n);
            if (n > 260 && n % 64 > 2 && n % 97)
                continue;
            for (uint32_t place = 0; place < PLACES; place++) {
                copies(copy, place, (place * 5 + n) % PLACES, n);
                copies(copy, 0, place, n);
            }
        }
    }
}

/* The engine's own two functions, which send short ones another way. */
static void in_and_out_copy_right(void **state)
{
    (void)state;
    fill();
    for (uint32_t w = 0; w < TB_COPY_WAYS; w++)
        for (uint32_t n = 0; n <= LONGEST && tb_copy_ways[w].is_here(); n++) {
            memset(to, 0xa5, n + 1);
            tb_copy_in(tb_copy_ways[w].copy, to, from + 1, n);
            assert_memory_equal(to, from + 1, n);
            assert_int_equal(to[n], 0xa5);
            memset(to, 0xa5, n + 1);
            tb_copy_out(tb_copy_ways[w].copy, to, from + 3, n);
            assert_memory_equal(to, from + 3, n);
            assert_int_equal(to[n], 0xa5);
        }
}

static void set_all(struct tb_copy_choice *c, uint32_t way, double ns)
{
    for (uint32_t i = 0; i < TB_COPY_SIZES * TB_COPY_PLACES; i++)
        c->ns[way][i / TB_COPY_PLACES][i % TB_COPY_PLACES] = ns;
}

/* All ways take as long as libc's. */
static struct tb_copy_choice equal_times(void)
{
    struct tb_copy_choice c = {.way = 0};
    for (uint32_t w = 0; w < TB_COPY_WAYS; w++)
        set_all(&c, w, 100);
    return c;
}

static void equal_times_choose_libc(void **state)
{
    (void)state;
    struct tb_copy_choice c = equal_times();
    assert_int_equal(tb_copy_choose(&c), TB_COPY_LIBC);
    set_all(&c, 3, 95.5); /* within the margin */
    assert_int_equal(tb_copy_choose(&c), TB_COPY_LIBC);
    set_all(&c, 3, 94.5);
    assert_int_equal(tb_copy_choose(&c), 3);
}

static void the_least_average_is_chosen(void **state)
{
    (void)state;
    struct tb_copy_choice c = equal_times();
    set_all(&c, 2, 80);
    set_all(&c, 4, 70);
    assert_int_equal(tb_copy_choose(&c), 4);
    c.ns[4][0][3] = 124; /* slower there, and not by too much */
    assert_int_equal(tb_copy_choose(&c), 4);
    set_all(&c, 4, 80); /* as long as another: the first of the table */
    assert_int_equal(tb_copy_choose(&c), 2);
}

/* A size weighs as much as another one, whatever it takes. */
static void ratios_are_averaged(void **state)
{
    (void)state;
    struct tb_copy_choice c = equal_times();
    for (uint32_t p = 0; p < TB_COPY_PLACES; p++) {
        for (uint32_t w = 0; w < TB_COPY_WAYS; w++)
            c.ns[w][2][p] = 100000;
        c.ns[1][0][p] = 50;
        c.ns[1][2][p] = 110000;
    }
    assert_int_equal(tb_copy_choose(&c), 1);
}

/* The string move of some processors: as fast as others wherever the sides are aligned alike, 27 times slower elsewhere. */
static void one_bad_place_rules_a_way_out(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < TB_COPY_SIZES * TB_COPY_PLACES; i++) {
        struct tb_copy_choice c = equal_times();
        set_all(&c, 4, 50);
        assert_int_equal(tb_copy_choose(&c), 4);
        c.ns[4][i / TB_COPY_PLACES][i % TB_COPY_PLACES] = 126;
        assert_int_equal(tb_copy_choose(&c), TB_COPY_LIBC);
    }
}

static void what_was_not_measured_is_not_chosen(void **state)
{
    (void)state;
    struct tb_copy_choice c = {.way = 0};
    assert_int_equal(tb_copy_choose(&c), TB_COPY_LIBC);
    c = equal_times();
    set_all(&c, 1, 50);
    set_all(&c, 2, 0); /* its processor feature is not here */
    assert_int_equal(tb_copy_choose(&c), 1);
    for (uint32_t w = 0; w < TB_COPY_WAYS; w++) /* a size that the region cannot hold */
        memset(c.ns[w][2], 0, sizeof(c.ns[w][2]));
    assert_int_equal(tb_copy_choose(&c), 1);
}

/* Memory of two sizes at least, and its guards: zeros stay zeros, all else stays as it is. */
static void measuring_changes_no_byte(void **state)
{
    (void)state;
    const size_t sizes[] = {0, 4096, 65536 + 4096, 3u << 20};
    for (uint32_t i = 0; i < 4; i++) {
        struct tb_copy_choice c;
        char *memory = calloc(1, sizes[i] + 2 * GUARD), *same = calloc(1, sizes[i] + 2 * GUARD);
        assert_true(memory && same);
        memset(memory, 0x5a, GUARD);
        memset(memory + GUARD + sizes[i], 0x5a, GUARD);
        memcpy(same, memory, sizes[i] + 2 * GUARD);
        tb_copy_measure(memory + GUARD, sizes[i], &c);
        assert_memory_equal(memory, same, sizes[i] + 2 * GUARD);
        for (uint32_t w = 0; w < TB_COPY_WAYS; w++)
            for (uint32_t s = 0; s < TB_COPY_SIZES; s++)
                assert_int_equal(tb_copy_rate(&c, w, s, 1) > 0, tb_copy_ways[w].is_here() && tb_copy_size(s) <= sizes[i]);
        assert_int_equal(c.way, tb_copy_choose(&c));
        free(memory);
        free(same);
    }
}

/* What the header says holds for each process that attaches, as far as it can. */
static void clients_copy_as_was_chosen(void **state)
{
    (void)state;
    struct fixture x;
    tb_engine *second;
    fixture_init(&x, TB_MODE_PERSISTENT_ASYNC);
    fixture_start(&x);
    struct tb_copy_choice *c = &x.engine->header->copy;
    assert_int_equal(c->way, tb_copy_choose(c));
    assert_true(tb_copy_rate(c, TB_COPY_LIBC, 0, 0) > 0);
    assert_ptr_equal(x.engine->copy, tb_copy_by(c));
    for (uint32_t w = 0; w < TB_COPY_WAYS + 2; w++) {
        bool is_usable = w < TB_COPY_WAYS && tb_copy_ways[w].is_here();
        c->way = w;
        assert_int_equal(tb_engine_attach(x.name, tb_io_libc(), &second), 0);
        assert_ptr_equal(second->copy, tb_copy_ways[is_usable ? w : TB_COPY_LIBC].copy);
        tb_engine_detach(second);
    }
    fixture_stop(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_way_copies_right),
        cmocka_unit_test(in_and_out_copy_right),
        cmocka_unit_test(equal_times_choose_libc),
        cmocka_unit_test(the_least_average_is_chosen),
        cmocka_unit_test(ratios_are_averaged),
        cmocka_unit_test(one_bad_place_rules_a_way_out),
        cmocka_unit_test(what_was_not_measured_is_not_chosen),
        cmocka_unit_test(measuring_changes_no_byte),
        cmocka_unit_test(clients_copy_as_was_chosen),
    };
    return cmocka_run_group_tests_name("copy", tests, NULL, NULL);
}
