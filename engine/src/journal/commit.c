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

/* Of a turn: the last caller that it serves, and its event. One word holds both, so that no caller sees them of two turns. */
static uint64_t last_of(uint64_t turn)
{
    return turn / 2;
}

static unsigned event_of(uint64_t turn)
{
    return turn % 2;
}

/*
 * Locked by the commit. The device model's time is paid when this caller's own call ends. Paid here, it would keep the
 * others from the device.
 */
static void sync_for_all(tb_engine *e, struct tb_commit *c, int (*sync)(tb_engine *e))
{
    uint64_t upto = c->wanted;
    c->turn = 2 * upto + !event_of(c->turn);
    TB_STEP("commit");
    int rc = sync(e);
    TB_STEP("committed");
    assert(upto <= c->wanted);
    if (rc)
        c->failed = upto;
    else
        c->done = upto;
}

/*
 * After the lock of the turn was dropped. First one of those that it did not serve, which leads the next turn: the device is idle
 * until then. A caller may ask just when a turn begins, and wait for that turn's event without being served by it.
 */
static void wake(struct tb_commit *c, uint64_t before, uint64_t turn)
{
    unsigned own = event_of(turn);
    c->event[!own]++;
    c->event[own]++;
    bool others = c->wanted > last_of(turn);
    if (others)
        tb_event_wake_one(&c->event[!own]);
    if (others || last_of(turn) - last_of(before) > 1)
        tb_event_wake(&c->event[own]);
}

/* 0: look again, the lock is not held; else as the lock's. */
static int become_leader(struct tb_commit *c, _Atomic uint32_t *event, uint32_t seen, struct tb_wait *wait)
{
    int taken = tb_lock_try(&c->lock);
    if (taken != -EBUSY)
        return taken < 0 ? taken : taken == TB_LOCK_ORPHANED ? ORPHANED : LEADS;
    tb_wait_go_on(wait, atomic_load_explicit(&c->lock.holder, memory_order_relaxed));
    tb_event_wait(event, seen, LOOK_NS);
    return 0;
}

/* The caller leads: syncs, unless it has been served by then, and lets the others go on. */
static int lead(tb_engine *e, struct tb_commit *c, uint64_t mine, int (*sync)(tb_engine *e))
{
    uint64_t before = c->turn;
    int rc;
    if (!is_served(c, mine, &rc)) {
        sync_for_all(e, c, sync);
        is_served(c, mine, &rc);
    }
    uint64_t turn = c->turn;
    tb_lock_drop(&c->lock);
    wake(c, before, turn);
    return rc;
}

/*
 * One caller syncs, the leader; those that ask meanwhile wait for its end, and one of those that it did not serve is the next
 * leader. They do not wait for its lock, which would be handed on from one to the next while the device is idle. A leader that
 * is killed wakes no caller: each looks again after LOOK_NS, and the lock goes to one of them.
 */
static int commit(tb_engine *e, struct tb_commit *c, int (*sync)(tb_engine *e))
{
    uint64_t mine = ++c->wanted;
    struct tb_wait wait = {0};
    int rc = 0, role = 0;
    tb_model_pay();
    while (!role) {
        uint64_t turn = c->turn;
        _Atomic uint32_t *event = &c->event[mine <= last_of(turn) ? event_of(turn) : !event_of(turn)];
        uint32_t seen = *event; /* before the look: what is done after it moves the event */
        if (is_served(c, mine, &rc))
            break;
        role = become_leader(c, event, seen, &wait);
    }
    tb_wait_end(&wait);
    if (role <= 0)
        return role < 0 ? role : rc; /* below 0: a signal handler interrupted this thread's own commit */
    if (role == ORPHANED)
        mark_slabs(e);
    return lead(e, c, mine, sync);
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
