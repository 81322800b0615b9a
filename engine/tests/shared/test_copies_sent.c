/* `copies: 2` on the node that commits: what is sent before a commit, and what is read where a node, or a file's keeper, is lost. */
#include "turn.h"

static bool has_copy(uint32_t node, uint64_t lo, uint64_t hi)
{
    char bytes[SIZE];
    struct tb_wire w = {.op = TB_WIRE_READ_COPY, .file = id, .lo = lo, .hi = hi, .version = node};
    int64_t got = copies_answer(0, &w, NULL, 0, bytes, sizeof(bytes));
    assert_true(got == -ESTALE || (got == (int64_t)(hi - lo) && bytes[0] == 1));
    return got > 0;
}

/* The keeper is here, so no other node has it. A flush promises nothing. */
static void test_a_commit_without_a_copy_is_bare(void **state)
{
    (void)state;
    uint64_t device = x.engine->shared_device;
    write_here(0, 4096);
    assert_true(say(0) > 0);
    assert_int_equal(said.told.bare, 0);
    x.engine->header->config.copies = 2;
    assert_true(say(TB_SAY_EARLY) > 0);
    assert_int_equal(said.told.bare, 0);
    assert_true(say(0) > 0);
    assert_int_equal(said.told.bare, 1);
    assert_true(say(TB_SAY_ON_PFS) > 0);
    assert_int_equal(said.told.bare, 0);
    assert_true(say(0) > 0);
    assert_int_equal(said.told.bare, 1);
    clean_here();
    x.engine->shared_device = device;
    assert_true(say(0) > 0);
    assert_int_equal(said.told.bare, 0);
}

/* Bytes first, then their commit; what has not changed is not sent again. */
static void test_a_commit_sends_copies(void **state)
{
    (void)state;
    self = 1;
    x.engine->header->config.copies = 2;
    write_here(0, 4096);
    assert_true(say(TB_SAY_EARLY) > 0);
    assert_int_equal(n_asked, 1);
    assert_true(say(0) > 0);
    assert_int_equal(said.told.bare, 0);
    assert_int_equal(asked[1], TB_WIRE_COPY);
    assert_int_equal(asked[2], TB_WIRE_COMMIT);
    assert_true(has_copy(1, 0, 4096));
    assert_true(say(0) > 0);
    assert_int_equal(n_asked, 4);
    assert_true(has_copy(1, 0, 4096));
    write_here(8192, 9000);
    assert_true(say(0) > 0);
    assert_int_equal(asked[4], TB_WIRE_COPY);
    assert_true(has_copy(1, 8192, 9000));
    assert_true(has_copy(1, 0, 4096));
    assert_false(has_copy(1, 4096, 8192));
}

/* The keeper drops its copies then, so what writes have put there must not be in a cache of this node alone. */
static void test_an_end_syncs(void **state)
{
    (void)state;
    uint64_t device = x.engine->shared_device;
    write_here(0, 4096);
    assert_true(say(0) > 0);
    clean_here();
    x.engine->region.files[file].unsynced = 1;
    say_end();
    assert_int_equal(x.engine->region.files[file].unsynced, 1);
    x.engine->shared_device = device;
    x.engine->header->config.copies = 2;
    say_end();
    assert_int_equal(x.engine->region.files[file].unsynced, 0);
}

static void lose_the_commit(void)
{
    fails = 1;
}

/* Nothing of it counts, and the next try sends all once more. */
static void test_a_copy_that_fails(void **state)
{
    (void)state;
    self = 1;
    x.engine->header->config.copies = 2;
    write_here(0, 4096);
    fails = 1;
    assert_int_equal(say(0), -EIO);
    assert_int_equal(n_asked, 0);
    copies_set_limit(100);
    assert_true(say(0) > 0);
    assert_int_equal(said.told.bare, 1);
    assert_false(has_copy(1, 0, 4096));
    copies_set_limit(1 << 20);
    assert_true(say(0) > 0);
    assert_int_equal(said.told.bare, 0);
    assert_true(has_copy(1, 0, 4096));
    write_here(0, 4096);
    meanwhile = lose_the_commit;
    assert_int_equal(say(0), -EIO);
    n_asked = 0;
    assert_true(say(0) > 0);
    assert_int_equal(asked[0], TB_WIRE_COPY);
    write_here(0, 4096);
    lies = 1; /* the copy is there, and its sender does not know it */
    assert_int_equal(say(0), -EIO);
    assert_true(say(0) > 0);
    assert_int_equal(asked[n_asked - 2], TB_WIRE_COPY);
}

/*
 * This node may be lost before it has flushed its own: a flush comes again, and a program waits. The keeper leaves all of it, since
 * a write is committed as a whole.
 */
static void test_the_keeper_waits_for_what_others_have(void **state)
{
    (void)state;
    struct tb_wire_range flushed = {0, 4096};
    x.engine->header->config.copies = 2;
    committed_by_other(0, 4096);
    write_here(0, 8192);
    assert_int_equal(say(0), -EAGAIN);
    assert_int_equal(n_told, 1);
    assert_true(say(TB_SAY_EARLY | TB_SAY_RANGES) > 0);
    assert_int_equal(n_told, 2);
    assert_int_equal(said.told.n, 0);
    assert_true(is_of(1, 0, 4096) && !is_of(0, 4096, 8192) && is_dirty(0, 8192));
    assert_true(tb_has_held(x.engine, file) && tb_has_voids(x.engine, file));
    assert_int_equal(say(TB_SAY_EARLY | TB_SAY_RANGES | TB_SAY_WRITERS), -EAGAIN);
    by_other((struct tb_wire){.op = TB_WIRE_END}, &flushed);
    assert_true(say(0) > 0);
    assert_int_equal(said.told.bare, 1);
    assert_int_equal(n_told, 3);
    assert_true(is_of(0, 0, 8192));
    assert_false(tb_has_held(x.engine, file));
}

/* An early commit is sent first then, as a whole; where there is no room it leaves what others have, and the rest is committed. */
static void test_an_early_commit_sends_what_others_have_too(void **state)
{
    (void)state;
    self = 2;
    x.engine->header->config.copies = 2;
    committed_by_other(0, 4096);
    write_here(0, 8192);
    copies_set_limit(100);
    assert_true(say(TB_SAY_EARLY | TB_SAY_RANGES) > 0);
    assert_true(said.told.n == 1 && said.range[0].lo == 4096 && said.range[0].hi == 8192);
    assert_true(tb_has_held(x.engine, file));
    copies_set_limit(1 << 20);
    assert_true(say(TB_SAY_EARLY | TB_SAY_RANGES) > 0);
    assert_true(said.told.n == 1 && said.range[0].lo == 0 && said.range[0].hi == 8192);
    assert_int_equal(said.told.bare, 0);
    assert_true(has_copy(2, 0, 8192) && is_of(2, 0, 8192));
    assert_false(tb_has_held(x.engine, file));
}

static void test_what_a_lost_node_committed_is_read(void **state)
{
    (void)state;
    struct tb_wire_range range = {0, 100};
    char bytes[8192] = {0};
    x.engine->header->config.copies = 2;
    memcpy(bytes, &range, sizeof(range));
    memset(bytes + sizeof(range), '/', 1 + 100);
    struct tb_wire copy = {.op = TB_WIRE_COPY, .file = id, .n = 1, .n_gone = 1, .hi = 1000000};
    assert_int_equal(copies_answer(1, &copy, bytes, sizeof(range) + 1 + 100, NULL, 0), 0);
    struct relay_answer a;
    struct tb_wire commit = {.op = TB_WIRE_COMMIT, .file = id, .n = 1, .hi = 1000000, .again = TB_COPIES_SENT};
    assert_true(keeper_answer(1, &commit, &range, sizeof(range), &a, sizeof(a)) >= 0);
    other_lives = false;
    struct tb_wire fetch = {.op = TB_WIRE_FETCH, .file = id, .lo = 10, .hi = 200};
    size_t head = sizeof(struct tb_told) + sizeof(struct tb_wire_extent), room = 1 << 16;
    char *answer = calloc(1, room);
    memcpy(answer, &fetch, sizeof(fetch));
    assert_int_equal(relay_request(x.engine, NULL, answer, sizeof(fetch), room), (int64_t)(head + 190));
    assert_true(answer[head] == '/' && answer[head + 89] == '/' && answer[head + 90] != '/');
    free(answer);
    assert_int_equal(n_told, 0);
}

static struct tb_net *const some_net = (struct tb_net *)&x;

/* Node 1 of four is lost, and is the keeper: the file's birth is moved until it is. */
static void lose_the_keeper(void)
{
    x.engine->header->config.copies = 2;
    n_holders = 1;
    for (count = 4; relay_keeper(some_net, &id) != 1; id.birth_ns++)
        ;
    x.engine->region.files[file].birth_ns = id.birth_ns;
    other_lives = false;
}

static int64_t ask_here(enum tb_wire_op op, char *answer, size_t room)
{
    struct tb_wire w = {.op = op, .file = id, .lo = 0, .hi = 8192};
    memcpy(answer, &w, sizeof(w));
    return relay_request(x.engine, some_net, answer, sizeof(w), room);
}

static void write_more(void)
{
    write_here(100, 200);
}

static void find_it(void)
{
    other_lives = true;
}

/* All that live are asked, twice; what none of them has the PFS has. */
static void test_a_file_whose_keeper_is_lost(void **state)
{
    (void)state;
    static char answer[65536];
    struct tb_told told;
    size_t head = sizeof(told) + sizeof(struct tb_wire_extent);
    write_here(0, 4096);
    lose_the_keeper();
    assert_int_equal(ask_here(TB_WIRE_LOOK, answer, sizeof(answer)), (int64_t)sizeof(told));
    memcpy(&told, answer, sizeof(told));
    assert_true(told.elsewhere && told.end == 4096 && told.before == UINT64_MAX);
    assert_int_equal(ask_here(TB_WIRE_FETCH, answer, sizeof(answer)), (int64_t)head + 8192);
    assert_int_equal(answer[head], 1);
    meanwhile = write_more; /* it may have moved from a node that was asked later to one that was asked before */
    assert_int_equal(ask_here(TB_WIRE_FETCH, answer, sizeof(answer)), -EAGAIN);
    n_holders = 2; /* they have the same bytes */
    assert_int_equal(ask_here(TB_WIRE_FETCH, answer, sizeof(answer)), -EIO);
    n_holders = 0;
    assert_int_equal(ask_here(TB_WIRE_LOOK, answer, sizeof(answer)), (int64_t)sizeof(told));
    memcpy(&told, answer, sizeof(told));
    assert_false(told.elsewhere);
}

static void test_a_keeper_that_is_not_lost_for_all(void **state)
{
    (void)state;
    char answer[4096];
    write_here(0, 4096);
    lose_the_keeper();
    struct tb_wire w = {.op = TB_WIRE_DIRTY, .file = id, .hi = 8192, .version = 1};
    assert_true(orphans_answer(x.engine, some_net, &w, answer, sizeof(answer)) > 0);
    assert_int_equal(orphans_answer(x.engine, some_net, &w, answer, 8), -ENOBUFS);
    x.engine->region.file_nodes[file].n_spilling++; /* these bytes are nowhere for a moment */
    assert_int_equal(orphans_answer(x.engine, some_net, &w, answer, sizeof(answer)), -EAGAIN);
    x.engine->region.file_nodes[file].n_spilling--;
    meanwhile = find_it;
    assert_int_equal(ask_here(TB_WIRE_FETCH, answer, sizeof(answer)), -EINVAL); /* no room */
    assert_int_equal(ask_here(TB_WIRE_LOOK, answer, sizeof(answer)), -EAGAIN);
    assert_true(other_lives);
    assert_int_equal(orphans_answer(x.engine, some_net, &w, answer, sizeof(answer)), -EAGAIN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_commit_without_a_copy_is_bare, begin, end),
        cmocka_unit_test_setup_teardown(test_a_commit_sends_copies, begin, end),
        cmocka_unit_test_setup_teardown(test_an_end_syncs, begin, end),
        cmocka_unit_test_setup_teardown(test_a_copy_that_fails, begin, end),
        cmocka_unit_test_setup_teardown(test_the_keeper_waits_for_what_others_have, begin, end),
        cmocka_unit_test_setup_teardown(test_an_early_commit_sends_what_others_have_too, begin, end),
        cmocka_unit_test_setup_teardown(test_what_a_lost_node_committed_is_read, begin, end),
        cmocka_unit_test_setup_teardown(test_a_file_whose_keeper_is_lost, begin, end),
        cmocka_unit_test_setup_teardown(test_a_keeper_that_is_not_lost_for_all, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
