/*
 * The clients of an instance: slots, and whether the process of a slot still lives. A
 * process number alone says little, since numbers are used again. Start time and program
 * must agree too.
 */
#include "region/clients.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/private_files.h"
#include "base/process.h"
#include "region/lease.h"

/* If the start time can't be read (no descriptor is free), a process of that number is taken for the same one. */
bool tb_client_runs(const struct tb_client *c)
{
    int pid = c->pid;
    if (!pid || (kill(pid, 0) && errno != EPERM))
        return false;
    uint64_t started = tb_process_start_time(pid);
    if (started == TB_PROCESS_ENDED)
        return false;
    return started && c->start_time ? started == c->start_time : c->start_time != TB_CLIENT_BURIED;
}

/*
 * A forked child that has not run yet counts as alive until its time is over. After exec
 * the image differs: the old program is dead.
 */
bool tb_client_is_alive(const struct tb_client *c)
{
    uint64_t awaited = c->awaited_ns;
    if (awaited && tb_now_ns() < awaited)
        return true;
    uint64_t image = c->image, now = image && tb_client_runs(c) ? tb_process_image(c->pid) : 0;
    return now ? now == image : tb_client_runs(c);
}

/*
 * Only a claim or a lock of a dead slot may be taken over. A number that is no slot (a claim
 * that was given up in between) is not dead: its caller looks again.
 */
bool tb_slot_is_dead(const tb_engine *e, uint32_t slot)
{
    return slot < e->region.n_clients && !tb_client_is_alive(&e->region.clients[slot]);
}

/*
 * `closed` counts only while a process ends the instance, which a lock of the lease says.
 * If that process is killed, the instance is open again. But if it was made void or its
 * removal began, the instance stays ended.
 */
bool tb_client_is_closed(const tb_engine *e)
{
    if (!e->header->registry.closed)
        return false;
    return tb_lease_is_locked(e->lease, TB_LEASE_ENDING) || tb_client_is_over(e);
}

bool tb_client_is_over(const tb_engine *e)
{
    struct tb_lease lease;
    if (!tb_file_is_linked(e->lease))
        return true;
    return tb_lease_is_apart(&e->header->config) && tb_lease_read(e->lease, &lease) == 0 && lease.state == TB_LEASE_VOID;
}

/*
 * Locked by registry.lock. The pid is stored last: until then the slot is free, and what a
 * killed process had written to it is written again by the next. All fields are set, because
 * the slot was another's.
 */
uint32_t tb_client_take_slot(tb_engine *e, uint32_t n)
{
    struct tb_header *h = e->header;
    uint32_t slot = TB_NONE;
    assert(n <= e->region.n_clients);
    tb_lock_take(&h->registry.lock);
    bool refused = n < e->region.n_clients && tb_client_is_closed(e); /* tools may attach: they end what was left half ended */
    for (uint32_t i = 0; i < n && slot == TB_NONE && !refused; i++)
        if (!e->region.clients[i].pid) {
            e->region.clients[i].awaited_ns = 0;
            e->region.clients[i].start_time = tb_process_start_time(getpid());
            e->region.clients[i].image = tb_process_image(getpid());
            e->region.clients[i].waits.pid = 0;
            e->region.clients[i].n_moving = 0;
            e->region.clients[i].late = 0;
            e->region.clients[i].n_changes = 0;
            e->region.clients[i].tells_calls = false;
            e->region.clients[i].calls_first = e->region.clients[i].calls_others = 0;
            e->region.clients[i].directory = 0;
            if (i >= h->registry.n_used)
                h->registry.n_used = i + 1;
            e->region.clients[i].pid = getpid();
            slot = i;
        }
    tb_lock_drop(&h->registry.lock);
    return slot;
}

/* Asked once it is dead. */
bool tb_client_was_in_no_call(const struct tb_client *c)
{
    return c->tells_calls && !c->calls_first && !c->calls_others;
}

/*
 * The last slots are kept for tools, so that an instance full of programs can still be looked at and stopped. While it is drained to be ended,
 * the PFS has old bytes yet.
 */
int tb_client_register(tb_engine *e, bool is_tool)
{
    uint32_t slot = tb_client_take_slot(e, is_tool ? e->region.n_clients : e->region.n_clients - TB_CLIENTS_TOOLS);
    if (slot != TB_NONE) {
        e->slot = slot;
        tb_wait_identify(getpid(), &e->region.clients[slot].waits);
    }
    if (slot != TB_NONE)
        return 0;
    return !tb_client_is_closed(e) ? -EUSERS : tb_client_is_over(e) ? -ENOENT : -EINPROGRESS;
}

/* The daemon holds its robust lock for life, so a try tells whether it lives. -EDEADLK: this process is the daemon. */
bool tb_daemon_is_alive(struct tb_header *h)
{
    int rc = tb_lock_try(&h->daemon.lock);
    if (rc >= 0)
        tb_lock_drop(&h->daemon.lock);
    return rc == -EBUSY || rc == -EDEADLK;
}
