/*
 * What a node says of its bytes to a file's keeper: a list is true when the keeper takes it, whatever else goes on. The keeper is here
 * (node 0), without a network between; node 1 is the other one.
 */
#include "fixture.h"

#include <errno.h>
#include <pthread.h>

#include "file/file.h"
#include "io/identity.h"
#include "keeper.h"
#include "let_go.h"
#include "owed.h"
#include "relay.h"
#include "shared/commit.h"
#include "shared/local.h"
#include "shared/recent.h"
#include "turn.h"

#define SIZE 16384u

static struct fixture x;
static int fd;
static uint32_t file;
static struct tb_wire_file id;

static enum tb_wire_op asked[64]; /* of the keeper, in order */
static struct tb_wire last;       /* the latest commit */
static int n_asked, n_told;
static void (*meanwhile)(void); /* once, while a commit is on its way */
static int fails, lies;         /* so many calls of the keeper, before it has heard of them; or after */

unsigned tb_net_self(const struct tb_net *net)
{
    (void)net;
    return 0;
}

unsigned tb_net_count(const struct tb_net *net)
{
    (void)net;
    return 1;
}

const char *tb_net_name(const struct tb_net *net, unsigned node)
{
    (void)net;
    return node ? "other" : "self";
}

static int64_t ask_keeper(const struct tb_wire *w, size_t n, void *answer, size_t room)
{
    if (w->op == TB_WIRE_COMMIT) {
        void (*act)(void) = meanwhile;
        meanwhile = NULL;
        last = *w;
        if (act)
            act();
    }
    if (fails && fails--)
        return -ETIMEDOUT;
    asked[n_asked++ % 64] = w->op;
    int64_t got = keeper_answer(0, w, w + 1, n - sizeof(*w), answer, room);
    return lies && lies-- ? -ETIMEDOUT : got;
}

/* The other node is told, and is busy. */
int64_t tb_net_call(struct tb_net *net, unsigned node, const void *request, size_t n, void *answer, size_t room)
{
    (void)net;
    n_told += node == 1;
    return node ? -EAGAIN : ask_keeper(request, n, answer, room);
}

static int64_t by_other(struct tb_wire w, const struct tb_wire_range *range)
{
    static uint64_t clock;
    struct relay_answer a;
    w.file = id;
    w.n = range != NULL;
    w.hi = ++clock;
    assert_true(keeper_answer(1, &w, range, range ? sizeof(*range) : 0, &a, sizeof(a)) >= 0);
    return (int64_t)a.told.version;
}

static int64_t committed_by_other(uint64_t lo, uint64_t hi)
{
    return by_other((struct tb_wire){.op = TB_WIRE_COMMIT}, &(struct tb_wire_range){lo, hi});
}

static bool is_of(uint32_t node, uint64_t lo, uint64_t hi)
{
    struct relay_answer a;
    struct tb_wire w = {.op = TB_WIRE_WHERE, .file = id, .lo = lo, .hi = hi, .version = 8};
    assert_true(keeper_answer(0, &w, NULL, 0, &a, sizeof(a)) >= 0);
    return a.told.n == 1 && a.extent[0].node == node && a.extent[0].lo <= lo && a.extent[0].hi >= hi;
}

static bool is_nobodys(uint64_t lo, uint64_t hi)
{
    struct relay_answer a;
    struct tb_wire w = {.op = TB_WIRE_WHERE, .file = id, .lo = lo, .hi = hi, .version = 8};
    assert_true(keeper_answer(0, &w, NULL, 0, &a, sizeof(a)) >= 0);
    return a.told.n == 0;
}

static struct {
    struct tb_told told;
    struct tb_wire_range range[16];
} said;

static int64_t say(uint64_t how)
{
    char bytes[4096];
    struct tb_wire w = {.op = TB_WIRE_SAY, .file = id, .version = how};
    memcpy(bytes, &w, sizeof(w));
    int64_t got = relay_request(x.engine, NULL, bytes, sizeof(w), sizeof(bytes));
    if (got > 0)
        memcpy(&said, bytes, (size_t)got);
    return got;
}

static void say_end(void)
{
    char bytes[4096];
    struct tb_wire_range all = {0, SIZE};
    struct tb_wire w = {.op = TB_WIRE_SAY_END, .file = id, .n = 1};
    memcpy(bytes, &w, sizeof(w));
    memcpy(bytes + sizeof(w), &all, sizeof(all));
    assert_true(relay_request(x.engine, NULL, bytes, sizeof(w) + sizeof(all), sizeof(bytes)) >= 0);
}

static void let_go(uint64_t version)
{
    char bytes[4096];
    uint64_t clock;
    struct tb_wire_range all = {0, SIZE};
    struct tb_wire w = {.op = TB_WIRE_LET_GO, .file = id, .n = 1, .version = version};
    memcpy(bytes, &w, sizeof(w));
    memcpy(bytes + sizeof(w), &all, sizeof(all));
    assert_int_equal(let_go_answer(x.engine, (void *)bytes, sizeof(w) + sizeof(all), &clock, sizeof(clock)), sizeof(clock));
}

/* As a program does, but that no daemon answers here: so the file counts as shared only afterwards. */
static void write_here(uint64_t lo, uint64_t hi)
{
    char bytes[SIZE] = {1};
    uint64_t device = x.engine->shared_device;
    x.engine->shared_device = 0;
    assert_int_equal(TB_IO(x.io, pwrite, fd, bytes, hi - lo, lo), hi - lo);
    x.engine->shared_device = device;
    x.engine->region.file_nodes[file].n_written++;
    assert_int_equal(tb_recent_add(x.engine, file, lo, hi), 0);
}

static bool is_dirty(uint64_t lo, uint64_t hi)
{
    struct tb_ranges r = {0};
    assert_int_equal(tb_local_dirty(x.engine, file, &r), 0);
    bool all = tb_ranges_cover(&r, lo, hi);
    tb_ranges_free(&r);
    return all;
}

static void clean_here(void)
{
    x.engine->shared_device = 0;
    tb_engine_flush(x.engine, -1);
    assert_int_equal(x.engine->region.files[file].n_dirty, 0);
}

static int begin(void **state)
{
    (void)state;
    struct tb_identity i;
    fixture_init(&x, TB_MODE_PERSISTENT_ASYNC);
    x.config.several_nodes = TB_NODES_SHARED;
    fixture_start(&x);
    x.engine->shared_device = 0;
    fd = TB_IO(x.io, open, fixture_path(&x, "file"), O_RDWR | O_CREAT, 0600);
    assert_true(fd >= 0);
    assert_int_equal(tb_identity_of_fd(fd, &i), 0);
    id = (struct tb_wire_file){i.inode, i.birth_ns};
    file = tb_file_find(x.engine, &i);
    x.engine->shared_device = i.device;
    n_asked = n_told = fails = lies = 0;
    meanwhile = NULL;
    return 0;
}

static int end(void **state)
{
    (void)state;
    struct relay_answer a;
    for (uint32_t node = 0; node < 2; node++) {
        struct tb_wire_extent all = {0, UINT64_MAX, UINT64_MAX, node, 0};
        keeper_answer(1 - node, &(struct tb_wire){.op = TB_WIRE_REMOVE, .file = id, .n_gone = 1}, &all, sizeof(all), &a, sizeof(a));
    }
    x.engine->shared_device = 0;
    TB_IO(x.io, close, fd);
    fixture_stop(&x);
    return 0;
}

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

/* A drain is one, too: what it could not flush is older than what another node commits after it. A write that is under way is torn. */
static void test_an_early_commit_counts(void **state)
{
    (void)state;
    uint32_t n_torn = x.engine->region.file_nodes[file].n_torn;
    write_here(0, 4096);
    assert_true(say(TB_SAY_EARLY | TB_SAY_WRITERS) > 0);
    assert_int_equal(x.engine->region.file_nodes[file].n_torn, n_torn);
    assert_true(say(TB_SAY_EARLY) > 0);
    assert_true(x.engine->region.file_nodes[file].n_torn > n_torn);
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
        cmocka_unit_test_setup_teardown(test_an_early_commit_counts, begin, end),
        cmocka_unit_test_setup_teardown(test_what_was_settled_is_not_let_go_of_again, begin, end),
        cmocka_unit_test_setup_teardown(test_an_answer_that_is_lost, begin, end),
        cmocka_unit_test_setup_teardown(test_a_cut_leaves_what_was_written_since, begin, end),
        cmocka_unit_test_setup_teardown(test_malformed, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
