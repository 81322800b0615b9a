/*
 * Syncs of slabs and of the journal, shared: one client syncs for all that wait (group
 * commit). A caller that asked before a sync began is served by it.
 */
#include "journal/commit.h"

#include <assert.h>
#include <errno.h>

#include "base/kill_point.h"
#include "journal/journal.h"

/*
 * The mark is taken before the sync: a reservation that comes during it sets the mark again. After a failed sync the
 * system may have thrown away bytes of others too, which have not asked yet, and tells each descriptor only once: a later
 * sync of it would return 0. So the slab is not believed any more. If a process is killed after the sync and before it
 * says so, those that had the slab open are still told; one that opens it later is not.
 */
static int sync_slabs(tb_engine *e)
{
    struct tb_header *h = e->header;
    int rc = 0;
    for (uint32_t s = 0; s < h->layout.n_slabs && !rc; s++)
        if (atomic_exchange(&h->journal.slab_unsynced[s], false)) {
            struct tb_io *io = e->tier[h->layout.slab[s].tier];
            TB_STEP("slab sync");
            rc = TB_IO(io, fsync, e->slab_fd[s], true);
            TB_STEP("slab synced");
            if (rc)
                h->journal.slab_failed[s] = h->journal.slab_unsynced[s] = true;
        }
    return rc;
}

/* The holder may have been killed between taking a mark and the sync: sync every slab again. */
static void mark_slabs(tb_engine *e)
{
    for (uint32_t s = 0; s < e->header->layout.n_slabs; s++)
        e->header->journal.slab_unsynced[s] = e->slab_fd[s] >= 0;
}

/*
 * A caller that waits for the lock during another's sync is often served by the next
 * holder: many concurrent fsyncs cost one sync. After a failed sync the system may have
 * thrown the bytes away, and will not say so again. So all callers that had asked by then
 * have failed.
 */
static int commit(tb_engine *e, struct tb_commit *c, int (*sync)(tb_engine *e))
{
    uint64_t mine = ++c->wanted, upto;
    tb_model_pay();
    int taken = tb_lock_take(&c->lock), rc = 0;
    if (taken < 0)
        return taken; /* a signal handler interrupted this thread's own commit */
    if (taken == TB_LOCK_ORPHANED)
        mark_slabs(e);
    if (mine <= c->failed) {
        rc = -EIO;
    } else if (mine > c->done) {
        upto = c->wanted;
        TB_STEP("commit");
        /*
         * The device model's time is paid when this caller's own call ends. Paid here, it
         * would keep the others from the device.
         */
        rc = sync(e);
        TB_STEP("committed");
        assert(upto >= mine && upto <= c->wanted);
        if (rc)
            c->failed = upto;
        else
            c->done = upto;
    }
    tb_lock_drop(&c->lock);
    return rc;
}

int tb_commit_slabs(tb_engine *e)
{
    return commit(e, &e->header->journal.slab_commit, sync_slabs);
}

/* A sync that failed may have taken records of callers that had not asked yet: as with slabs, a later one proves nothing of them. */
int tb_commit_journal(tb_engine *e)
{
    int rc = commit(e, &e->header->journal.commit, tb_journal_sync);
    return rc ? rc : tb_journal_is_doubtful(e) ? -EIO : 0;
}
