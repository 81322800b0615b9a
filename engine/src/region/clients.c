#include "region/clients.h"

#include <errno.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/private_files.h"
#include "base/process.h"
#include "region/lease.h"

/* Where a start time can't be read (no descriptor is free), a process of that number is believed to be the same one. */
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

bool tb_client_is_alive(const struct tb_client *c)
{
    uint64_t awaited = c->awaited_ns;
    if (awaited && tb_now_ns() < awaited)
        return true;
    uint64_t image = c->image, now = image && tb_client_runs(c) ? tb_process_image(c->pid) : 0;
    return now ? now == image : tb_client_runs(c);
}

bool tb_slot_is_dead(const tb_engine *e, uint32_t slot)
{
    return slot < e->region.n_clients && !tb_client_is_alive(&e->region.clients[slot]);
}

/*
 * `closed` counts as long as somebody ends the instance, which a lock of the lease says: who is killed while
 * he does leaves it open again.  What he made void or began to remove stays ended.
 */
bool tb_client_is_closed(const tb_engine *e)
{
    struct tb_lease lease;
    if (!e->header->closed)
        return false;
    if (tb_lease_is_locked(e->lease, TB_LEASE_ENDING) || !tb_file_is_linked(e->lease))
        return true;
    return e->journal_fd >= 0 && tb_lease_read(e->lease, &lease) == 0 && lease.state == TB_LEASE_VOID;
}

uint32_t tb_client_take_slot(tb_engine *e, uint32_t n)
{
    struct tb_header *h = e->header;
    uint32_t slot = TB_NONE;
    tb_lock_take(&h->clients_lock);
    bool refused = n < e->region.n_clients && tb_client_is_closed(e); /* tools may still end what was left half ended */
    for (uint32_t i = 0; i < n && slot == TB_NONE && !refused; i++)
        if (!e->region.clients[i].pid) {
            e->region.clients[i].awaited_ns = 0;
            e->region.clients[i].start_time = tb_process_start_time(getpid());
            e->region.clients[i].image = tb_process_image(getpid());
            e->region.clients[i].waits.pid = 0;
            e->region.clients[i].pid = getpid();
            slot = i;
        }
    tb_lock_drop(&h->clients_lock);
    return slot;
}

int tb_client_register(tb_engine *e, bool is_tool)
{
    uint32_t slot = tb_client_take_slot(e, is_tool ? e->region.n_clients : e->region.n_clients - TB_CLIENTS_TOOLS);
    if (slot != TB_NONE) {
        e->slot = slot;
        tb_wait_identify(getpid(), &e->region.clients[slot].waits);
    }
    return slot != TB_NONE ? 0 : tb_client_is_closed(e) ? -ENOENT : -EUSERS;
}

bool tb_daemon_is_alive(struct tb_header *h)
{
    int rc = tb_lock_try(&h->daemon_lock);
    if (rc >= 0)
        tb_lock_drop(&h->daemon_lock);
    return rc == -EBUSY || rc == -EDEADLK;
}
