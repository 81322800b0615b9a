/*
 * Forks of a process that uses an instance: the parent prepares what the child needs.
 *
 * A child in another PID namespace can use neither slot nor locks: its process number
 * means another process there, and so do the owners of locks. Nor can a child that has
 * the number of its parent's thread, as libc's clone leaves it. What it inherits is made
 * coherent, so that the kernel alone serves its descriptors, and tb_engine_is_foreign says
 * so.
 */
#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/process.h"
#include "instance/client.h"
#include "layer/descriptions.h"
#include "layer/late.h"
#include "layer/repair.h"
#include "region/clients.h"
#include "region/handle.h"
#include "region/lease.h"

#define AWAITED_NS 60000000000ull /* time that a child gets until it runs, if its parent has ended */

/*
 * The child's slot and references are made before it runs, in the parent's name. Otherwise
 * the parent could close the last descriptor first. If the fork fails, the thread that
 * called it gives them back. If the parent is killed between, the slot counts as dead
 * after AWAITED_NS.
 */
static _Thread_local uint32_t forked_slot = TB_NONE;

/* This process's next child is in a new PID or time namespace, or in another one (unshare, setns). */
static bool has_foreign_children(const tb_engine *e)
{
    uint64_t of_children = tb_pid_namespace_of_children();
    return of_children ? of_children != e->header->pid_namespace : e->knows_children;
}

static _Thread_local bool leaves; /* of this thread's next child */

void tb_engine_atfork_leaves(void)
{
    leaves = true;
}

bool tb_engine_is_foreign(tb_engine *e)
{
    return e->is_foreign;
}

/* Takes fork_lock, which parent and child give back: two threads cannot fork at once. */
void tb_engine_atfork_prepare(tb_engine *e)
{
    pthread_mutex_lock(&e->fork_lock);
    e->is_foreign = leaves || has_foreign_children(e); /* for the child; the parent clears it after the fork */
    leaves = false;
    e->fork_slot = e->is_foreign ? TB_NONE : tb_client_take_slot(e, e->region.n_clients - TB_CLIENTS_TOOLS);
    if (e->fork_slot == TB_NONE && !e->is_foreign && tb_repair(e))
        e->fork_slot = tb_client_take_slot(e, e->region.n_clients - TB_CLIENTS_TOOLS);
    assert(e->fork_slot == TB_NONE || e->fork_slot != e->slot);
    tb_late_learn(e); /* its file: parent and child will share the description */
    if (e->fork_slot != TB_NONE) {
        e->region.clients[e->fork_slot].awaited_ns = tb_now_ns() + AWAITED_NS;
        tb_opens_hold(e, e->fork_slot);
    } else {
        tb_opens_make_coherent(e); /* a child without a slot can only pass through */
    }
}

void tb_engine_atfork_parent(tb_engine *e)
{
    forked_slot = e->fork_slot;
    e->is_foreign = false;
    pthread_mutex_unlock(&e->fork_lock);
}

/* Gives the slot back that was taken for the child. */
void tb_engine_atfork_failed(tb_engine *e)
{
    if (forked_slot == TB_NONE)
        return;
    assert(forked_slot != e->slot);
    tb_opens_forget_client(e, forked_slot, false);
    e->region.clients[forked_slot].pid = 0;
    forked_slot = TB_NONE;
}

/* For posix_spawn and vfork: the child runs another program and never this code, so the parent registers it. */
void tb_engine_spawned(tb_engine *e, int pid)
{
    if (forked_slot == TB_NONE)
        return;
    struct tb_client *c = &e->region.clients[forked_slot];
    tb_lock_take(&e->header->registry.lock);
    c->start_time = tb_process_start_time(pid);
    c->pid = pid;
    c->awaited_ns = 0;
    c->tells_calls = true; /* it will make none */
    if (tb_opens_forget_client(e, forked_slot, true))
        c->image = 0;
    else
        c->pid = 0;
    tb_lock_drop(&e->header->registry.lock);
    forked_slot = TB_NONE;
}

/* Only this thread exists here. The lease and the mapping are inherited; slot and locks get the child's own numbers. */
void tb_engine_atfork_child(tb_engine *e)
{
    tb_wait_identify(getpid(), NULL);                  /* from here on it takes locks in its own name */
    memset((void *)e->mapped, 0, tb_windows_bytes(e)); /* the kernel copies no page tables of shared files */
    if (e->fork_slot != TB_NONE) {
        struct tb_client *c = &e->region.clients[e->fork_slot];
        bool tells = e->region.clients[e->slot].tells_calls;
        tb_lock_take(&e->header->registry.lock);
        c->start_time = tb_process_start_time(getpid());
        c->pid = getpid();
        c->awaited_ns = 0;
        tb_lock_drop(&e->header->registry.lock);
        e->slot = e->fork_slot;
        tb_late_forget(e);
        tb_client_inherit_calls(e, tells);
        assert(tb_client_is_valid(e));
        tb_wait_identify(getpid(), &c->waits);
    } else {
        e->passes_through = true;
        tb_opens_abandon(e);
    }
    if (e->is_foreign) { /* it never uses the instance */
        tb_client_close(e, &e->lease);
        tb_client_close(e, &e->region_file);
    }
    pthread_mutex_init(&e->fork_lock, NULL); /* the parent's thread held it during the fork */
}
