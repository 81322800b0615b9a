#include "instance.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client.h"
#include "file.h"
#include "journal.h"
#include "names.h"
#include "remove_tree.h"
#include "repair.h"
#include "shadow.h"
#include "waiting.h"

static int fail(struct tb_error *err, int rc, const char *what, const char *path)
{
    snprintf(err->text, sizeof(err->text), "%s %.800s: %s", what, path, strerror(-rc));
    return rc;
}

static int make_file(const char *path, uint64_t bytes)
{
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    int rc = fd < 0 ? -errno : ftruncate(fd, (off_t)bytes) ? -errno : 0;
    if (fd >= 0)
        close(fd);
    return rc;
}

static int make_tier(const struct tb_config *c, const struct tb_layout *l, uint32_t t, const char *host, const char *name,
                     struct tb_error *err)
{
    char directory[TB_PATH_MAX + 256], path[TB_PATH_MAX + 300];
    tb_tier_directory(&c->tiers[t], host, name, directory, sizeof(directory));
    if (mkdir(directory, 0700))
        return fail(err, -errno, "cannot make", directory);
    int rc = 0;
    for (uint32_t s = l->tier_first_slab[t], end = s + c->tiers[t].n_slabs; s < end && !rc; s++) {
        tb_slab_file(directory, s, path, sizeof(path));
        rc = make_file(path, l->slab[s].n_buffers * l->slab[s].buffer_size);
    }
    if (!rc && t == tb_journal_tier(c)) {
        snprintf(path, sizeof(path), "%s/" TB_JOURNAL_MARK_FILE, directory);
        rc = make_file(path, 0);
        snprintf(path, sizeof(path), "%s/" TB_JOURNAL_FILE, directory);
        rc = rc ? rc : make_file(path, 0);
    }
    return rc ? fail(err, rc, "cannot make", path) : 0;
}

static void remove_tiers(const struct tb_config *c, const char *host, const char *name)
{
    char directory[TB_PATH_MAX + 256];
    for (uint32_t t = 0; t < c->n_tiers; t++)
        if (c->tiers[t].medium == TB_MEDIUM_DIRECTORY) {
            tb_tier_directory(&c->tiers[t], host, name, directory, sizeof(directory));
            tb_journal_remove(directory);
            tb_remove_tree(directory);
        }
    tb_waiting_remove(c, host, name);
    snprintf(directory, sizeof(directory), "/dev/shm/tierbench.%u.%s.shadow", (unsigned)getuid(), name);
    tb_remove_tree(directory);
}

/* What the configuration counted, from the file it named. */
static int fill_units(tb_engine *e, const struct tb_config *c, struct tb_error *err)
{
    struct tb_config now = *c;
    struct tb_unit_range *ranges;
    int rc = tb_units_read(&now, &ranges, err);
    if (!rc && tb_config_digest(&now) != tb_config_digest(c)) {
        snprintf(err->text, sizeof(err->text), "%.900s: was changed while the instance started", c->placement.units);
        rc = -EAGAIN;
    }
    if (!rc && ranges)
        memcpy(e->region.units, ranges, c->placement.n_unit_ranges * sizeof(*ranges));
    free(ranges);
    return rc;
}

static int finish_create(tb_engine *e, const struct tb_config *c, const struct tb_layout *l, const char *name,
                         struct tb_error *err)
{
    int rc = fill_units(e, c, err);
    for (uint32_t t = 0; t < c->n_tiers && !rc; t++)
        if (c->tiers[t].medium == TB_MEDIUM_DIRECTORY)
            rc = make_tier(c, l, t, e->header->host, name, err);
    if (rc)
        return rc;
    if ((rc = tb_client_open_places(e)) || (rc = tb_client_register(e, true)) || (rc = tb_shadow_create(e)) || (rc = tb_waiting_create(e)))
        return fail(err, rc, "cannot open the tiers of", name);
    if (e->journal_fd >= 0 && (rc = tb_journal_create(e)))
        return fail(err, rc, "cannot write the journal of", name);
    return 0;
}

int tb_instance_create(const struct tb_config *config, const char *name, struct tb_io *base, tb_progress *progress,
                       void *arg, tb_engine **out, struct tb_error *err)
{
    struct tb_layout layout;
    int rc = tb_layout_compute(config, &layout, err);
    tb_engine *e = rc ? NULL : tb_client_new(base);
    if (!e)
        return rc ? rc : -ENOMEM;
    rc = tb_region_create(config, &layout, name, progress, arg, &e->region);
    if (rc) {
        tb_client_free(e);
        return fail(err, rc, "cannot make the region of", name);
    }
    e->header = e->region.header;
    rc = finish_create(e, config, &layout, name, err);
    if (rc) {
        char host[64];
        snprintf(host, sizeof(host), "%s", e->header->host);
        tb_client_free(e);
        remove_tiers(config, host, name);
        tb_region_file_remove(name);
        return rc;
    }
    e->header->magic = TB_REGION_MAGIC; /* from here on it can be attached */
    *out = e;
    return 0;
}

int tb_instance_destroy(tb_engine *e)
{
    struct tb_config config = e->header->config;
    char host[64], name[64];
    snprintf(host, sizeof(host), "%s", e->header->host);
    snprintf(name, sizeof(name), "%s", e->header->name);
    tb_client_free(e);
    remove_tiers(&config, host, name);
    return tb_region_file_remove(name);
}

static uint32_t live_clients(const struct tb_region *r)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < r->n_clients; i++)
        n += r->clients[i].pid && r->clients[i].pid != r->header->daemon_pid && tb_client_is_alive(&r->clients[i]);
    return n;
}

static bool daemon_alive(struct tb_header *h)
{
    int rc = tb_lock_try(&h->daemon_lock);
    if (rc >= 0)
        tb_lock_drop(&h->daemon_lock);
    return rc == -EBUSY || rc == -EDEADLK;
}

static void read_info(const struct tb_region *r, struct tb_instance_info *out)
{
    struct tb_header *h = r->header;
    memset(out, 0, sizeof(*out));
    snprintf(out->name, sizeof(out->name), "%s", h->name);
    snprintf(out->config_file, sizeof(out->config_file), "%s", h->config.file);
    out->config_digest = h->digest;
    out->daemon_pid = h->daemon_pid;
    out->daemon_alive = daemon_alive(h);
    out->n_clients = live_clients(r);
    out->ends = h->closed || (h->is_to_end && !out->n_clients);
    out->region_bytes = h->bytes;
    out->huge_pages = h->huge_pages;
}

int tb_instance_info(tb_engine *e, struct tb_instance_info *out)
{
    read_info(&e->region, out);
    out->n_clients -= !e->is_daemon;
    return 0;
}

bool tb_instance_is_there(tb_engine *e)
{
    struct tb_region r = {0};
    bool there = tb_region_attach(e->header->name, &r) == 0 && r.header->started_ns == e->header->started_ns;
    tb_region_unmap(&r);
    return there;
}

int tb_instance_list(struct tb_instance_info *out, int max)
{
    char prefix[64];
    int n = 0, length = snprintf(prefix, sizeof(prefix), "tierbench.%u.", (unsigned)getuid());
    DIR *shm = opendir("/dev/shm");
    for (struct dirent *d; shm && n < max && (d = readdir(shm));) {
        struct tb_region r = {0};
        if (strncmp(d->d_name, prefix, (size_t)length) != 0 || tb_region_attach(d->d_name + length, &r))
            continue;
        read_info(&r, &out[n++]);
        tb_region_unmap(&r);
    }
    if (shm)
        closedir(shm);
    return n;
}

int tb_engine_find(char *name, size_t size)
{
    const char *given = getenv("TIERBENCH_INSTANCE"), *file = getenv("TIERBENCH_CONFIG");
    if (!file || !*file)
        file = getenv("HERMES_CONF");
    struct tb_instance_info all[64];
    char path[PATH_MAX];
    int found = 0;
    if (given && *given)
        return snprintf(name, size, "%s", given) < (int)size ? 0 : -ENAMETOOLONG;
    if (!file || !realpath(file, path))
        return -ENOENT;
    for (int i = 0, n = tb_instance_list(all, 64); i < n; i++)
        if (strcmp(all[i].config_file, path) == 0) {
            snprintf(name, size, "%s", all[i].name);
            found++;
        }
    return found == 1 ? 0 : found ? -ENOTUNIQ : -ENOENT;
}

const struct tb_config *tb_instance_config(tb_engine *e)
{
    return &e->header->config;
}

bool tb_instance_daemon_alive(tb_engine *e)
{
    return daemon_alive(e->header);
}

int tb_instance_become_daemon(tb_engine *e)
{
    int rc = tb_lock_try(&e->header->daemon_lock);
    if (rc < 0)
        return -EBUSY;
    e->header->daemon_pid = getpid();
    e->is_daemon = true;
    return 0;
}

bool tb_instance_is_idle(tb_engine *e)
{
    return e->header->is_to_end && live_clients(&e->region) == 0;
}

void tb_instance_retire(tb_engine *e, bool retired)
{
    e->header->closed = retired;
    for (uint32_t i = 0; retired && i < e->region.n_file_buckets; i++) {
        int stripe = tb_file_lock(e, i);
        if (e->region.files[i].magic == TB_FILE_MAGIC && !(e->region.files[i].flags & TB_FILE_SCRATCH))
            e->region.files[i].flags |= TB_FILE_SYNC;
        tb_file_unlock(e, stripe);
    }
}

void tb_instance_errors(tb_engine *e, tb_file_reporter *report, void *arg)
{
    for (uint32_t i = 0; i < e->region.n_file_buckets; i++) {
        struct tb_file *f = &e->region.files[i];
        struct tb_file_report r = {.error = f->magic == TB_FILE_MAGIC ? f->error : 0};
        if (!r.error)
            continue;
        tb_names_path(e, f, r.path, sizeof(r.path));
        char name[TB_PATH_MAX];
        if (tb_waiting_shown(e, r.path, name, sizeof(name)))
            memcpy(r.path, name, sizeof(name));
        report(arg, &r);
    }
}
