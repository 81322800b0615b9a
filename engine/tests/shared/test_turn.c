/*
 * What a node says of its bytes to a file's keeper: a list is true when the keeper takes it, whatever else goes on. The keeper is here
 * (node 0), without a network between; node 1 is the other one.
 */
#include "turn.h"

#include "flush/flush.h"

/* Another thread of the daemon, which waits for the turn: then the first one goes on (the linker wraps the call). */
static pthread_t other;
static bool has_other;
static _Atomic bool waits;
static void (*act)(void);

int __real_pthread_mutex_lock(pthread_mutex_t *lock);
int __wrap_pthread_mutex_lock(pthread_mutex_t *lock);

int __wrap_pthread_mutex_lock(pthread_mutex_t *lock)
{
    if (has_other && pthread_self() == other && pthread_mutex_trylock(lock) == 0)
        return 0;
    waits |= has_other && pthread_self() == other;
    return __real_pthread_mutex_lock(lock);
}

static void *run_other(void *arg)
{
    (void)arg;
    other = pthread_self();
    has_other = true;
    act();
    waits = true; /* or it has not waited at all */
    return NULL;
}

static void begin_other(void)
{
    pthread_t thread;
    waits = false;
    assert_int_equal(pthread_create(&thread, NULL, run_other, NULL), 0);
    while (!waits)
        ;
    other = thread;
}

static void join_other(void)
{
    pthread_join(other, NULL);
    has_other = false;
}

/* Bytes that are flushed while their commit is on its way: the keeper forgets them after it has taken that, and not before. */
static void flush_and_end(void)
{
    clean_here();
    act = say_end;
    begin_other();
}

static void test_an_end_waits_for_a_commit(void **state)
{
    (void)state;
    write_here(0, 4096);
    assert_true(say(0) > 0);
    meanwhile = flush_and_end;
    assert_true(say(0) > 0);
    join_other();
    assert_int_equal(asked[n_asked - 1], TB_WIRE_END);
    assert_int_equal(asked[n_asked - 2], TB_WIRE_COMMIT);
    assert_true(is_nobodys(0, 4096));
}

/* The list has these bytes. If they went before the keeper takes it, the other node would let go of its own for them. */
static int64_t version_of_other;

static void let_go_of_all(void)
{
    let_go((uint64_t)version_of_other);
}

static void commit_there_and_let_go(void)
{
    version_of_other = committed_by_other(0, 4096);
    act = let_go_of_all;
    begin_other();
    assert_true(is_dirty(0, 4096));
}

static void test_letting_go_waits_for_a_commit(void **state)
{
    (void)state;
    write_here(0, 4096);
    assert_true(say(0) > 0);
    meanwhile = commit_there_and_let_go;
    assert_true(say(TB_SAY_RANGES) > 0);
    join_other();
    assert_int_equal(said.told.n, 0); /* it was refused: the other node's are newer */
    assert_true(is_of(1, 0, 4096));
    assert_false(is_dirty(0, 1));
}

/* What was written here since the other node's commit was made stays in the list; what is older does not. */
static void test_what_is_refused_is_left_out(void **state)
{
    (void)state;
    write_here(0, 8192);
    assert_true(say(0) > 0);
    committed_by_other(0, 8192);
    write_here(4096, 8192);
    assert_true(say(TB_SAY_RANGES) > 0);
    assert_int_equal(said.told.n, 1);
    assert_int_equal(said.range[0].lo, 4096);
    assert_int_equal(said.range[0].hi, 8192);
    assert_int_equal(x.engine->region.file_nodes[file].voids, 1);
    assert_true(is_of(1, 0, 4096));
    assert_true(is_of(0, 4096, 8192));
    assert_int_equal(said.told.owed, TB_OWED_FLUSHES);
    assert_true(n_told > 0);
}

/* A write that a flush took along has changed what other nodes may keep of the file, though nothing is dirty any more. */
static void test_a_write_that_was_flushed_is_told(void **state)
{
    (void)state;
    uint64_t device = x.engine->shared_device;
    write_here(0, 4096);
    assert_true(say(TB_SAY_EARLY) > 0);
    uint64_t before = said.told.version;
    write_here(0, 4096);
    clean_here();
    x.engine->shared_device = device;
    assert_true(tb_shared_has_news(x.engine, file));
    assert_true(say(0) > 0);
    assert_true(said.told.version > before);
    assert_false(tb_shared_has_news(x.engine, file));
    before = said.told.version;
    assert_true(say(0) > 0);
    assert_int_equal(said.told.version, before);
}

/* It may have a part of it and not the rest; the write that asks for the list would have to be done again without end. */
static void test_a_list_tears_a_write_that_is_under_way(void **state)
{
    (void)state;
    const struct tb_file_nodes *f = &x.engine->region.file_nodes[file];
    uint32_t before = f->n_torn;
    write_here(0, 4096);
    assert_true(say(TB_SAY_EARLY | TB_SAY_WRITERS) > 0);
    assert_int_equal(f->n_torn, before);
    for (uint64_t how = 0; how <= TB_SAY_EARLY; how += TB_SAY_EARLY) {
        assert_true(say(how) > 0);
        assert_true(f->n_torn > before);
        before = f->n_torn;
    }
}

/* A drain is one, too: what it could not flush is older than what another node commits after it. */
static void test_an_early_commit_counts(void **state)
{
    (void)state;
    write_here(0, 4096);
    assert_true(say(TB_SAY_EARLY) > 0);
    let_go((uint64_t)committed_by_other(0, 4096));
    assert_false(is_dirty(0, 1));
}

/* It is told a second time, since its answer was lost. What was written and committed since is newer, and no note says so any more. */
static void test_what_was_settled_is_not_let_go_of_again(void **state)
{
    (void)state;
    write_here(0, 4096);
    assert_true(say(0) > 0);
    uint64_t version = (uint64_t)committed_by_other(0, 4096);
    let_go(version);
    struct tb_wire_extent gone = {0, UINT64_MAX, version, 0, 0};
    struct relay_answer a;
    struct tb_wire w = {.op = TB_WIRE_GONE, .file = id, .n_gone = 1};
    assert_true(keeper_answer(1, &w, &gone, sizeof(gone), &a, sizeof(a)) >= 0);
    write_here(0, 4096);
    assert_true(say(0) > 0);
    let_go(version);
    assert_true(is_dirty(0, 4096));
}

/* A call that fails: what it said may come to the keeper later, and what the keeper said may never come here. */
static void test_an_answer_that_is_lost(void **state)
{
    (void)state;
    committed_by_other(0, 4096);
    write_here(0, 4096);
    lies = 1;
    assert_int_equal(say(0), -EIO);
    assert_int_equal(n_told, 0);
    struct tb_wire late = last;
    assert_true(say(0) > 0);
    assert_true(n_told > 0);
    struct relay_answer a;
    late.n = 0;
    assert_int_equal(keeper_answer(0, &late, NULL, 0, &a, sizeof(a)), -ESTALE);
}

static void test_a_cut_leaves_what_was_written_since(void **state)
{
    (void)state;
    char bytes[4096];
    write_here(0, 8192);
    assert_true(say(0) > 0);
    struct tb_wire w = {.op = TB_WIRE_CUT, .file = id, .lo = 4096, .hi = UINT64_MAX};
    memcpy(bytes, &w, sizeof(w));
    assert_true(relay_request(x.engine, NULL, bytes, sizeof(w), sizeof(bytes)) > 0);
    assert_true(is_of(0, 0, 8192));
    clean_here();
    say_end();
    memcpy(bytes, &w, sizeof(w));
    assert_true(relay_request(x.engine, NULL, bytes, sizeof(w), sizeof(bytes)) > 0);
    assert_true(is_nobodys(4096, 8192));
}

/* What a client asks of its daemon, which is this process (the linker wraps the calls). */
int64_t __wrap_tb_ask_for(tb_engine *e, const struct tb_wire *w, const void *more, size_t n, void *answer, size_t room, uint64_t seconds);
int64_t __wrap_tb_ask(tb_engine *e, const struct tb_wire *w, const void *more, size_t n, void *answer, size_t room);

int64_t __wrap_tb_ask_for(tb_engine *e, const struct tb_wire *w, const void *more, size_t n, void *answer, size_t room, uint64_t seconds)
{
    char *bytes = malloc(sizeof(*w) + n + room);
    (void)seconds;
    memcpy(bytes, w, sizeof(*w));
    if (n)
        memcpy(bytes + sizeof(*w), more, n);
    int64_t got = relay_request(e, NULL, bytes, sizeof(*w) + n, room);
    memcpy(answer, bytes, got > 0 ? (size_t)got : 0);
    free(bytes);
    return got;
}

int64_t __wrap_tb_ask(tb_engine *e, const struct tb_wire *w, const void *more, size_t n, void *answer, size_t room)
{
    return __wrap_tb_ask_for(e, w, more, n, answer, room, 0);
}

/*
 * A flush begins with older bytes, and a write replaces a part of them before they are copied. If that part went to the PFS, and the rest of
 * the write counted later, the other node's write of the same bytes, which came in between, would be there in the other part.
 */
static void test_a_flush_takes_no_part_of_a_newer_write(void **state)
{
    (void)state;
    write_here(0, 4096);
    assert_true(tb_flush_claim(x.engine, file));
    write_here(0, 8192);
    assert_int_equal(tb_flush_giving_way(x.engine, file, -1, false).error, 0);
    let_go((uint64_t)committed_by_other(0, 8192));
    assert_true(say(0) > 0);
    assert_true(is_of(0, 0, 8192) || is_of(1, 0, 8192));
}

/* A program that writes the same bytes again and again does not hold up the flush for ever. */
static void write_again(void)
{
    meanwhile = write_again;
    write_here(0, 4096);
}

static void test_a_flush_ends_though_a_program_goes_on_writing(void **state)
{
    (void)state;
    write_here(0, 4096);
    meanwhile = write_again;
    assert_true(tb_flush_claim(x.engine, file));
    assert_int_equal(tb_flush_giving_way(x.engine, file, -1, false).error, 0);
    meanwhile = NULL;
    int commits = 0;
    for (int i = 0; i < n_asked; i++)
        commits += asked[i] == TB_WIRE_COMMIT;
    assert_int_equal(commits, 5);
    assert_int_equal(x.engine->region.files[file].n_dirty, 0);
}

static void test_malformed(void **state)
{
    (void)state;
    char bytes[4096] = {0};
    struct tb_wire w = {.op = TB_WIRE_SAY_END, .file = id, .n = 7};
    memcpy(bytes, &w, sizeof(w));
    assert_int_equal(relay_request(x.engine, NULL, bytes, sizeof(w), sizeof(bytes)), -EPROTO);
    w.op = TB_WIRE_SAY;
    memcpy(bytes, &w, sizeof(w));
    assert_int_equal(relay_request(x.engine, NULL, bytes, sizeof(w) + 1, sizeof(bytes)), -EPROTO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_an_end_waits_for_a_commit, begin, end),
        cmocka_unit_test_setup_teardown(test_letting_go_waits_for_a_commit, begin, end),
        cmocka_unit_test_setup_teardown(test_what_is_refused_is_left_out, begin, end),
        cmocka_unit_test_setup_teardown(test_a_write_that_was_flushed_is_told, begin, end),
        cmocka_unit_test_setup_teardown(test_a_list_tears_a_write_that_is_under_way, begin, end),
        cmocka_unit_test_setup_teardown(test_an_early_commit_counts, begin, end),
        cmocka_unit_test_setup_teardown(test_what_was_settled_is_not_let_go_of_again, begin, end),
        cmocka_unit_test_setup_teardown(test_an_answer_that_is_lost, begin, end),
        cmocka_unit_test_setup_teardown(test_a_cut_leaves_what_was_written_since, begin, end),
        cmocka_unit_test_setup_teardown(test_a_flush_takes_no_part_of_a_newer_write, begin, end),
        cmocka_unit_test_setup_teardown(test_a_flush_ends_though_a_program_goes_on_writing, begin, end),
        cmocka_unit_test_setup_teardown(test_malformed, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
