/*
 * The handle of a process: its chains to the PFS and to each directory tier, its
 * descriptors of slabs and journal, its own tables, and its calls that are under way. But for their number nothing
 * here is shared. What processes share is in the region.
 */
#include "instance/client.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/private_files.h"
#include "base/valid.h"
#include "base/wait.h"
#include "chain/chain.h"
#include "chain/model/device_clock.h"
#include "journal/journal.h"
#include "layer/layer.h"
#include "layer/late.h"
#include "namespace/deferred.h"
#include "namespace/environment.h"
#include "namespace/route.h"
#include "placement/placement.h"
#include "region/counters.h"
#include "region/directories.h"
#include "shared/borrow.h"
#include "tiering/stream.h"

#define OWN_FD_FROM 600 /* the engine's descriptors are above those that programs number themselves */

/* A program may expect the lowest number for its next open, so the engine's descriptors are moved up. */
int tb_client_own_fd(int fd)
{
    assert(fd >= 0);
    int high = fcntl(fd, F_DUPFD_CLOEXEC, OWN_FD_FROM);
    if (high < 0)
        return fd;
    close(fd);
    return high;
}

/* Above the program's numbers, and only if the file is this user's alone. */
static int open_own(int directory, const char *name)
{
    int fd = tb_private_file(directory, name, O_RDWR);
    return fd < 0 ? fd : tb_client_own_fd(fd);
}

/* The slabs of a tier, and the journal if it is in this tier. */
static int open_files(tb_engine *e, uint32_t t, int directory)
{
    const struct tb_layout *l = &e->header->layout;
    char name[TB_SLAB_NAME_MAX];
    for (uint32_t s = l->tier_first_slab[t]; tb_is_slab_of(l, s, t); s++) {
        tb_slab_file(s, name);
        if ((e->slab_fd[s] = open_own(directory, name)) < 0)
            return e->slab_fd[s];
    }
    if (t != tb_journal_tier(&e->header->config))
        return 0;
    e->mark_fd = open_own(directory, TB_JOURNAL_MARK_FILE);
    e->journal_fd = open_own(directory, TB_JOURNAL_FILE);
    return e->mark_fd < 0 ? e->mark_fd : e->journal_fd < 0 ? e->journal_fd : 0;
}

/*
 * The tier of the journal also holds the shadow. The directory must be this user's alone
 * (base/private_files.h): a path that another user could replace is refused, not followed.
 */
static int open_tier(tb_engine *e, uint32_t t)
{
    const struct tb_config_tier *tier = &e->header->config.tiers[t];
    char path[TB_PATH_MAX + 256];
    e->tier[t] = tb_chain_new(tier->modelled ? &tier->model : NULL, &e->header->clocks.tier[t], e->base);
    if (!e->tier[t])
        return -errno;
    tb_tier_directory(tier, e->header->host, e->header->name, path, sizeof(path));
    int directory = tb_private_directory(path);
    int rc = directory < 0 ? directory : open_files(e, t, directory);
    if (directory >= 0)
        close(directory);
    if (rc || t != tb_journal_tier(&e->header->config))
        return rc;
    e->journal_tier = t;
    snprintf(e->shadow, sizeof(e->shadow), "%.1000s/shadow", path);
    e->shadow_io = e->tier[t];
    assert(e->journal_fd >= 0 && e->mark_fd >= 0);
    return 0;
}

/* The process that another client waits for. So a wait can be traced to the process at its end. */
static int waits_for(const void *of, int pid)
{
    const struct tb_region *r = of;
    for (uint32_t i = 0; i < r->n_clients; i++)
        if (r->clients[i].pid == pid && r->clients[i].waits.pid)
            return r->clients[i].waits.pid;
    return 0;
}

/* Files of another file system below the PFS's path are not shared: their inode numbers would be taken for the PFS's. */
static int know_shared(tb_engine *e)
{
    struct stat st;
    int rc = TB_IO(e->base, stat, e->header->config.pfs.path, &st, 0);
    if (!rc)
        e->shared_device = st.st_dev;
    return rc;
}

/* The order is that of dependence: the chain of the PFS, the shadow, the tiers, then what needs their paths. */
int tb_client_open_places(tb_engine *e)
{
    const struct tb_config *c = &e->header->config;
    int rc = 0;
    tb_wait_know(waits_for, &e->region);
    if (c->several_nodes == TB_NODES_SHARED && (rc = know_shared(e)))
        return rc;
    e->pfs = tb_chain_new(c->pfs.modelled ? &c->pfs.model : NULL, &e->header->clocks.pfs, e->base);
    if (!e->pfs)
        return -errno;
    tb_region_path(e->header->name, e->shadow, sizeof(e->shadow) - sizeof(TB_REGION_SHADOW));
    strcat(e->shadow, TB_REGION_SHADOW);
    e->shadow_io = e->base;
    for (uint32_t t = 0; t < c->n_tiers && !rc; t++)
        if (c->tiers[t].medium == TB_MEDIUM_DIRECTORY)
            rc = open_tier(e, t);
        else if (c->tiers[t].modelled)
            tb_model_start();
    if (rc)
        return rc;
    tb_waiting_prepare(e);
    rc = tb_environment_ignore(e);
    if (rc)
        return rc;
    e->placement = tb_placer_new(c, &e->header->layout, e->region.units);
    e->local_refs = calloc(e->region.n_opens, sizeof(*e->local_refs));
    e->mapped = calloc(tb_windows_bytes(e), 1);
    e->readers = calloc(e->region.n_opens, sizeof(*e->readers));
    return e->placement && e->local_refs && e->mapped && e->readers ? tb_late_new(e) : -ENOMEM;
}

/* All descriptors are -1 first, so that tb_client_free can be called after any failure. */
tb_engine *tb_client_new(struct tb_io *base)
{
    static _Atomic uint64_t n_made;
    tb_engine *e = calloc(1, sizeof(*e));
    if (!e)
        return NULL;
    e->number = ++n_made;
    if (tb_wait_own_pid() != getpid())
        tb_wait_identify(getpid(), NULL);
    e->base = base;
    pthread_mutex_init(&e->fork_lock, NULL);
    e->journal_fd = e->mark_fd = e->lease = e->region_file = -1;
    e->slot = TB_NONE;
    e->any = (struct tb_engine_io){.io = {.ops = tb_layer_ops()}, .engine = e};
    e->note_name = tb_place_note_name;
    e->borrow = tb_borrow_by_daemon();
    for (uint32_t s = 0; s < TB_MAX_TIERS * TB_MAX_SLABS; s++)
        e->slab_fd[s] = -1;
    return e;
}

bool tb_client_is_valid(const tb_engine *e)
{
    bool has_slot = e->slot != TB_NONE;
    return e->header && e->header == e->region.header && e->pfs && e->lease >= 0 && (!has_slot || e->slot < e->region.n_clients) &&
           e->routed && e->placement && e->local_refs && e->readers && e->late && e->mapped;
}

/* A slab of a directory tier has a descriptor, others have none. */
bool tb_client_is_whole(const tb_engine *e)
{
    const struct tb_layout *l = &e->header->layout;
    for (uint32_t s = 0; s < l->n_slabs; s++)
        if (tb_tier_is_directory(e, l->slab[s].tier) != (e->slab_fd[s] >= 0))
            return false;
    return tb_client_is_valid(e) && (e->journal_fd < 0) == (e->mark_fd < 0);
}

/* Through the base chain: in a program it knows that the descriptor is the engine's own. */
void tb_client_close(tb_engine *e, int *fd)
{
    if (*fd >= 0)
        TB_IO(e->base, close, *fd);
    *fd = -1;
}

/*
 * Works on a handle that is only half made. The lease goes before the region is unmapped. The
 * kernel drops its lock with the last descriptor, so a forked child that has the same one goes
 * on holding it. If killed here, the kernel closes the rest, and repair frees the slot.
 */
void tb_client_free(tb_engine *e)
{
    assert(!e->n_stuck && !e->background); /* their threads would use what goes here */
    tb_wait_know_no_more(&e->region);
    for (uint32_t s = 0; s < TB_MAX_TIERS * TB_MAX_SLABS; s++)
        tb_client_close(e, &e->slab_fd[s]);
    tb_client_close(e, &e->journal_fd);
    tb_client_close(e, &e->mark_fd);
    tb_client_close(e, &e->lease);
    tb_client_close(e, &e->region_file);
    for (uint32_t t = 0; t < TB_MAX_TIERS; t++)
        if (e->tier[t])
            tb_chain_free(e->tier[t], e->base);
    if (e->pfs)
        tb_chain_free(e->pfs, e->base);
    for (uint32_t i = 0; i < TB_FD_PIECES; i++)
        free((void *)e->fds[i]);
    free((void *)e->local_refs);
    free((void *)e->mapped);
    free(e->readers);
    free(e->late);
    free(e->placement);
    free(e->routed);
    free(e->own_prefixes);
    if (e->is_daemon)
        tb_lock_drop(&e->header->daemon.lock);
    tb_region_unmap(&e->region);
    free(e);
}

/*
 * The calls of this process that are under way, for the repair of what it left (layer/repair.c). A killed process stops between two
 * instructions: what it had stored before is there, in the order of the program. So no fence is needed but the compiler's.
 * A child that has no slot of its own has its parent's number still.
 */
static bool has_slot(const tb_engine *e)
{
    return e->slot < e->region.n_clients && !e->passes_through;
}

static void count(tb_engine *e, uint32_t by)
{
    struct tb_client *c = &e->region.clients[e->slot];
    if (tb_thread_is_first())
        atomic_store_explicit(&c->calls_first, atomic_load_explicit(&c->calls_first, memory_order_relaxed) + by, memory_order_relaxed);
    else
        atomic_fetch_add_explicit(&c->calls_others, by, memory_order_relaxed);
}

void tb_engine_tells_calls(tb_engine *e)
{
    assert(has_slot(e));
    e->region.clients[e->slot].tells_calls = true;
}

_Atomic uint32_t *tb_engine_own_calls(tb_engine *e)
{
    return has_slot(e) && tb_thread_is_first() ? &e->region.clients[e->slot].calls_first : NULL;
}

void tb_engine_call_begins(tb_engine *e)
{
    if (has_slot(e))
        count(e, 1);
    atomic_signal_fence(memory_order_seq_cst);
}

void tb_engine_call_ends(tb_engine *e)
{
    atomic_signal_fence(memory_order_seq_cst);
    if (has_slot(e))
        count(e, (uint32_t)-1);
}

/* In the child, after it has its slot: of all threads only the one that forked goes on, and that is inside a call. */
void tb_client_inherit_calls(tb_engine *e, bool tells)
{
    if (!tells)
        return;
    count(e, 1);
    e->region.clients[e->slot].tells_calls = true;
}
