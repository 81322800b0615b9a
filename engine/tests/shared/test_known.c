/*
 * What a node keeps of a keeper's answers (daemon/fetch/known.h): found as it was said, and never once a later look, a change or another
 * node's commit has made it void, in whatever order the answers come.
 */
#include "fixture.h"

#include "fetch/known.h"

static const struct tb_wire_file one = {.inode = 11, .birth_ns = 22};

static struct relay_answer answer_of(uint64_t version, uint32_t n, uint64_t before)
{
    struct relay_answer a = {.told = {.version = version, .before = before, .n = n}};
    for (uint32_t i = 0; i < n; i++)
        a.extent[i] = (struct tb_wire_extent){.lo = 100 * i, .hi = 100 * i + 50, .version = version, .node = 1};
    return a;
}

static int find(const struct tb_wire_file *file, uint64_t lo, uint64_t hi, struct relay_answer *out)
{
    struct tb_wire w = {.op = TB_WIRE_WHERE, .file = *file, .lo = lo, .hi = hi};
    return known_find(&w, out);
}

static uint64_t version_of(const struct tb_wire_file *file)
{
    struct relay_answer found;
    return find(file, 0, 10, &found) ? found.told.version : 0;
}

static void keep(const struct tb_wire_file *file, uint64_t moment, uint64_t version)
{
    struct relay_answer a = answer_of(version, 3, UINT64_MAX);
    known_keep(file, moment, 0, &a);
}

static void look(const struct tb_wire_file *file, uint64_t moment, uint64_t version)
{
    struct relay_answer a = answer_of(version, 3, UINT64_MAX);
    known_look(file, moment, &a);
}

/* The part of the range, and no more than was told. */
static void test_as_it_was_said(void **state)
{
    (void)state;
    struct relay_answer a = answer_of(7, 3, 240), found;
    known_forget(&one);
    assert_false(find(&one, 0, 10, &found));
    known_keep(&one, known_moment(&one), 20, &a);
    assert_true(find(&one, 120, 220, &found));
    assert_int_equal(found.told.n, 2);
    assert_int_equal(found.told.before, 220);
    assert_int_equal(found.extent[0].lo, 100);
    assert_int_equal(found.extent[1].hi, 250);
    assert_true(find(&one, 60, 90, &found));
    assert_int_equal(found.told.n, 0);
    assert_false(find(&one, 10, 30, &found));
    assert_false(find(&one, 220, 241, &found));
    assert_false(find(&(struct tb_wire_file){.inode = 11, .birth_ns = 23}, 60, 90, &found));
}

/* A list that was asked for before a look is not kept after it. */
static void test_a_late_answer_is_void(void **state)
{
    (void)state;
    uint64_t before = known_moment(&one);
    look(&one, known_moment(&one), 8);
    keep(&one, before, 7);
    assert_int_equal(version_of(&one), 8);
    before = known_moment(&one);
    known_forget(&one);
    keep(&one, before, 8);
    assert_int_equal(version_of(&one), 0);
}

/* Of two looks at the same time the one that ends first may have the later commits. */
static void test_looks_at_the_same_time(void **state)
{
    (void)state;
    uint64_t first = known_moment(&one), second = known_moment(&one);
    look(&one, second, 9);
    look(&one, first, 8);
    assert_int_equal(version_of(&one), 0);
    keep(&one, known_moment(&one), 10);
    assert_int_equal(version_of(&one), 10);
}

/* Of two fetches after the same look: what was read by the later list is not undone. */
static void test_fetches_at_the_same_time(void **state)
{
    (void)state;
    uint64_t moment = known_moment(&one);
    keep(&one, moment, 12);
    keep(&one, moment, 11);
    assert_int_equal(version_of(&one), 12);
    keep(&one, moment, 13);
    assert_int_equal(version_of(&one), 13);
}

/* Files that take each other's places, thousands of them: each is found as it is, or not at all. */
static void test_files_with_one_place(void **state)
{
    (void)state;
    unsigned found = 0;
    for (uint64_t i = 1; i <= 5000; i++)
        look(&(struct tb_wire_file){i, 1}, known_moment(&(struct tb_wire_file){i, 1}), i);
    for (uint64_t i = 1; i <= 5000; i++) {
        uint64_t version = version_of(&(struct tb_wire_file){i, 1});
        assert_true(version == 0 || version == i);
        found += version != 0;
    }
    assert_in_range(found, 500, 1024);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_as_it_was_said),         cmocka_unit_test(test_a_late_answer_is_void),
        cmocka_unit_test(test_looks_at_the_same_time), cmocka_unit_test(test_fetches_at_the_same_time),
        cmocka_unit_test(test_files_with_one_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
