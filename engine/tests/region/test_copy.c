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

static struct tb_copier all_by(tb_copy_bytes *copy)
{
    return (struct tb_copier){{copy, copy}, {copy, copy}, true};
}

/* The engine's own two functions, which send the shortest ones another way. */
static void in_and_out_copy_right(void **state)
{
    (void)state;
    fill();
    for (uint32_t w = 0; w < TB_COPY_WAYS; w++)
        for (uint32_t n = 0; n <= LONGEST && tb_copy_ways[w].is_here(); n++) {
            struct tb_copier by = all_by(tb_copy_ways[w].copy);
            memset(to, 0xa5, n + 1);
            tb_copy_will_come(&by, to, n);
            tb_copy_in(&by, to, from + 1, n);
            assert_memory_equal(to, from + 1, n);
            assert_int_equal(to[n], 0xa5);
            memset(to, 0xa5, n + 1);
            tb_copy_out(&by, to, from + 3, n);
            assert_memory_equal(to, from + 3, n);
            assert_int_equal(to[n], 0xa5);
        }
}

#ifndef __SANITIZE_THREAD__ /* for it all copies are one way: atomic */

/* Which copies a call goes to. */
static uint32_t short_in, long_in, short_out, long_out;
#define COUNTING(counter)                                              \
    static void counting_##counter(void *at, const void *of, size_t n) \
    {                                                                  \
        (counter)++;                                                   \
        memcpy(at, of, n);                                             \
    }
COUNTING(short_in)
COUNTING(long_in)
COUNTING(short_out)
COUNTING(long_out)

static void direction_and_length_say_the_way(void **state)
{
    static char one[TB_COPY_LONG], other[TB_COPY_LONG];
    const size_t lengths[] = {1, TB_COPY_LEAST - 1, TB_COPY_LEAST, TB_COPY_LONG - 1, TB_COPY_LONG};
    struct tb_copier by = {{counting_short_in, counting_long_in}, {counting_short_out, counting_long_out}, false};
    (void)state;
    for (uint32_t i = 0; i < 5; i++) {
        tb_copy_in(&by, one, other, lengths[i]);
        if (i > 2)
            tb_copy_out(&by, one, other, lengths[i]);
    }
    assert_int_equal(short_in, 2);
    assert_int_equal(long_in, 1);
    assert_int_equal(short_out, 1);
    assert_int_equal(long_out, 1);
}

#endif

static void set_kind(struct tb_copy_choice *c, uint32_t kind, uint32_t way, double ns)
{
    for (uint32_t i = 0; i < TB_COPY_SIZES * TB_COPY_PLACES; i++)
        c->ns[kind][way][i / TB_COPY_PLACES][i % TB_COPY_PLACES] = ns;
}

/* In and out, short and long, but not asked for ahead. */
static void set_all(struct tb_copy_choice *c, uint32_t way, double ns)
{
    set_kind(c, TB_COPY_IN, way, ns);
    set_kind(c, TB_COPY_OUT, way, ns);
}

/* All ways take as long as libc's. */
static struct tb_copy_choice equal_times(void)
{
    struct tb_copy_choice c = {.ahead = 0};
    for (uint32_t w = 0; w < TB_COPY_WAYS; w++) {
        set_all(&c, w, 100);
        for (uint32_t p = 0; p < TB_COPY_PLACES; p++)
            c.ns[TB_COPY_IN_AHEAD][w][0][p] = 100;
    }
    return c;
}

/* The same way for each direction and length. */
static void chosen(struct tb_copy_choice *c, uint32_t way)
{
    tb_copy_choose(c);
    for (uint32_t i = 0; i < 2 * TB_COPY_DIRECTIONS; i++)
        assert_int_equal(tb_copy_chosen(c, i / 2, i % 2), way);
    assert_false(c->ahead);
}

static void equal_times_choose_libc(void **state)
{
    (void)state;
    struct tb_copy_choice c = equal_times();
    chosen(&c, TB_COPY_LIBC);
    set_all(&c, 3, 95.5); /* within the margin */
    chosen(&c, TB_COPY_LIBC);
    set_all(&c, 3, 94.5);
    chosen(&c, 3);
}

static void the_least_average_is_chosen(void **state)
{
    (void)state;
    struct tb_copy_choice c = equal_times();
    set_all(&c, 2, 80);
    set_all(&c, 4, 70);
    chosen(&c, 4);
    c.ns[TB_COPY_OUT][4][0][3] = 105; /* slower there, and not by too much */
    chosen(&c, 4);
    set_all(&c, 4, 80); /* as long as another: the first of the table */
    chosen(&c, 2);
}

/* Each direction and each length has its own way. */
static void directions_and_lengths_are_chosen_apart(void **state)
{
    (void)state;
    struct tb_copy_choice c = equal_times();
    for (uint32_t p = 0; p < TB_COPY_PLACES; p++) {
        c.ns[TB_COPY_OUT][3][0][p] = 80; /* 4 KiB out */
        c.ns[TB_COPY_IN][2][1][p] = 90;  /* 64 KiB in, */
        c.ns[TB_COPY_IN][2][2][p] = 92;  /* and 1 MiB */
    }
    tb_copy_choose(&c);
    assert_int_equal(tb_copy_chosen(&c, TB_COPY_OUT, false), 3);
    assert_int_equal(tb_copy_chosen(&c, TB_COPY_OUT, true), TB_COPY_LIBC);
    assert_int_equal(tb_copy_chosen(&c, TB_COPY_IN, false), TB_COPY_LIBC);
    assert_int_equal(tb_copy_chosen(&c, TB_COPY_IN, true), 2);
}

/* A size weighs as much as another one, whatever it takes. */
static void ratios_are_averaged(void **state)
{
    (void)state;
    struct tb_copy_choice c = equal_times();
    for (uint32_t p = 0; p < TB_COPY_PLACES; p++) {
        for (uint32_t w = 0; w < TB_COPY_WAYS; w++)
            c.ns[TB_COPY_IN][w][2][p] = 100000;
        c.ns[TB_COPY_IN][1][1][p] = 50;
        c.ns[TB_COPY_IN][1][2][p] = 110000;
    }
    tb_copy_choose(&c);
    assert_int_equal(tb_copy_chosen(&c, TB_COPY_IN, true), 1);
}

/* The string move of some processors: as fast as others wherever the sides are aligned alike, 27 times slower elsewhere. */
static void one_bad_place_rules_a_way_out(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < TB_COPY_SIZES * TB_COPY_PLACES; i++) {
        struct tb_copy_choice c = equal_times();
        uint32_t size = i / TB_COPY_PLACES;
        set_all(&c, 4, 50);
        chosen(&c, 4);
        c.ns[TB_COPY_OUT][4][size][i % TB_COPY_PLACES] = 126;
        tb_copy_choose(&c);
        assert_int_equal(tb_copy_chosen(&c, TB_COPY_OUT, size > 0), TB_COPY_LIBC);
        assert_int_equal(tb_copy_chosen(&c, TB_COPY_OUT, size == 0), 4);
    }
}

/* Short ones in, where that helps by the margin; what is the fastest with it need not be so without. */
static void what_helps_is_asked_for_ahead(void **state)
{
    (void)state;
    struct tb_copy_choice c = equal_times();
    set_kind(&c, TB_COPY_IN, 3, 90);
    set_kind(&c, TB_COPY_IN_AHEAD, 0, 86); /* not 0.95 of the 90 */
    tb_copy_choose(&c);
    assert_int_equal(c.ahead, 0);
    assert_int_equal(tb_copy_chosen(&c, TB_COPY_IN, false), 3);
    set_kind(&c, TB_COPY_IN_AHEAD, 0, 80);
    tb_copy_choose(&c);
    assert_int_equal(c.ahead, 1);
    assert_int_equal(tb_copy_chosen(&c, TB_COPY_IN, false), TB_COPY_LIBC);
    assert_int_equal(tb_copy_chosen(&c, TB_COPY_IN, true), 3);
    assert_true(tb_copy_by(&c).ahead);
}

static void what_was_not_measured_is_not_chosen(void **state)
{
    (void)state;
    struct tb_copy_choice c = {.ahead = 0};
    chosen(&c, TB_COPY_LIBC);
    c = equal_times();
    set_all(&c, 1, 50);
    set_all(&c, 2, 0); /* its processor feature is not here */
    chosen(&c, 1);
    for (uint32_t i = 0; i < TB_COPY_KINDS * TB_COPY_WAYS; i++) /* a size that the region cannot hold */
        memset(c.ns[i / TB_COPY_WAYS][i % TB_COPY_WAYS][2], 0, sizeof(c.ns[0][0][2]));
    chosen(&c, 1);
}

static bool is_measured(uint32_t kind, uint32_t way, size_t size, size_t room)
{
    return tb_copy_ways[way].is_here() && size <= room && (kind != TB_COPY_IN_AHEAD || size < TB_COPY_LONG);
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
        for (uint32_t k = 0; k < TB_COPY_KINDS; k++)
            for (uint32_t j = 0; j < TB_COPY_WAYS * TB_COPY_SIZES; j++) {
                uint32_t w = j / TB_COPY_SIZES, s = j % TB_COPY_SIZES;
                assert_int_equal(tb_copy_rate(&c, k, w, s, 1) > 0, is_measured(k, w, tb_copy_size(s), sizes[i]));
            }
        struct tb_copy_choice again = c;
        tb_copy_choose(&again);
        assert_memory_equal(&again, &c, sizeof(c));
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
    assert_true(tb_copy_rate(c, TB_COPY_OUT, TB_COPY_LIBC, 0, 0) > 0);
    for (uint32_t i = 0; i < 4 * (TB_COPY_WAYS + 2); i++) {
        uint32_t w = i / 4, direction = i % 4 / 2, length = i % 2;
        bool is_usable = w < TB_COPY_WAYS && tb_copy_ways[w].is_here();
        c->way[direction][length] = w;
        c->ahead = w % 2;
        assert_int_equal(tb_engine_attach(x.name, tb_io_libc(), &second), 0);
        tb_copy_bytes *const *by = direction == TB_COPY_IN ? second->copy.in : second->copy.out;
        assert_ptr_equal(by[length], tb_copy_ways[is_usable ? w : TB_COPY_LIBC].copy);
        assert_int_equal(second->copy.ahead, w % 2);
        tb_engine_detach(second);
    }
    fixture_stop(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_way_copies_right),
        cmocka_unit_test(in_and_out_copy_right),
#ifndef __SANITIZE_THREAD__
        cmocka_unit_test(direction_and_length_say_the_way),
#endif
        cmocka_unit_test(equal_times_choose_libc),
        cmocka_unit_test(the_least_average_is_chosen),
        cmocka_unit_test(directions_and_lengths_are_chosen_apart),
        cmocka_unit_test(ratios_are_averaged),
        cmocka_unit_test(one_bad_place_rules_a_way_out),
        cmocka_unit_test(what_helps_is_asked_for_ahead),
        cmocka_unit_test(what_was_not_measured_is_not_chosen),
        cmocka_unit_test(measuring_changes_no_byte),
        cmocka_unit_test(clients_copy_as_was_chosen),
    };
    return cmocka_run_group_tests_name("copy", tests, NULL, NULL);
}
