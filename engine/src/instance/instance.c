/*
 * What can be asked of an instance, and told to it, by a process that has a handle or only
 * the name: list, find, configuration, waits, errors, retire.
 */
#include "instance/instance.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/private_files.h"
#include "base/report.h"
#include "file/file.h"
#include "file/name_tree.h"
#include "file/state.h"
#include "layer/repair.h"
#include "namespace/deferred.h"
#include "region/clients.h"
#include "region/handle.h"
#include "region/lease.h"

/* Without the daemon, which is a client too. Read without a lock: a client may come or go at the same time. */
static uint32_t live_clients(const struct tb_region *r)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < r->n_clients; i++)
        n += r->clients[i].pid && r->clients[i].pid != r->header->daemon.pid && tb_client_is_alive(&r->clients[i]);
    return n;
}

/*
 * By the lease, if there is one. The daemon's mutex would not do: each process that asks holds it for a moment, and a dead
 * daemon would seem to live. The order matters: a process that ends an instance has its lock before the daemon ends, and
 * until the region's file is gone. If that process is killed, the mark `closed` stays, but its lock is free.
 */
static void ask_lease(struct tb_header *h, int region, struct tb_instance_info *out)
{
    int fd = tb_lease_open(&h->config, h->host, h->name, dup(region));
    bool has = fd >= 0;
    out->daemon_alive = has ? tb_lease_is_locked(fd, TB_LEASE_DAEMON) : tb_daemon_is_alive(h);
    bool is_being_ended = has && tb_lease_is_locked(fd, TB_LEASE_ENDING);
    bool is_being_made = has && !h->daemon.pid && tb_lease_is_locked(fd, TB_LEASE_USED);
    out->is_left = !out->daemon_alive && !is_being_ended && !is_being_made && tb_file_is_linked(region);
    out->ends = (h->registry.closed && is_being_ended) || (h->daemon.is_to_end && !out->n_clients);
    if (has)
        close(fd);
}

/* Read without a lock: the numbers may be of different moments. */
static void read_info(const struct tb_region *r, int region, struct tb_instance_info *out)
{
    struct tb_header *h = r->header;
    memset(out, 0, sizeof(*out));
    snprintf(out->name, sizeof(out->name), "%s", h->name);
    snprintf(out->config_file, sizeof(out->config_file), "%s", h->config.file);
    out->config_digest = h->digest;
    out->daemon_pid = h->daemon.pid;
    out->daemon_gave_up = h->daemon.gave_up;
    out->n_clients = live_clients(r);
    ask_lease(h, region, out);
    out->region_bytes = h->bytes;
    out->huge_pages = h->huge_pages;
}

/* The asker itself is not counted, unless it is the daemon, which read_info has left out. */
int tb_instance_info(tb_engine *e, struct tb_instance_info *out)
{
    read_info(&e->region, e->lease, out);
    out->n_clients -= e->slot != TB_NONE && !e->is_daemon;
    return 0;
}

/* A copy: the region is unmapped again. */
int tb_instance_config_of(const char *name, struct tb_config *out)
{
    struct tb_region r = {0};
    int rc = tb_region_attach(name, &r, NULL);
    if (!rc)
        *out = r.header->config;
    tb_region_unmap(&r);
    return rc;
}

/* By the start time, so that a new instance of the same name is not taken for this one. */
bool tb_instance_is_there(tb_engine *e)
{
    struct tb_region r = {0};
    bool there = tb_region_attach(e->header->name, &r, NULL) == 0 && r.header->started_ns == e->header->started_ns;
    tb_region_unmap(&r);
    return there;
}

#define ROWS_MORE 64

/* Room for one more row after `n`, in steps. */
static int make_room(struct tb_instance_info **rows, int n)
{
    struct tb_instance_info *more = n % ROWS_MORE ? *rows : realloc(*rows, (size_t)(n + ROWS_MORE) * sizeof(*more));
    if (more)
        *rows = more;
    return more ? 0 : -ENOMEM;
}

/* Adds a row. A region that is damaged or of another user is left out. */
static int list_one(const char *name, struct tb_instance_info **rows, int *n)
{
    struct tb_region r = {0};
    int file, rc = tb_region_attach(name, &r, &file);
    if (rc)
        return 0;
    rc = make_room(rows, *n);
    if (!rc)
        read_info(&r, file, &(*rows)[(*n)++]);
    tb_region_unmap(&r);
    close(file);
    return rc;
}

/* By the names in /dev/shm. All of them: those who recover and clear must miss none. */
int tb_instance_list(struct tb_instance_info **out)
{
    char prefix[64];
    int n = 0, rc = 0, length = snprintf(prefix, sizeof(prefix), "tierbench.%u.", (unsigned)getuid());
    DIR *shm = opendir("/dev/shm");
    *out = NULL;
    for (struct dirent *d; shm && !rc && (d = readdir(shm));)
        if (strncmp(d->d_name, prefix, (size_t)length) == 0)
            rc = list_one(d->d_name + length, out, &n);
    if (shm)
        closedir(shm);
    if (rc) {
        free(*out);
        *out = NULL;
    }
    return rc ? rc : n;
}

/* The name of the only one with that configuration file. */
static int find_by_file(const char *path, char *name, size_t size)
{
    struct tb_instance_info *all;
    int found = 0, n = tb_instance_list(&all);
    for (int i = 0; i < n; i++)
        if (strcmp(all[i].config_file, path) == 0) {
            snprintf(name, size, "%s", all[i].name);
            found++;
        }
    free(all);
    return n < 0 ? n : found == 1 ? 0 : found ? -ENOTUNIQ : -ENOENT;
}

/* -ENOTUNIQ: several instances run with that configuration, so the user has to name one. */
int tb_engine_find(char *name, size_t size)
{
    const char *given = getenv("TIERBENCH_INSTANCE"), *file = getenv("TIERBENCH_CONFIG");
    if (!file || !*file)
        file = getenv("HERMES_CONF");
    char path[PATH_MAX];
    if (given && *given)
        return snprintf(name, size, "%s", given) < (int)size ? 0 : -ENAMETOOLONG;
    if (!file || !realpath(file, path))
        return -ENOENT;
    return find_by_file(path, name, size);
}

const struct tb_config *tb_instance_config(tb_engine *e)
{
    return &e->header->config;
}

/* The robust lock is held until the process ends, and so tells others that a daemon lives. */
int tb_instance_become_daemon(tb_engine *e)
{
    int rc = tb_lock_try(&e->header->daemon.lock);
    if (rc < 0)
        return -EBUSY;
    assert(!e->is_daemon && e->lease >= 0);
    e->header->daemon.pid = getpid();
    e->is_daemon = true;
    return tb_lease_lock(e->lease, TB_LEASE_DAEMON);
}

/* Set once and never taken back: the next stop reads why there is no daemon, and needs none. */
void tb_instance_give_up(tb_engine *e)
{
    e->header->daemon.gave_up = true;
}

void tb_instance_end_with_clients(tb_engine *e)
{
    e->header->daemon.is_to_end = true;
}

bool tb_instance_is_idle(tb_engine *e)
{
    return e->header->daemon.is_to_end && live_clients(&e->region) == 0;
}

/*
 * Files are set to write-through after `closed` is set: a program that opens one later sees
 * `closed`. If killed in between, `closed` counts no more (region/clients.c), and files that
 * were set stay so until their last close: slower, and right.
 */
int tb_instance_retire(tb_engine *e, bool retired)
{
    int rc = retired ? tb_lease_lock(e->lease, TB_LEASE_ENDING) : 0;
    if (rc)
        return rc;
    e->header->registry.closed = retired;
    for (uint32_t i = 0; retired && i < e->region.n_file_buckets; i++)
        tb_file_write_through(e, i);
    if (!retired)
        tb_lease_unlock(e->lease, TB_LEASE_ENDING);
    return 0;
}

/*
 * Locks that a process needs to attach or to name a file. They are tried here, because no
 * other client may be waiting for them yet.
 */
static int own_waits(tb_engine *e, struct tb_waiting_process *out, int max)
{
    struct tb_lock *locks[] = {&e->header->registry.lock, &e->header->names.lock};
    int n = 0;
    for (int i = 0; i < 2 && n < max; i++) {
        int rc = tb_lock_take_soon(locks[i]);
        if (rc >= 0)
            tb_lock_drop(locks[i]);
        else if (rc == -EBUSY)
            out[n++] = (struct tb_waiting_process){getpid(), locks[i]->holder, TB_WAIT_SECONDS};
    }
    return n;
}

/* What each client notes of its own wait (base/wait.h), for `tierctl status`. It waits a second at most for each lock. */
int tb_instance_waits(tb_engine *e, struct tb_waiting_process *out, int max)
{
    int n = own_waits(e, out, max);
    uint64_t now = tb_now_ns();
    for (uint32_t i = 0; i < e->region.n_clients && n < max; i++) {
        const struct tb_client *c = &e->region.clients[i];
        int pid = c->pid, for_pid = c->waits.pid;
        if (pid && for_pid && tb_client_is_alive(c))
            out[n++] = (struct tb_waiting_process){pid, for_pid, (double)(now - c->waits.since_ns) * 1e-9};
    }
    return n;
}

/* Never waits for the lock of names: a stopped process may hold it, and the user asks why. */
void tb_instance_errors(tb_engine *e, tb_file_reporter *report, void *arg)
{
    for (uint32_t i = 0; i < e->region.n_file_buckets; i++) {
        struct tb_file *f = &e->region.files[i];
        struct tb_file_report r = {.error = f->magic == TB_FILE_MAGIC ? f->error : 0};
        if (!r.error)
            continue;
        if (!tb_names_path_soon(e, f, r.path, sizeof(r.path)))
            snprintf(r.path, sizeof(r.path), "a file (names are locked)");
        char name[TB_PATH_MAX];
        if (tb_waiting_shown(e, r.path, name, sizeof(name)) == 0)
            memcpy(r.path, name, sizeof(name));
        report(arg, &r);
    }
}
