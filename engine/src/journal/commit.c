/*
 * Syncs of slabs and of the journal, shared: one client syncs for all that wait (group
 * commit). A caller that asked before a sync began is served by it.
 */
#include "journal/commit.h"

#include <assert.h>
#include <errno.h>

#include "base/kill_point.h"
#include "base/wait.h"
#include "journal/journal.h"
#include "region/event.h"

#define LOOK_NS 20000000 /* a caller that waits looks so often whether the process that syncs was killed */

enum { LEADS = 1, ORPHANED };

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
 * Is this caller served? After a failed sync the system may have thrown the bytes away, and will not say so again. So all
 * callers that had asked by then have failed. `done` is read first: a later sync may succeed after one that failed for this caller.
 */
static bool is_served(const struct tb_commit *c, uint64_t mine, int *rc)
{
    bool done = mine <= c->done, failed = mine <= c->failed;
    *rc = failed ? -EIO : 0;
    return done || failed;
}

/*
 * Locked by the commit. The device model's time is paid when this caller's own call ends. Paid here, it would keep the
 * others from the device.
 */
static void sync_for_all(tb_engine *e, struct tb_commit *c, int (*sync)(tb_engine *e))
{
    uint64_t upto = c->wanted;
    TB_STEP("commit");
    int rc = sync(e);
    TB_STEP("committed");
    assert(upto <= c->wanted);
    if (rc)
        c->failed = upto;
    else
        c->done = upto;
}

/* 0: look again, the lock is not held; else as the lock's. */
static int become_leader(struct tb_commit *c, uint32_t seen, struct tb_wait *wait)
{
    int taken = tb_lock_try(&c->lock);
    if (taken != -EBUSY)
        return taken < 0 ? taken : taken == TB_LOCK_ORPHANED ? ORPHANED : LEADS;
    tb_wait_go_on(wait, atomic_load_explicit(&c->lock.holder, memory_order_relaxed));
    tb_event_wait(&c->event, seen, LOOK_NS);
    return 0;
}

/*
 * One caller syncs, the leader; those that ask meanwhile wait for its end, all of them at once, and one of those that it did not
 * serve is the next leader. They do not wait for its lock, which would be handed on from one to the next while the device is
 * idle. A leader that is killed wakes no caller: each looks again after LOOK_NS, and the lock goes to one of them.
 */
static int commit(tb_engine *e, struct tb_commit *c, int (*sync)(tb_engine *e))
{
    uint64_t mine = ++c->wanted;
    struct tb_wait wait = {0};
    int rc = 0, role = 0;
    tb_model_pay();
    while (!role) {
        uint32_t seen = c->event; /* before the look: what is done after it moves the event */
        if (is_served(c, mine, &rc))
            break;
        role = become_leader(c, seen, &wait);
    }
    tb_wait_end(&wait);
    if (role <= 0)
        return role < 0 ? role : rc; /* below 0: a signal handler interrupted this thread's own commit */
    if (role == ORPHANED)
        mark_slabs(e);
    if (!is_served(c, mine, &rc)) {
        sync_for_all(e, c, sync);
        is_served(c, mine, &rc);
    }
    tb_lock_drop(&c->lock);
    c->event++;
    if (c->wanted != mine)
        tb_event_wake(&c->event);
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
