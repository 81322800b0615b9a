#include "client.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "chain.h"
#include "environment.h"
#include "io_model.h"
#include "journal.h"
#include "layer.h"
#include "opens.h"
#include "stream.h"
#include "waiting.h"
#include "repair.h"
#include "route.h"

#define AWAITED_NS 60000000000ull /* a child whose parent has ended may take so long until it runs */
#define OWN_FD_FROM 600 /* the engine's descriptors stand above those that programs number themselves */

void tb_tier_directory(const struct tb_config_tier *tier, const char *host, const char *name, char *out, size_t size)
{
    snprintf(out, size, "%s/tierbench.%u.%s.%s", tier->path, (unsigned)getuid(), host, name);
}

void tb_slab_file(const char *directory, uint32_t slab, char *out, size_t size)
{
    snprintf(out, size, "%s/slab-%u", directory, slab);
}

uint32_t tb_journal_tier(const struct tb_config *config)
{
    for (uint32_t t = 0; t < config->n_tiers; t++)
        if (config->tiers[t].medium == TB_MEDIUM_DIRECTORY)
            return t;
    return TB_NONE;
}

static ssize_t read_process(int pid, const char *what, void *out, size_t size)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/%s", pid, what);
    struct tb_io *io = tb_io_libc();
    int fd = io->ops->open(io, path, O_RDONLY | O_CLOEXEC, 0);
    if (fd < 0)
        return fd;
    ssize_t n = io->ops->read(io, fd, out, size);
    io->ops->close(io, fd);
    return n;
}

uint64_t tb_process_start_time(int pid)
{
    char text[1024];
    ssize_t n = read_process(pid, "stat", text, sizeof(text) - 1);
    if (n <= 0)
        return 0;
    text[n] = 0;
    char *p = strrchr(text, ')'); /* the name may hold anything; start time is the 20th word behind it */
    for (int word = 0; p && word < 20; word++)
        p = strchr(p + 1, ' ');
    return p ? strtoull(p + 1, NULL, 10) : 0;
}

/*
 * The addresses that the kernel told the program at its start, mixed: no two programs of a process have the same, as
 * long as addresses are random.  0 where they can't be read.
 */
static uint64_t process_image(int pid)
{
    uint64_t words[64], mixed = 0;
    ssize_t n = read_process(pid, "auxv", words, sizeof(words));
    for (ssize_t i = 0; i < n / (ssize_t)sizeof(words[0]); i++)
        mixed = (mixed ^ words[i]) * 0x9e3779b97f4a7c15u + 1;
    return mixed;
}

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

bool tb_client_runs(const struct tb_client *c)
{
    int pid = c->pid;
    return pid && (kill(pid, 0) == 0 || errno == EPERM) && tb_process_start_time(pid) == c->start_time;
}

bool tb_client_is_alive(const struct tb_client *c)
{
    uint64_t awaited = c->awaited_ns;
    if (awaited && now_ns() < awaited)
        return true;
    uint64_t image = c->image, now = image && tb_client_runs(c) ? process_image(c->pid) : 0;
    return now ? now == image : tb_client_runs(c);
}

bool tb_slot_is_dead(const tb_engine *e, uint32_t slot)
{
    return slot < e->region.n_clients && !tb_client_is_alive(&e->region.clients[slot]);
}

/* One of the first `n` slots in this process's name, or TB_NONE. */
static uint32_t take_slot(tb_engine *e, uint32_t n)
{
    struct tb_header *h = e->header;
    uint32_t slot = TB_NONE;
    tb_lock_take(&h->clients_lock);
    bool refused = h->closed && n < e->region.n_clients; /* tools may still end what was left half ended */
    for (uint32_t i = 0; i < n && slot == TB_NONE && !refused; i++)
        if (!e->region.clients[i].pid) {
            e->region.clients[i].awaited_ns = 0;
            e->region.clients[i].start_time = tb_process_start_time(getpid());
            e->region.clients[i].image = process_image(getpid());
            e->region.clients[i].pid = getpid();
            slot = i;
        }
    tb_lock_drop(&h->clients_lock);
    return slot;
}

int tb_client_register(tb_engine *e, bool is_tool)
{
    uint32_t slot = take_slot(e, is_tool ? e->region.n_clients : e->region.n_clients - TB_CLIENTS_TOOLS);
    if (slot != TB_NONE)
        e->slot = slot;
    return slot != TB_NONE ? 0 : e->header->closed ? -ENOENT : -EUSERS;
}

static int move_up(int fd)
{
    int high = fcntl(fd, F_DUPFD_CLOEXEC, OWN_FD_FROM);
    if (high < 0)
        return fd;
    close(fd);
    return high;
}

static int open_own(tb_engine *e, const char *directory, const char *name, int *out)
{
    char path[TB_PATH_MAX + 300];
    snprintf(path, sizeof(path), "%s/%s", directory, name);
    int fd = e->base->ops->open(e->base, path, O_RDWR | O_CLOEXEC, 0600);
    *out = fd < 0 ? -1 : move_up(fd);
    return fd < 0 ? fd : 0;
}

static int open_tier(tb_engine *e, uint32_t t)
{
    const struct tb_config_tier *tier = &e->header->config.tiers[t];
    char directory[TB_PATH_MAX + 256], path[TB_PATH_MAX + 300];
    e->tier[t] = tb_chain_new(tier->modelled ? &tier->model : NULL, &e->header->tier_clock[t], e->base);
    if (!e->tier[t])
        return -errno;
    tb_tier_directory(tier, e->header->host, e->header->name, directory, sizeof(directory));
    for (uint32_t s = e->header->layout.tier_first_slab[t], end = s + tier->n_slabs; s < end; s++) {
        tb_slab_file(directory, s, path, sizeof(path));
        int fd = e->base->ops->open(e->base, path, O_RDWR | O_CLOEXEC, 0600);
        if (fd < 0)
            return fd;
        e->slab_fd[s] = move_up(fd);
    }
    if (t != tb_journal_tier(&e->header->config))
        return 0;
    int rc = open_own(e, directory, TB_JOURNAL_MARK_FILE, &e->mark_fd);
    rc = rc ? rc : open_own(e, directory, TB_JOURNAL_FILE, &e->journal_fd);
    if (rc)
        return rc;
    e->journal_tier = t;
    snprintf(e->shadow, sizeof(e->shadow), "%.1000s/shadow", directory);
    e->shadow_io = e->tier[t];
    return 0;
}

int tb_client_open_places(tb_engine *e)
{
    const struct tb_config *c = &e->header->config;
    int rc = 0;
    e->pfs = tb_chain_new(c->pfs.modelled ? &c->pfs.model : NULL, &e->header->pfs_clock, e->base);
    if (!e->pfs)
        return -errno;
    snprintf(e->shadow, sizeof(e->shadow), "/dev/shm/tierbench.%u.%s.shadow", (unsigned)getuid(), e->header->name);
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
    e->local_refs = calloc(e->region.n_opens, sizeof(*e->local_refs));
    e->populated = calloc(e->header->layout.n_buffers / 8 + 1, 1);
    e->readers = calloc(e->region.n_opens, sizeof(*e->readers));
    return e->local_refs && e->populated && e->readers ? 0 : -ENOMEM;
}

tb_engine *tb_client_new(struct tb_io *base)
{
    tb_engine *e = calloc(1, sizeof(*e));
    if (!e)
        return NULL;
    e->base = base;
    pthread_mutex_init(&e->fork_lock, NULL);
    e->journal_fd = e->mark_fd = -1;
    e->io.ops = tb_layer_ops();
    for (uint32_t s = 0; s < TB_MAX_TIERS * TB_MAX_SLABS; s++)
        e->slab_fd[s] = -1;
    return e;
}

void tb_client_free(tb_engine *e)
{
    for (uint32_t s = 0; s < TB_MAX_TIERS * TB_MAX_SLABS; s++)
        if (e->slab_fd[s] >= 0)
            e->base->ops->close(e->base, e->slab_fd[s]);
    if (e->journal_fd >= 0)
        e->base->ops->close(e->base, e->journal_fd);
    if (e->mark_fd >= 0)
        e->base->ops->close(e->base, e->mark_fd);
    for (uint32_t t = 0; t < TB_MAX_TIERS; t++)
        if (e->tier[t])
            tb_chain_free(e->tier[t]);
    if (e->pfs)
        tb_chain_free(e->pfs);
    for (uint32_t i = 0; i < TB_FD_PIECES; i++)
        free((void *)e->fds[i]);
    free((void *)e->local_refs);
    free((void *)e->populated);
    free(e->readers);
    free(e->prefix_length);
    free(e->own_prefixes);
    if (e->is_daemon)
        tb_lock_drop(&e->header->daemon_lock);
    tb_region_unmap(&e->region);
    free(e);
}

/* Slots of the dead may be free when they are repaired, which takes a slot for a moment. */
static int register_after_repair(tb_engine *e)
{
    int rc = tb_client_register(e, true);
    if (rc)
        return rc;
    uint32_t taken = e->slot;
    tb_repair(e);
    rc = tb_client_register(e, false);
    e->region.clients[taken].pid = 0;
    return rc;
}

/* What this process was before it executed its program has ended, but for descriptors that the program inherited. */
static void repair_former(tb_engine *e)
{
    const struct tb_client *c = e->region.clients;
    for (uint32_t i = 0; i < e->region.n_clients; i++)
        if (c[i].pid == c[e->slot].pid && c[i].image && c[i].image != c[e->slot].image) {
            tb_repair(e);
            return;
        }
}

static _Thread_local struct tb_error refusal;

/* With its client registered: -EUSERS where no slot is free, even of the dead. */
static int attach(const char *name, struct tb_io *base, bool is_tool, tb_engine **out)
{
    tb_engine *e = tb_client_new(base);
    if (!e)
        return -ENOMEM;
    int rc = tb_region_attach(name, &e->region);
    e->header = e->region.header;
    if (!rc)
        rc = tb_client_open_places(e);
    if (!rc && !is_tool)
        rc = tb_environment_apply(e, &refusal);
    if (!rc)
        rc = tb_client_register(e, is_tool);
    if (rc == -EUSERS)
        rc = register_after_repair(e);
    if (rc)
        tb_client_free(e);
    else
        *out = e;
    return rc;
}

int tb_engine_attach(const char *name, struct tb_io *base, tb_engine **out)
{
    int rc = attach(name, base, false, out);
    if (rc)
        return rc;
    repair_former(*out);
    if (tb_environment_goes_past(*out))
        tb_engine_flush(*out, -1);
    if (tb_environment_stops_daemon())
        (*out)->header->is_to_end = true;
    return 0;
}

int tb_instance_attach(const char *name, struct tb_io *base, tb_engine **out)
{
    return attach(name, base, true, out);
}

const char *tb_engine_refusal(void)
{
    return refusal.text;
}

bool tb_engine_config_changed(tb_engine *e)
{
    return tb_region_config_changed(e->header);
}

void tb_engine_detach(tb_engine *e)
{
    tb_opens_forget_client(e, e->slot, false);
    e->region.clients[e->slot].pid = 0;
    tb_client_free(e);
}

/*
 * The child's slot and references are made before it lives, in the parent's
 * name: else the parent could close the last descriptor before the child runs.
 * Only whoever called fork learns that it failed, and says so.
 */
static _Thread_local uint32_t forked_slot = TB_NONE;

void tb_engine_atfork_prepare(tb_engine *e)
{
    pthread_mutex_lock(&e->fork_lock);
    e->fork_slot = take_slot(e, e->region.n_clients - TB_CLIENTS_TOOLS);
    if (e->fork_slot == TB_NONE && tb_repair(e))
        e->fork_slot = take_slot(e, e->region.n_clients - TB_CLIENTS_TOOLS);
    if (e->fork_slot != TB_NONE) {
        e->region.clients[e->fork_slot].awaited_ns = now_ns() + AWAITED_NS;
        tb_opens_hold(e, e->fork_slot);
    } else {
        tb_opens_make_coherent(e); /* a child without an identity can only pass through */
    }
}

void tb_engine_atfork_parent(tb_engine *e)
{
    forked_slot = e->fork_slot;
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
    if (e->fork_slot != TB_NONE) {
        struct tb_client *c = &e->region.clients[e->fork_slot];
        tb_lock_take(&e->header->clients_lock);
        c->start_time = tb_process_start_time(getpid());
        c->pid = getpid();
        c->awaited_ns = 0;
        tb_lock_drop(&e->header->clients_lock);
        e->slot = e->fork_slot;
    } else {
        e->passes_through = true;
        tb_opens_abandon(e);
    }
    pthread_mutex_init(&e->fork_lock, NULL); /* held by the parent's thread that forked */
}
