/*
 * Group commit: what is asked for while a sync is under way is done by one more sync, and a sync that fails has failed for all that
 * had asked for it.
 */
#include "fixture.h"

#include <errno.h>
#include <pthread.h>
#include <time.h>

#include "io/io_layer.h"
#include "journal/commit.h"

#define CALLERS 8u

/* A base: its first sync waits until all have asked. */
static struct {
    struct tb_io io;
    struct tb_io_ops ops;
    struct tb_commit *commit;  /* NULL: syncs are as ever */
    _Atomic bool *unsynced;    /* the mark of a slab, which those that ask meanwhile set again */
    unsigned n_syncs, failing; /* the number of the sync that fails, from 1 */
    uint64_t done, failed;     /* callers that were served before it, and who had asked when it ended */
} slow;

static int slow_fsync(struct tb_io *io, int fd, bool data_only)
{
    if (!slow.commit)
        return TB_IO(io->next, fsync, fd, data_only);
    while (slow.commit->wanted < CALLERS)
        nanosleep(&(struct timespec){0, 1000000}, NULL);
    if (++slow.n_syncs == slow.failing)
        slow.done = slow.commit->done;
    *slow.unsynced = true;
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

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(two_syncs_serve_all), cmocka_unit_test(a_failure_is_told_to_all)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
