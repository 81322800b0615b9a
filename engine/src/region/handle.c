#include "region/handle.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/private_files.h"
#include "io/chain.h"
#include "io/device_clock.h"
#include "journal/journal.h"
#include "layer/layer.h"
#include "namespace/deferred.h"
#include "namespace/environment.h"
#include "namespace/route.h"
#include "region/directories.h"
#include "tiering/stream.h"

#define OWN_FD_FROM 600 /* the engine's descriptors stand above those that programs number themselves */

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

/* The text of /proc/PID/stat from a word on; NULL: it has fewer.  The name may hold anything, so words count from its end. */
static const char *stat_word(const char *text, int n)
{
    const char *p = strrchr(text, ')');
    for (int word = 0; p && word < n; word++)
        p = strchr(p + 1, ' ');
    return p ? p + 1 : NULL;
}

/* A process that was killed keeps its number until its parent asks; one whose first thread alone has ended lives. */
static bool has_ended(const char *text)
{
    const char *state = stat_word(text, 1), *threads = stat_word(text, 18);
    return state && threads && (*state == 'Z' || *state == 'X') && strtol(threads, NULL, 10) <= 1;
}

uint64_t tb_process_start_time(int pid)
{
    char text[1024];
    ssize_t n = read_process(pid, "stat", text, sizeof(text) - 1);
    if (n <= 0)
        return 0;
    text[n] = 0;
    const char *start = stat_word(text, 20);
    if (has_ended(text))
        return TB_PROCESS_ENDED;
    return start ? strtoull(start, NULL, 10) : 0;
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

uint64_t tb_client_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

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
    if (awaited && tb_client_now_ns() < awaited)
        return true;
    uint64_t image = c->image, now = image && tb_client_runs(c) ? process_image(c->pid) : 0;
    return now ? now == image : tb_client_runs(c);
}

bool tb_slot_is_dead(const tb_engine *e, uint32_t slot)
{
    return slot < e->region.n_clients && !tb_client_is_alive(&e->region.clients[slot]);
}

uint32_t tb_client_take_slot(tb_engine *e, uint32_t n)
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
    return slot != TB_NONE ? 0 : e->header->closed ? -ENOENT : -EUSERS;
}

int tb_client_own_fd(int fd)
{
    int high = fcntl(fd, F_DUPFD_CLOEXEC, OWN_FD_FROM);
    if (high < 0)
        return fd;
    close(fd);
    return high;
}

static int open_own(int directory, const char *name)
{
    int fd = tb_private_file(directory, name, O_RDWR);
    return fd < 0 ? fd : tb_client_own_fd(fd);
}

/* Slabs, and the journal where it lies here. */
static int open_files(tb_engine *e, uint32_t t, int directory)
{
    const struct tb_layout *l = &e->header->layout;
    char name[TB_SLAB_NAME_MAX];
    for (uint32_t s = l->tier_first_slab[t], end = s + e->header->config.tiers[t].n_slabs; s < end; s++) {
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

static int open_tier(tb_engine *e, uint32_t t)
{
    const struct tb_config_tier *tier = &e->header->config.tiers[t];
    char path[TB_PATH_MAX + 256];
    e->tier[t] = tb_chain_new(tier->modelled ? &tier->model : NULL, &e->header->tier_clock[t], e->base);
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
    return 0;
}

int tb_client_open_places(tb_engine *e)
{
    const struct tb_config *c = &e->header->config;
    int rc = 0;
    e->pfs = tb_chain_new(c->pfs.modelled ? &c->pfs.model : NULL, &e->header->pfs_clock, e->base);
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
    if (tb_wait_own_pid() != getpid())
        tb_wait_identify(getpid(), NULL);
    e->base = base;
    pthread_mutex_init(&e->fork_lock, NULL);
    e->journal_fd = e->mark_fd = e->lease = e->making = -1;
    e->io.ops = tb_layer_ops();
    for (uint32_t s = 0; s < TB_MAX_TIERS * TB_MAX_SLABS; s++)
        e->slab_fd[s] = -1;
    return e;
}

void tb_client_close(tb_engine *e, int *fd)
{
    if (*fd >= 0)
        e->base->ops->close(e->base, *fd);
    *fd = -1;
}

void tb_client_free(tb_engine *e)
{
    for (uint32_t s = 0; s < TB_MAX_TIERS * TB_MAX_SLABS; s++)
        tb_client_close(e, &e->slab_fd[s]);
    tb_client_close(e, &e->journal_fd);
    tb_client_close(e, &e->mark_fd);
    tb_client_close(e, &e->lease);
    tb_client_close(e, &e->making);
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
