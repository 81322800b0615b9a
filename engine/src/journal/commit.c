#include "journal/commit.h"

#include <errno.h>

#include "base/kill_point.h"
#include "journal/journal.h"

static int sync_slabs(tb_engine *e)
{
    struct tb_header *h = e->header;
    int rc = 0;
    for (uint32_t s = 0; s < h->layout.n_slabs && !rc; s++)
        if (atomic_exchange(&h->slab_unsynced[s], false)) {
            struct tb_io *io = e->tier[h->layout.slab[s].tier];
            TB_STEP("slab sync");
            rc = io->ops->fsync(io, e->slab_fd[s], true);
            TB_STEP("slab synced");
            if (rc)
                h->slab_unsynced[s] = true;
        }
    return rc;
}

/* The holder was killed between taking a mark and the sync. */
static void mark_slabs(tb_engine *e)
{
    for (uint32_t s = 0; s < e->header->layout.n_slabs; s++)
        e->header->slab_unsynced[s] = e->slab_fd[s] >= 0;
}

/*
 * Who waits for the lock while another syncs is often served by the next holder:
 * many concurrent fsyncs cost one sync.  After a failed sync the system may have
 * thrown the bytes away and will not say so again, so all who had asked by then
 * have failed.
 */
static int commit(tb_engine *e, struct tb_commit *c, int (*sync)(tb_engine *e))
{
    uint64_t mine = ++c->wanted, upto;
    tb_model_pay();
    int taken = tb_lock_take(&c->lock), rc = 0;
    if (taken < 0)
        return taken; /* a signal handler, in the middle of its own thread's commit */
    if (taken == TB_LOCK_ORPHANED)
        mark_slabs(e);
    if (mine <= c->failed) {
        rc = -EIO;
    } else if (mine > c->done) {
        upto = c->wanted;
        TB_STEP("commit");
        /* A model's time for it is paid when this caller's own call ends: here it would keep the others from the device. */
        rc = sync(e);
        TB_STEP("committed");
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
    return commit(e, &e->header->slab_commit, sync_slabs);
}

int tb_commit_journal(tb_engine *e)
{
    return commit(e, &e->header->journal_commit, tb_journal_sync);
}
