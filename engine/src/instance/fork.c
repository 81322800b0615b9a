/*
 * Forks of a process that uses an instance: what the child needs is made by its parent.
 *
 * A child in another PID namespace can have neither: its process number is another
 * one there, and so are the owners of the locks that it would take.  What it inherits
 * is made coherent, so that its descriptors are right as the kernel's, and it says
 * what it is (tb_engine_is_foreign).
 */
#include <errno.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/process.h"
#include "instance/client.h"
#include "layer/descriptions.h"
#include "layer/repair.h"
#include "region/clients.h"
#include "region/handle.h"

#define AWAITED_NS 60000000000ull /* a child whose parent has ended may take so long until it runs */

/*
 * The child's slot and references are made before it lives, in the parent's
 * name: else the parent could close the last descriptor before the child runs.
 * Only whoever called fork learns that it failed, and says so.
 */
static _Thread_local uint32_t forked_slot = TB_NONE;

/* This process's next child is in a new PID namespace, or in another one (unshare, setns). */
static bool has_foreign_children(const tb_engine *e)
{
    struct stat st;
    if (stat("/proc/self/ns/pid_for_children", &st)) /* a new one that has no process yet is in no file system */
        return e->knows_children;
    return st.st_ino != e->header->pid_namespace;
}

bool tb_engine_is_foreign(tb_engine *e)
{
    return e->is_foreign;
}

void tb_engine_atfork_prepare(tb_engine *e)
{
    pthread_mutex_lock(&e->fork_lock);
    e->is_foreign = has_foreign_children(e); /* in the child; in the parent until the fork is made */
    e->fork_slot = e->is_foreign ? TB_NONE : tb_client_take_slot(e, e->region.n_clients - TB_CLIENTS_TOOLS);
    if (e->fork_slot == TB_NONE && !e->is_foreign && tb_repair(e))
        e->fork_slot = tb_client_take_slot(e, e->region.n_clients - TB_CLIENTS_TOOLS);
    if (e->fork_slot != TB_NONE) {
        e->region.clients[e->fork_slot].awaited_ns = tb_now_ns() + AWAITED_NS;
        tb_opens_hold(e, e->fork_slot);
    } else {
        tb_opens_make_coherent(e); /* a child without an identity can only pass through */
    }
}

void tb_engine_atfork_parent(tb_engine *e)
{
    forked_slot = e->fork_slot;
    e->is_foreign = false;
    pthread_mutex_unlock(&e->fork_lock);
}

void tb_engine_atfork_failed(tb_engine *e)
{
    if (forked_slot == TB_NONE)
        return;
    tb_opens_forget_client(e, forked_slot, false);
    e->region.clients[forked_slot].pid = 0;
    forked_slot = TB_NONE;
}

void tb_engine_spawned(tb_engine *e, int pid)
{
    if (forked_slot == TB_NONE)
        return;
    struct tb_client *c = &e->region.clients[forked_slot];
    tb_lock_take(&e->header->clients_lock);
    c->start_time = tb_process_start_time(pid);
    c->pid = pid;
    c->awaited_ns = 0;
    if (tb_opens_forget_client(e, forked_slot, true))
        c->image = 0;
    else
        c->pid = 0;
    tb_lock_drop(&e->header->clients_lock);
    forked_slot = TB_NONE;
}

void tb_engine_atfork_child(tb_engine *e)
{
    tb_wait_identify(getpid(), NULL); /* the locks it takes from here on are its own */
    if (e->fork_slot != TB_NONE) {
        struct tb_client *c = &e->region.clients[e->fork_slot];
        tb_lock_take(&e->header->clients_lock);
        c->start_time = tb_process_start_time(getpid());
        c->pid = getpid();
        c->awaited_ns = 0;
        tb_lock_drop(&e->header->clients_lock);
        e->slot = e->fork_slot;
        tb_wait_identify(getpid(), &c->waits);
    } else {
        e->passes_through = true;
        tb_opens_abandon(e);
    }
    if (e->is_foreign) { /* whatever it does, it does not use the instance */
        tb_client_close(e, &e->lease);
        tb_client_close(e, &e->region_file);
    }
    pthread_mutex_init(&e->fork_lock, NULL); /* held by the parent's thread that forked */
}
