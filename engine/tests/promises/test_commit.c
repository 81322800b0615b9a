/*
 * Group commit: what is asked for while a sync is under way is done by one more sync, a sync that fails has failed for all that
 * had asked for it, and all that a sync served go on.
 */
#include "fixture.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "io/io_layer.h"
#include "journal/commit.h"
#include "journal/journal.h"

#define CALLERS 8u

/* A base: its first sync waits until all have asked. */
static struct {
    struct tb_io io;
    struct tb_io_ops ops;
    struct tb_commit *commit;  /* NULL: syncs are as ever */
    _Atomic bool *unsynced;    /* the mark of a slab, which those that ask meanwhile set again */
    unsigned n_syncs, failing; /* the number of the sync that fails, from 1 */
    uint64_t done, failed;     /* callers that were served before it, and who had asked when it ended */
    pid_t leader;              /* the thread of the latest one */
    bool broken;               /* each fails */
} slow;

static int slow_fsync(struct tb_io *io, int fd, bool data_only)
{
    if (slow.broken)
        return -EIO;
    if (!slow.commit)
        return TB_IO(io->next, fsync, fd, data_only);
    while (slow.commit->wanted < CALLERS)
        nanosleep(&(struct timespec){0, 1000000}, NULL);
    if (++slow.n_syncs == slow.failing)
        slow.done = slow.commit->done;
    *slow.unsynced = true;
    slow.leader = gettid();
    return slow.n_syncs == slow.failing ? -EIO : TB_IO(io->next, fsync, fd, data_only);
}

static void start(struct fixture *x, unsigned failing)
{
    static const struct tb_io_ops ops = {.name = "slow", .fsync = slow_fsync};
    uint32_t slab = 0;
    memset(&slow, 0, sizeof(slow));
    fixture_init(x, TB_MODE_PERSISTENT_ASYNC);
    tb_io_layer_init(&slow.io, &slow.ops, &ops, tb_io_libc());
    x->base = &slow.io;
    fixture_start(x);
    while (x->engine->slab_fd[slab] < 0)
        slab++;
    slow.unsynced = &x->engine->header->journal.slab_unsynced[slab];
    *slow.unsynced = true;
    slow.failing = failing;
    slow.commit = &x->engine->header->journal.slab_commit;
    assert_int_equal(slow.commit->wanted, 0);
}

static void *ask(void *engine)
{
    return (void *)(intptr_t)tb_commit_slabs(engine);
}

/* How many of them were told of a failure. */
static unsigned ask_all(struct fixture *x)
{
    pthread_t thread[CALLERS];
    unsigned failed = 0;
    for (unsigned i = 0; i < CALLERS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, ask, x->engine), 0);
    for (unsigned i = 0; i < CALLERS; i++) {
        void *rc;
        pthread_join(thread[i], &rc);
        assert_true((intptr_t)rc == 0 || (intptr_t)rc == -EIO);
        failed += rc != NULL;
    }
    slow.failed = slow.commit->failed;
    slow.commit = NULL;
    return failed;
}

static void two_syncs_serve_all(void **state)
{
    struct fixture x;
    (void)state;
    start(&x, 0);
    assert_int_equal(ask_all(&x), 0);
    assert_true(slow.n_syncs <= 2);
    fixture_stop(&x);
}

/* Bytes that the system threw away then are not there after the next sync, whatever that says. */
static void a_failure_is_told_to_all(void **state)
{
    struct fixture x;
    (void)state;
    for (unsigned failing = 1; failing <= 2; failing++) {
        start(&x, failing);
        unsigned failed = ask_all(&x);
        if (slow.n_syncs >= failing) /* the first one serves all that asked before it began, and these may be all */
            assert_int_equal(failed, slow.failed - slow.done);
        fixture_stop(&x);
    }
}

static _Atomic pid_t thread_id[CALLERS - 1];

static void *ask_and_tell(void *x)
{
    static _Atomic unsigned n;
    thread_id[n++ % (CALLERS - 1)] = gettid();
    return ask(((struct fixture *)x)->engine);
}

static bool sleeps(pid_t thread)
{
    char path[64], state = 0;
    snprintf(path, sizeof(path), "/proc/self/task/%d/stat", thread);
    FILE *f = thread ? fopen(path, "r") : NULL;
    if (!f)
        return false;
    assert_int_equal(fscanf(f, "%*d (%*[^)]) %c", &state), 1);
    fclose(f);
    return state == 'S';
}

/* All threads have asked, and wait for a sync. */
static void wait_for_sleepers(void)
{
    for (unsigned i = 0; i < CALLERS - 1; i++)
        while (slow.commit->wanted < CALLERS - 1 || !sleeps(thread_id[i]))
            nanosleep(&(struct timespec){0, 1000000}, NULL);
}

/* How many still sleep after the sync of this thread, which asked last; -1: one of the others looked just then, and led. */
static long left_asleep(struct fixture *x)
{
    pthread_t thread[CALLERS - 1];
    start(x, 0);
    memset((void *)thread_id, 0, sizeof(thread_id));
    assert_int_equal(tb_lock_take(&slow.commit->lock), 0);
    for (unsigned i = 0; i < CALLERS - 1; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, ask_and_tell, x), 0);
    wait_for_sleepers();
    tb_lock_drop(&slow.commit->lock);
    assert_int_equal(tb_commit_slabs(x->engine), 0);
    long n = 0;
    for (int i = 0; i < 2; i++)
        n += syscall(SYS_futex, &slow.commit->event[i], FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
    n = slow.n_syncs == 1 && slow.leader == gettid() ? n : -1;
    for (unsigned i = 0; i < CALLERS - 1; i++)
        pthread_join(thread[i], NULL);
    slow.commit = NULL;
    fixture_stop(x);
    return n;
}

/* The leader may be the one that asked last, while those that it serves sleep. */
static void the_newest_wakes_those_it_serves(void **state)
{
    struct fixture x;
    long n;
    (void)state;
    do
        n = left_asleep(&x);
    while (n < 0);
    assert_int_equal(n, 0);
}

/* Only one caller is told of bytes that were thrown away: here the one that wrote zeros ahead of the records. */
static void a_failure_of_the_room_counts(void **state)
{
    struct fixture x;
    char bytes[16000] = {1};
    (void)state;
    start(&x, 0);
    slow.commit = NULL;
    int fd = TB_IO(x.io, open, fixture_path(&x, "f"), O_RDWR | O_CREAT, 0600);
    for (int i = 0; i < 8; i++) {
        assert_int_equal(TB_IO(x.io, pwrite, fd, bytes, sizeof(bytes), i * 16000), sizeof(bytes));
        assert_int_equal(TB_IO(x.io, fsync, fd, false), 0);
    }
    assert_false(tb_journal_is_doubtful(x.engine));
    slow.broken = true;
    assert_int_equal(tb_journal_make_room(x.engine, x.engine->journal_fd), -EIO);
    slow.broken = false;
    assert_true(tb_journal_is_doubtful(x.engine));
    TB_IO(x.io, close, fd);
    fixture_stop(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(two_syncs_serve_all), cmocka_unit_test(a_failure_is_told_to_all),
                                       cmocka_unit_test(the_newest_wakes_those_it_serves), cmocka_unit_test(a_failure_of_the_room_counts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
