/* Which node has which bytes of a file: what the keeper answers to commits, and to nodes that let go, end, cut and remove. */
#include "fixture.h"

#include <errno.h>

#include "keeper.h"

struct reply {
    struct tb_told told;
    struct tb_wire_extent extent[TB_WIRE_MOST];
};

static struct reply reply;

static int until_full = -1; /* so many times there is memory to grow; below 0: always */

void *__real_realloc(void *at, size_t size);
void *__wrap_realloc(void *at, size_t size);
void *__wrap_realloc(void *at, size_t size)
{
    if (until_full == 0)
        return NULL;
    until_full -= until_full > 0;
    return __real_realloc(at, size);
}

static int64_t ask(uint32_t from, struct tb_wire w, const void *more, size_t n)
{
    memset(&reply, 0, sizeof(reply));
    return keeper_answer(from, &w, more, n, &reply, sizeof(reply));
}

static const struct tb_wire_file file = {.inode = 7, .birth_ns = 8};

/* `known`: commits up to that one of which the node knows that it has to let go for them; `clock`: the number of what it says. */
static int64_t commit_at(uint32_t from, uint64_t lo, uint64_t hi, uint64_t known, uint64_t clock)
{
    struct tb_wire_range range = {lo, hi};
    return ask(from, (struct tb_wire){.op = TB_WIRE_COMMIT, .file = file, .n = 1, .lo = known, .hi = clock}, &range, sizeof(range));
}

static uint64_t now = 100; /* all nodes have one clock here */

static int64_t commit(uint32_t from, uint64_t lo, uint64_t hi)
{
    return commit_at(from, lo, hi, 0, ++now);
}

static int64_t end_at(uint32_t from, uint64_t lo, uint64_t hi, uint64_t clock)
{
    struct tb_wire_range range = {lo, hi};
    return ask(from, (struct tb_wire){.op = TB_WIRE_END, .file = file, .n = 1, .hi = clock}, &range, sizeof(range));
}

/* That node has let go for the commit, at that time of its clock. */
static void gone(uint32_t node, uint64_t version, uint64_t clock)
{
    struct tb_wire_extent x = {0, UINT64_MAX, version, node, 0};
    assert_true(ask(9, (struct tb_wire){.op = TB_WIRE_GONE, .file = file, .n_gone = 1, .hi = clock}, &x, sizeof(x)) >= 0);
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
    uint32_t nodes[] = {0, 1, 2, 3};
    for (size_t i = 0; i < 4; i++) {
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

/* A node that asks is sent to the new owner from then on, and the older one is to let go. */
static void test_a_commit_counts_at_once(void **state)
{
    (void)state;
    assert_true(commit(1, 0, 100) >= 0);
    assert_true(commit(2, 40, 60) >= 0);
    assert_int_equal(reply.told.n, 1);
    expect(0, 40, 60, 1);
    assert_int_equal(reply.extent[0].version, reply.told.version);
    where(0, 100, 8);
    expect(0, 0, 40, 1);
    expect(1, 40, 60, 2);
    expect(2, 60, 100, 1);
}

/* What it has to let go of the older node does not commit any more: unless it was written after that commit. */
static void test_what_has_to_go_is_refused(void **state)
{
    (void)state;
    assert_true(commit(1, 0, 100) >= 0);
    assert_true(commit(2, 40, 60) >= 0);
    uint64_t version = reply.told.version;
    assert_true(commit(1, 0, 50) >= 0);
    assert_int_equal(reply.told.n, 1);
    expect(0, 40, 50, 1);
    where(40, 60, 8);
    expect(0, 40, 60, 2);
    assert_true(commit_at(1, 0, 50, version, now) >= 0);
    expect(0, 40, 50, 2);
    where(0, 100, 8);
    expect(0, 0, 50, 1);
    gone(1, version, ++now);
    assert_true(commit(1, 50, 60) >= 0);
    expect(0, 50, 60, 2);
}

/* It is told as long as it has to let go of anything of the file, also where that is not of the ranges that it commits. */
static void test_who_has_to_let_go_is_told(void **state)
{
    (void)state;
    assert_true(commit(1, 0, 100) >= 0);
    assert_int_equal(reply.told.voids, 0);
    assert_true(commit(2, 40, 60) >= 0);
    assert_int_equal(reply.told.voids, 0);
    uint64_t version = reply.told.version;
    assert_true(commit(1, 200, 300) >= 0);
    assert_int_equal(reply.told.voids, 1);
    gone(1, version, ++now);
    assert_true(commit(1, 200, 300) >= 0);
    assert_int_equal(reply.told.voids, 0);
}

/* It was on its way for so long that its call has failed: what it says may be true no more. */
static void test_what_comes_late_is_void(void **state)
{
    (void)state;
    assert_true(commit_at(1, 0, 100, 0, ++now) >= 0);
    assert_true(commit(2, 40, 60) >= 0);
    uint64_t late = ++now;
    gone(1, reply.told.version, ++now);
    assert_int_equal(commit_at(1, 0, 50, 0, late), -ESTALE);
    where(40, 60, 8);
    expect(0, 40, 60, 2);
    assert_true(commit(1, 0, 50) >= 0);
    where(40, 60, 8);
    expect(0, 0, 50, 1);
    assert_int_equal(end_at(1, 0, 50, late), -ESTALE);
    assert_int_equal(ask(1, (struct tb_wire){.op = TB_WIRE_CUT, .file = file, .lo = 0, .hi = late}, NULL, 0), -ESTALE);
    where(40, 60, 8);
    expect(0, 0, 50, 1);
}

/* Another node may have committed the same bytes since the flush. */
static void test_a_list_of_before_a_flush_is_void(void **state)
{
    (void)state;
    assert_true(commit(1, 0, 100) >= 0);
    uint64_t late = ++now;
    assert_true(end_at(1, 0, 100, ++now) >= 0);
    assert_true(commit(2, 0, 100) >= 0);
    assert_int_equal(reply.told.n, 0);
    assert_int_equal(commit_at(1, 0, 100, 0, late), -ESTALE);
    assert_true(commit(1, 0, 100) >= 0);
    expect(0, 0, 100, 2);
}

/* Else the other node would not be told to let go, if the answer to the commit was lost. */
static void test_what_has_to_go_is_told_until_it_has_gone(void **state)
{
    (void)state;
    assert_true(commit(1, 0, 100) >= 0);
    assert_true(commit(2, 40, 60) >= 0);
    uint64_t version = reply.told.version;
    assert_true(commit(2, 200, 300) >= 0);
    assert_int_equal(reply.told.n, 1);
    expect(0, 40, 60, 1);
    assert_int_equal(reply.extent[0].version, version);
    assert_true(commit(3, 400, 500) >= 0);
    assert_int_equal(reply.told.n, 0);
    gone(1, version, ++now);
    assert_true(commit(2, 200, 300) >= 0);
    assert_int_equal(reply.told.n, 0);
}

/* Others may have newer bytes of what a node has committed before: a second commit of it takes nothing from them. */
static void test_only_fresh_bytes_displace(void **state)
{
    (void)state;
    assert_true(commit(1, 0, 100) >= 0);
    assert_true(commit(2, 100, 200) >= 0);
    assert_true(commit(1, 0, 150) >= 0);
    assert_int_equal(reply.told.n, 1);
    expect(0, 100, 150, 2);
    uint64_t version = reply.told.version;
    assert_true(commit(3, 120, 130) >= 0);
    assert_int_equal(reply.told.n, 2); /* the second one may still have its bytes */
    expect(0, 120, 130, 2);
    expect(1, 120, 130, 1);
    gone(2, version, ++now);
    gone(2, reply.told.version, ++now);
}

static void test_an_end_is_of_its_node_and_ranges(void **state)
{
    (void)state;
    assert_true(commit(1, 0, 100) >= 0);
    assert_true(commit(2, 30, 50) >= 0);
    assert_true(end_at(1, 0, 70, ++now) >= 0);
    where(0, 100, 8);
    assert_int_equal(reply.told.n, 2);
    expect(0, 30, 50, 2);
    expect(1, 70, 100, 1);
    look(0);
    assert_int_equal(reply.told.end, 100);
}

static void test_a_cut_and_a_removal_tell_who_has_to_go(void **state)
{
    (void)state;
    assert_true(commit(1, 0, 100) >= 0);
    assert_true(ask(2, (struct tb_wire){.op = TB_WIRE_CUT, .file = file, .lo = 70, .hi = ++now}, NULL, 0) >= 0);
    expect(0, 70, UINT64_MAX, 1);
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

/* A commit that is not taken leaves the bytes with the node that has them, whatever it had no memory for. */
static void test_without_memory_nothing_is_forgotten(void **state)
{
    (void)state;
    for (int i = 0; i < 20; i++)
        assert_true(commit(1, (uint64_t)i * 20, (uint64_t)i * 20 + 10) >= 0);
    int64_t got = -ENOMEM;
    for (int most = 0; got == -ENOMEM; most++) {
        where(0, 400, 32);
        assert_int_equal(reply.told.n, 20);
        for (uint32_t k = 0; k < 20; k++)
            expect(k, k * 20, k * 20 + 10, 1);
        until_full = most;
        got = commit(2, 5, 390);
        until_full = -1;
    }
    assert_true(got >= 0);
    where(0, 400, 32);
    expect(0, 0, 5, 1);
    expect(1, 5, 390, 2);
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

/* Of a removed file nothing stays; neighbours of one commit are one extent, and a commit of the same bytes adds none. */
static void test_memory(void **state)
{
    uint64_t before = keeper_bytes(), extents = keeper_count();
    commit(1, 0, 4096);
    uint64_t one = keeper_bytes();
    assert_true(one > before + sizeof(struct tb_wire_extent));
    commit(1, 0, 4096);
    assert_int_equal(keeper_bytes(), one);
    commit(1, 8192, 12288);
    assert_int_equal(keeper_bytes(), one + sizeof(struct tb_wire_extent));
    assert_int_equal(keeper_count(), extents + 2);
    forget(state);
    assert_int_equal(keeper_bytes(), before);
    assert_int_equal(keeper_count(), extents);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_nobody_has_anything, forget),
        cmocka_unit_test_teardown(test_a_commit_is_elsewhere_for_others, forget),
        cmocka_unit_test_teardown(test_a_commit_counts_at_once, forget),
        cmocka_unit_test_teardown(test_what_has_to_go_is_refused, forget),
        cmocka_unit_test_teardown(test_who_has_to_let_go_is_told, forget),
        cmocka_unit_test_teardown(test_what_comes_late_is_void, forget),
        cmocka_unit_test_teardown(test_a_list_of_before_a_flush_is_void, forget),
        cmocka_unit_test_teardown(test_what_has_to_go_is_told_until_it_has_gone, forget),
        cmocka_unit_test_teardown(test_only_fresh_bytes_displace, forget),
        cmocka_unit_test_teardown(test_an_end_is_of_its_node_and_ranges, forget),
        cmocka_unit_test_teardown(test_a_cut_and_a_removal_tell_who_has_to_go, forget),
        cmocka_unit_test_teardown(test_where_ends_where_it_is_full, forget),
        cmocka_unit_test_teardown(test_without_memory_nothing_is_forgotten, forget),
        cmocka_unit_test_teardown(test_malformed, forget),
        cmocka_unit_test_teardown(test_memory, forget),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
