/* Who has which bytes of a file: what the keeper answers to commits, and to nodes that let go, end, cut and remove. */
#include "fixture.h"

#include <errno.h>

#include "keeper.h"

struct reply {
    struct tb_told told;
    struct tb_wire_extent extent[TB_WIRE_MOST];
};

static struct reply reply;

static int64_t ask(uint32_t from, struct tb_wire w, const void *more, size_t n)
{
    memset(&reply, 0, sizeof(reply));
    return keeper_answer(from, &w, more, n, &reply, sizeof(reply));
}

static const struct tb_wire_file file = {.inode = 7, .birth_ns = 8};

static int64_t commit(uint32_t from, uint64_t lo, uint64_t hi)
{
    struct tb_wire_range range = {lo, hi};
    return ask(from, (struct tb_wire){.op = TB_WIRE_COMMIT, .file = file, .n = 1}, &range, sizeof(range));
}

/* The same, when those of the last answer have let go. */
static int64_t commit_without(uint32_t from, uint64_t lo, uint64_t hi)
{
    struct {
        struct tb_wire_range range;
        struct tb_wire_extent gone[4];
    } more = {.range = {lo, hi}};
    uint32_t n = reply.told.n;
    memcpy(more.gone, reply.extent, n * sizeof(more.gone[0]));
    return ask(from, (struct tb_wire){.op = TB_WIRE_COMMIT, .file = file, .n = 1, .n_gone = n}, &more,
               sizeof(more.range) + n * sizeof(more.gone[0]));
}

static void look(uint32_t from)
{
    assert_true(ask(from, (struct tb_wire){.op = TB_WIRE_LOOK, .file = file}, NULL, 0) >= 0);
}

static void where(uint64_t lo, uint64_t hi, uint64_t most)
{
    assert_true(ask(0, (struct tb_wire){.op = TB_WIRE_WHERE, .file = file, .lo = lo, .hi = hi, .version = most}, NULL, 0) >= 0);
}

static void expect(uint32_t i, uint64_t lo, uint64_t hi, uint32_t node)
{
    assert_true(i < reply.told.n);
    assert_int_equal(reply.extent[i].lo, lo);
    assert_int_equal(reply.extent[i].hi, hi);
    assert_int_equal(reply.extent[i].node, node);
}

static int forget(void **state)
{
    (void)state;
    uint32_t nodes[] = {0, 1, 2};
    for (size_t i = 0; i < 3; i++) {
        struct tb_wire_extent all = {0, UINT64_MAX, UINT64_MAX, nodes[i], 0};
        ask(3, (struct tb_wire){.op = TB_WIRE_REMOVE, .file = file, .n_gone = 1}, &all, sizeof(all));
    }
    return 0;
}

static void test_nobody_has_anything(void **state)
{
    (void)state;
    look(0);
    assert_int_equal(reply.told.version, 0);
    assert_int_equal(reply.told.elsewhere, 0);
    where(0, 100, 8);
    assert_int_equal(reply.told.n, 0);
    assert_int_equal(reply.told.before, 100);
}

static void test_a_commit_is_elsewhere_for_others(void **state)
{
    (void)state;
    assert_true(commit(1, 10, 20) >= 0);
    uint64_t version = reply.told.version;
    assert_true(version > 0);
    assert_int_equal(reply.told.elsewhere, 0);
    look(0);
    assert_int_equal(reply.told.version, version);
    assert_int_equal(reply.told.elsewhere, 1);
    assert_int_equal(reply.told.end, 20);
    assert_true(commit(1, 15, 30) >= 0);
    assert_int_equal(reply.told.before, version);
    assert_true(reply.told.version > version);
    where(0, 100, 8);
    expect(0, 10, 15, 1);
    expect(1, 15, 30, 1);
    assert_int_equal(reply.told.n, 2);
}

static void test_older_bytes_go_before_a_commit_counts(void **state)
{
    (void)state;
    assert_true(commit(1, 0, 100) >= 0);
    assert_true(commit(2, 40, 60) >= 0);
    assert_int_equal(reply.told.n, 1);
    expect(0, 40, 60, 1);
    struct reply before = reply;
    where(0, 100, 8);
    expect(0, 0, 100, 1);
    reply = before;
    assert_true(commit_without(2, 40, 60) >= 0);
    assert_int_equal(reply.told.n, 0);
    where(0, 100, 8);
    expect(0, 0, 40, 1);
    expect(1, 40, 60, 2);
    expect(2, 60, 100, 1);
}

/* What was committed again since the answer is not gone. */
static void test_a_newer_commit_is_not_gone(void **state)
{
    (void)state;
    assert_true(commit(1, 0, 100) >= 0);
    assert_true(commit(2, 40, 60) >= 0);
    struct reply before = reply;
    assert_true(commit(1, 50, 60) >= 0);
    reply = before;
    assert_true(commit_without(2, 40, 60) >= 0);
    assert_int_equal(reply.told.n, 1);
    expect(0, 50, 60, 1);
}

/* A flush ends what it wrote, and not what was committed after it began. */
static void test_an_end_is_of_its_commit(void **state)
{
    (void)state;
    assert_true(commit(1, 0, 100) >= 0);
    uint64_t flushed = reply.told.version;
    assert_true(commit(1, 30, 50) >= 0);
    struct tb_wire_range all = {0, 100};
    assert_true(ask(1, (struct tb_wire){.op = TB_WIRE_END, .file = file, .n = 1, .version = flushed}, &all, sizeof(all)) >= 0);
    where(0, 100, 8);
    assert_int_equal(reply.told.n, 1);
    expect(0, 30, 50, 1);
    look(0);
    assert_int_equal(reply.told.end, 50);
}

static void test_a_cut_and_a_removal_tell_who_has_to_go(void **state)
{
    (void)state;
    assert_true(commit(1, 0, 100) >= 0);
    assert_true(ask(2, (struct tb_wire){.op = TB_WIRE_CUT, .file = file, .lo = 70, .hi = UINT64_MAX}, NULL, 0) >= 0);
    expect(0, 70, 100, 1);
    assert_true(ask(1, (struct tb_wire){.op = TB_WIRE_CUT, .file = file, .lo = 70, .hi = UINT64_MAX}, NULL, 0) >= 0);
    assert_int_equal(reply.told.n, 0);
    where(0, 100, 8);
    expect(0, 0, 70, 1);
    assert_true(ask(2, (struct tb_wire){.op = TB_WIRE_REMOVE, .file = file, .hi = UINT64_MAX}, NULL, 0) >= 0);
    expect(0, 0, 70, 1);
    assert_true(ask(1, (struct tb_wire){.op = TB_WIRE_REMOVE, .file = file, .hi = UINT64_MAX}, NULL, 0) >= 0);
    look(0);
    assert_int_equal(reply.told.version, 0);
}

/* An answer that has no room for all says how far it goes. */
static void test_where_ends_where_it_is_full(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 8; i++)
        assert_true(commit(i % 2 ? 1 : 2, i * 10, i * 10 + 10) >= 0);
    where(5, 75, 3);
    assert_int_equal(reply.told.n, 3);
    assert_int_equal(reply.told.before, 30);
    where(30, 75, 3);
    expect(0, 30, 40, 1);
}

static void test_malformed(void **state)
{
    (void)state;
    struct tb_wire_range empty = {5, 5};
    assert_int_equal(ask(1, (struct tb_wire){.op = TB_WIRE_COMMIT, .file = file, .n = 1}, &empty, sizeof(empty)), -EPROTO);
    assert_int_equal(ask(1, (struct tb_wire){.op = TB_WIRE_COMMIT, .file = file, .n = 2}, &empty, sizeof(empty)), -EPROTO);
    assert_int_equal(ask(1, (struct tb_wire){.op = TB_WIRE_COMMIT, .file = file, .n_gone = UINT32_MAX}, NULL, 0), -EPROTO);
    look(0);
    assert_int_equal(reply.told.end, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_nobody_has_anything, forget),
        cmocka_unit_test_teardown(test_a_commit_is_elsewhere_for_others, forget),
        cmocka_unit_test_teardown(test_older_bytes_go_before_a_commit_counts, forget),
        cmocka_unit_test_teardown(test_a_newer_commit_is_not_gone, forget),
        cmocka_unit_test_teardown(test_an_end_is_of_its_commit, forget),
        cmocka_unit_test_teardown(test_a_cut_and_a_removal_tell_who_has_to_go, forget),
        cmocka_unit_test_teardown(test_where_ends_where_it_is_full, forget),
        cmocka_unit_test_teardown(test_malformed, forget),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
