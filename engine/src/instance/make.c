/*
 * Making and removing all that an instance consists of.
 *
 * The order is what counts. The lease is made first and removed last (region/lease.h). A
 * process that is killed in between leaves a lease that says `making` or `void`; what
 * belongs to such a lease may be removed if no process holds it. A start removes what it
 * made itself, and such remains, and nothing else: what was there before may be all that
 * is left of promised bytes.
 */
#include "instance/make.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/private_files.h"
#include "base/remove_tree.h"
#include "base/report.h"
#include "instance/client.h"
#include "journal/journal.h"
#include "namespace/deferred.h"
#include "namespace/shadow.h"
#include "namespace/shadow_copy.h"
#include "region/clients.h"
#include "region/directories.h"
#include "region/lease.h"

/* One message: what was tried, on which path, and the system's reason. */
static int fail(struct tb_error *err, int rc, const char *what, const char *path)
{
    snprintf(err->text, sizeof(err->text), "%s %.800s: %s", what, path, strerror(-rc));
    return rc;
}

/* What a start has made so far. If it fails, it removes this, and never what was there before. */
struct made {
    const struct tb_config *config;
    const char *host, *name;
    bool tier[TB_MAX_TIERS], region, shadow, waiting;
};

static int make_directory(struct made *m, uint32_t t, struct tb_error *err)
{
    char path[TB_PATH_MAX + 256];
    tb_tier_directory(&m->config->tiers[t], m->host, m->name, path, sizeof(path));
    if (mkdir(path, 0700))
        return errno == EEXIST ? -ENOTEMPTY : fail(err, -errno, "cannot make", path);
    m->tier[t] = true;
    int directory = tb_private_directory(path);
    return directory < 0 ? fail(err, directory, "not this user's alone:", path) : directory;
}

/* Slab files get their full length and no blocks: room on the file system is taken when bytes are written. */
static int make_files(const struct made *m, const struct tb_layout *l, uint32_t t, int directory)
{
    char name[TB_SLAB_NAME_MAX];
    int fd = 0;
    for (uint32_t s = l->tier_first_slab[t]; tb_is_slab_of(l, s, t) && fd >= 0; s++) {
        tb_slab_file(s, name);
        fd = tb_private_make(directory, name, l->slab[s].n_buffers * l->slab[s].buffer_size);
        if (fd >= 0)
            close(fd);
    }
    static const char *const of_journal[] = {TB_JOURNAL_MARK_FILE, TB_JOURNAL_FILE};
    for (int i = 0; i < 2 && fd >= 0 && t == tb_journal_tier(m->config); i++)
        if ((fd = tb_private_make(directory, of_journal[i], 0)) >= 0)
            close(fd);
    return fd < 0 ? fd : 0;
}

/* The tier of the journal has its directory already, made for the lease. */
static int make_tier(struct made *m, const struct tb_layout *l, uint32_t t, struct tb_error *err)
{
    char path[TB_PATH_MAX + 256];
    tb_tier_directory(&m->config->tiers[t], m->host, m->name, path, sizeof(path));
    int directory = m->tier[t] ? tb_private_directory(path) : make_directory(m, t, err);
    int rc = directory < 0 ? directory : make_files(m, l, t, directory);
    if (directory >= 0)
        close(directory);
    return rc && rc != -ENOTEMPTY && !err->text[0] ? fail(err, rc, "cannot make the files of", path) : rc;
}

/* The hidden directory of deferred names. */
static int make_waiting(struct made *m, struct tb_error *err)
{
    char path[TB_PATH_MAX + 256];
    tb_waiting_directory(m->config, m->host, m->name, path, sizeof(path));
    if (mkdir(path, 0700))
        return errno == EEXIST ? -ENOTEMPTY : fail(err, -errno, "cannot make", path);
    m->waiting = true;
    int rc = tb_waiting_open_to_clients(path);
    int directory = rc ? rc : tb_private_directory(path);
    return directory < 0 ? fail(err, directory, "cannot prepare", path) : directory;
}

/* Sync the directory above, so that the name survives a crash of the node: what is promised in it must be found. */
static void sync_above(const char *path)
{
    char above[TB_PATH_MAX + 256];
    snprintf(above, sizeof(above), "%s", path);
    *strrchr(above, '/') = 0;
    int fd = open(above, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        fsync(fd); /* an error is not reported: some file systems cannot sync a directory */
        close(fd);
    }
}

/*
 * Made before everything else: its directory and the lease itself. Nothing is made if the
 * region file will be the lease.
 */
static int make_lease(struct made *m, const struct tb_lease *lease, tb_engine *e, struct tb_error *err)
{
    char path[TB_PATH_MAX + 256];
    const char *file;
    if (!tb_lease_place(m->config, m->host, m->name, path, sizeof(path), &file))
        return 0;
    uint32_t t = tb_journal_tier(m->config);
    int directory = t != TB_NONE ? make_directory(m, t, err) : make_waiting(m, err);
    if (directory < 0)
        return directory;
    int fd = tb_lease_make(directory, file, lease);
    close(directory);
    if (fd == -ENOLCK)
        return fail(err, fd, "the file system knows no locks of open descriptions, which keep an instance:", path);
    if (fd < 0)
        return fail(err, fd, "cannot make the lease in", path);
    e->lease = tb_client_own_fd(fd);
    sync_above(path);
    return 0;
}

/*
 * The lease goes last.  Until then no process can make an instance of that name, and a process that finds the rest knows that it is
 * void. The shadow is found by the region, so it goes before it.
 */
static void remove_made(const struct made *m)
{
    char path[TB_PATH_MAX + 256];
    bool apart = tb_lease_is_apart(m->config);
    assert(m->name[0]); /* it is a part of every path that is removed here */
    tb_region_path(m->name, path, sizeof(path) - sizeof(TB_REGION_SHADOW));
    strcat(path, TB_REGION_SHADOW);
    if (m->shadow)
        tb_remove_tree(path, NULL);
    if (m->region && apart)
        tb_region_file_remove(m->name);
    if (m->waiting)
        tb_waiting_remove(m->config, m->host, m->name, tb_io_libc());
    for (uint32_t t = m->config->n_tiers; t-- > 0;)
        if (m->tier[t]) {
            tb_tier_directory(&m->config->tiers[t], m->host, m->name, path, sizeof(path));
            tb_remove_tree(path, TB_LEASE_FILE);
        }
    if (m->region && !apart)
        tb_region_file_remove(m->name);
}

/* A descriptor that holds it alone, or -1: a region that was never ready, as its magic is written last, and is not held by its maker. */
static int open_unready(const char *name)
{
    uint64_t magic = 0; /* of an empty file, too */
    int fd = tb_region_file_open(name);
    bool is = fd >= 0 && pread(fd, &magic, sizeof(magic), 0) >= 0 && !magic && tb_lease_lock(fd, TB_LEASE_USED) == 0;
    if (fd >= 0 && !is)
        close(fd);
    return is ? fd : -1;
}

/* Does the name lead to the region of this instance, or to one that was never ready and is not held by its maker? */
static bool has_region(const char *name, uint64_t id)
{
    struct tb_region r = {0};
    int rc = tb_region_attach(name, &r, NULL);
    bool is = !rc && r.header->id == id;
    tb_region_unmap(&r);
    int fd = rc == -ESTALE ? open_unready(name) : -1;
    if (fd >= 0)
        close(fd);
    return is || fd >= 0;
}

/* The caller made sure that no process uses the instance, by its lease or by the lock of its region file. */
void tb_instance_remove(const struct tb_config *c, const char *host, const char *name, uint64_t id)
{
    struct made all = {.config = c, .host = host, .name = name, .region = has_region(name, id), .waiting = c->deferred};
    all.shadow = all.region && tb_journal_tier(c) == TB_NONE;
    for (uint32_t t = 0; t < c->n_tiers; t++)
        all.tier[t] = c->tiers[t].medium == TB_MEDIUM_DIRECTORY;
    remove_made(&all);
}

/* All that was promised in it is on the PFS. What was only in memory is gone after the machine was started again. */
static bool is_void(int fd, struct tb_lease *lease)
{
    struct tb_lease now;
    tb_lease_begin(&now);
    if (tb_lease_read(fd, lease))
        return false;
    return lease->state != TB_LEASE_LIVING || (lease->fsync != TB_FSYNC_TIER && lease->boot[0] && strcmp(lease->boot, now.boot) != 0);
}

/* A start that was killed before its lease said anything leaves an empty directory. */
static void sweep_empty(const struct tb_config *c, const char *host, const char *name)
{
    char path[TB_PATH_MAX + 256];
    const char *file;
    if (tb_lease_place(c, host, name, path, sizeof(path), &file))
        rmdir(path);
}

/*
 * A region that was never ready. A living maker holds it from the start, so this one's maker is dead. Held until its name is gone:
 * a maker that came in between finds it taken, or without a name.
 */
static bool sweep_region(const char *name)
{
    int fd = open_unready(name);
    bool swept = fd >= 0 && tb_file_is_linked(fd) && tb_region_file_remove(name) == 0;
    if (fd >= 0)
        close(fd);
    return swept;
}

int tb_instance_sweep_unready(void (*removed)(const char *name))
{
    char prefix[64];
    int n = 0, length = snprintf(prefix, sizeof(prefix), "tierbench.%u.", (unsigned)getuid());
    DIR *shm = opendir("/dev/shm");
    for (struct dirent *d; shm && (d = readdir(shm));)
        if (strncmp(d->d_name, prefix, (size_t)length) == 0 && sweep_region(d->d_name + length)) {
            removed(d->d_name + length);
            n++;
        }
    if (shm)
        closedir(shm);
    return n;
}

/* is_void is asked again with the lease in hand: another start may have come between. */
void tb_instance_sweep(const struct tb_config *c, const char *host, const char *name)
{
    struct tb_lease lease;
    char path[TB_PATH_MAX + 256];
    const char *file;
    sweep_empty(c, host, name);
    sweep_region(name);
    int fd = tb_lease_place(c, host, name, path, sizeof(path), &file) ? tb_lease_open(c, host, name, -1) : -1;
    if (fd >= 0 && is_void(fd, &lease) && tb_lease_take(fd) == 0 && tb_file_is_linked(fd) && is_void(fd, &lease))
        tb_instance_remove(c, host, name, lease.id);
    if (fd >= 0)
        close(fd);
}

/*
 * Read the dispersion units again and compare with the digest: the file may have changed
 * since the configuration was read.
 */
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

/* In the order in which remove_made undoes it. */
static int make_rest(struct made *m, tb_engine *e, struct tb_error *err)
{
    int rc = fill_units(e, m->config, err), waiting = -1;
    for (uint32_t t = 0; t < m->config->n_tiers && !rc; t++)
        if (m->config->tiers[t].medium == TB_MEDIUM_DIRECTORY)
            rc = make_tier(m, &e->header->layout, t, err);
    if (!rc && m->config->deferred && !m->waiting)
        rc = (waiting = make_waiting(m, err)) < 0 ? waiting : 0;
    if (waiting >= 0)
        close(waiting);
    if (rc)
        return rc;
    if ((rc = tb_client_open_places(e)) || (rc = tb_client_register(e, true)))
        return fail(err, rc, "cannot open the tiers of", m->name);
    rc = tb_shadow_create(e);
    m->shadow = rc != -EEXIST && tb_journal_tier(m->config) == TB_NONE;
    if (rc)
        return fail(err, rc, "cannot make", e->shadow);
    if (e->journal_fd >= 0 && (rc = tb_journal_create(e)))
        return fail(err, rc, "cannot write the journal of", m->name);
    return 0;
}

/*
 * The region's descriptor is locked as a lease from its making on. Where there is no lease in a
 * tier it is the lease. The lease remembers which file it is, so that a recovery can tell this
 * region from another one of the same name.
 */
static int make_region(struct made *m, const struct tb_layout *l, tb_progress *progress, void *arg, tb_engine *e, struct tb_lease *lease,
                       struct tb_error *err)
{
    struct stat st;
    int fd = tb_region_create(m->config, l, m->name, progress, arg, &e->region);
    if (fd < 0)
        return fd == -EEXIST ? fd : fail(err, fd, "cannot make the region of", m->name);
    m->region = true;
    assert(e->region_file < 0);
    e->header = e->region.header;
    tb_copy_measure(e->region.base + l->section[TB_SECTION_DATA].offset, l->section[TB_SECTION_DATA].bytes, &e->header->copy);
    e->copy = tb_copy_by(&e->header->copy);
    e->header->id = lease->id;
    if (fstat(fd, &st) == 0) {
        lease->region_device = st.st_dev;
        lease->region_inode = st.st_ino;
    }
    if (e->lease < 0)
        e->lease = tb_client_own_fd(fd);
    else
        e->region_file = tb_client_own_fd(fd);
    return 0;
}

/* From the magic on, programs can attach and be given promises: the lease says so before. */
static int publish(tb_engine *e, struct tb_lease *lease)
{
    int rc = 0;
    assert(tb_client_is_valid(e) && lease->state == TB_LEASE_MAKING && e->header->magic != TB_REGION_MAGIC);
    lease->state = TB_LEASE_LIVING;
    if (e->region_file >= 0)
        rc = tb_lease_write(e->lease, lease);
    if (!rc)
        e->header->magic = TB_REGION_MAGIC;
    return rc;
}

/* If killed before publish, the lease says `making` and the region has no magic: the next start sweeps both. */
static int make_all(struct made *m, const struct tb_layout *l, tb_progress *progress, void *arg, tb_engine *e, struct tb_error *err)
{
    struct tb_lease lease;
    tb_lease_begin(&lease);
    lease.digest = tb_config_digest(m->config);
    lease.fsync = m->config->fsync;
    snprintf(lease.config, sizeof(lease.config), "%s", m->config->file);
    int rc = make_lease(m, &lease, e, err);
    rc = rc ? rc : make_region(m, l, progress, arg, e, &lease, err);
    rc = rc ? rc : make_rest(m, e, err);
    return rc ? rc : publish(e, &lease);
}

/* A region of that name exists, alive or dead: what a killed start left has been swept before. */
static bool is_taken(const char *name)
{
    int fd = tb_region_file_open(name);
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

/* "~" sets a region apart (region/region_file.c); the header of a region has room for so many. */
int tb_instance_check_name(const char *name, struct tb_error *err)
{
    size_t n = strlen(name);
    char shown[100];
    bool ok = n > 0 && n < sizeof(((struct tb_header *)0)->name);
    snprintf(shown, sizeof(shown), "%s", name);
    for (char *c = shown; *c; c++)
        if (iscntrl((unsigned char)*c) || *c == '/' || *c == '~') {
            ok = false;
            *c = iscntrl((unsigned char)*c) ? '?' : *c;
        }
    if (!ok)
        snprintf(err->text, sizeof(err->text),
                 "instance \"%s\": not a name; allowed: 1 to %zu characters without \"/\", \"~\" and control characters", shown,
                 sizeof(((struct tb_header *)0)->name) - 1);
    return ok ? 0 : -EINVAL;
}

/* First what a killed start left is swept, then everything is made; what fails is undone. */
int tb_instance_create(const struct tb_config *config, const char *name, struct tb_io *base, tb_progress *progress, void *arg,
                       tb_engine **out, struct tb_error *err)
{
    struct tb_layout layout;
    char host[64] = "";
    struct made made = {.config = config, .host = host, .name = name};
    int rc = tb_instance_check_name(name, err);
    rc = rc ? rc : tb_layout_compute(config, &layout, err);
    tb_engine *e = rc ? NULL : tb_client_new(base);
    if (!e)
        return rc ? rc : -ENOMEM;
    gethostname(host, sizeof(host) - 1);
    tb_instance_sweep(config, host, name);
    tb_region_file_relink(config);
    rc = is_taken(name) ? -EEXIST : make_all(&made, &layout, progress, arg, e, err);
    if (!rc)
        return *out = e, 0;
    int lease = e->lease, region = e->region_file; /* held until everything is removed */
    e->lease = e->region_file = -1;
    tb_client_free(e);
    remove_made(&made);
    if (lease >= 0)
        close(lease);
    if (region >= 0)
        close(region);
    return rc;
}

/* Void before anything is removed: if killed between, the next start or recover sweeps the rest. */
int tb_instance_destroy(tb_engine *e)
{
    struct tb_config config = e->header->config;
    char host[64], name[64];
    uint64_t id = e->header->id;
    assert(tb_client_is_valid(e));
    int rc = tb_lease_lock(e->lease, TB_LEASE_ENDING);
    if (!rc && !tb_file_is_linked(e->lease))
        rc = -ENOENT; /* another process ended it, and the name may be another instance's */
    if (!rc && tb_lease_is_apart(&config))
        rc = tb_lease_make_void(e->lease);
    snprintf(host, sizeof(host), "%s", e->header->host);
    snprintf(name, sizeof(name), "%s", e->header->name);
    int lease = e->lease;
    e->lease = -1;
    tb_client_free(e);
    if (!rc)
        tb_instance_remove(&config, host, name, id);
    close(lease);
    return rc;
}

/* Read only by its name, without the region: -ENOENT where the configuration has no tier that could hold one. */
static int open_lease(const struct tb_config *c, const char *name)
{
    char host[64] = "", path[TB_PATH_MAX + 256];
    const char *file;
    gethostname(host, sizeof(host) - 1);
    return tb_lease_place(c, host, name, path, sizeof(path), &file) ? tb_lease_open(c, host, name, -1) : -ENOENT;
}

/* By the lease alone, so that it is also right when the region is in another mount namespace. */
int tb_instance_is_used(const struct tb_config *c, const char *name)
{
    struct tb_lease lease;
    int fd = open_lease(c, name);
    if (fd < 0)
        return fd == -ELOOP || fd == -ENOTDIR ? -EPERM : fd;
    int rc = tb_lease_is_locked(fd, TB_LEASE_USED) ? 1 : is_void(fd, &lease) ? -ENOENT : 0;
    close(fd);
    return rc;
}

bool tb_instance_is_over(const struct tb_config *c, const char *name)
{
    struct tb_lease lease;
    int fd = open_lease(c, name);
    bool over = fd >= 0 && tb_lease_read(fd, &lease) == 0 && lease.state == TB_LEASE_VOID;
    if (fd >= 0)
        close(fd);
    return over;
}

/* The digest tells in which mode a configuration was used. */
static bool has_digest(const char *file, const char *mode, uint64_t digest)
{
    struct tb_config *c = malloc(sizeof(*c));
    struct tb_error err;
    bool same = c && !tb_config_read_for_instance(file, NULL, mode, c, &err) && tb_config_digest(c) == digest;
    free(c);
    return same;
}

/* For messages. Where no mode gives the lease's digest, the configuration was changed since, and the command is without one. */
void tb_instance_recovery(const struct tb_config *c, const char *name, char *out, size_t size)
{
    struct tb_lease lease = {.digest = 0};
    int fd = open_lease(c, name);
    if (fd >= 0 && tb_lease_read(fd, &lease))
        lease.config[0] = 0;
    if (fd >= 0)
        close(fd);
    const char *file = lease.config[0] ? lease.config : c->file, *mode = NULL;
    for (int m = TB_MODE_PERSISTENT_ASYNC; m <= TB_MODE_BYPASS && !mode && !has_digest(file, NULL, lease.digest); m++)
        mode = has_digest(file, tb_mode_name((enum tb_mode)m), lease.digest) ? tb_mode_name((enum tb_mode)m) : NULL;
    snprintf(out, size, "tierctl recover -c %s%s%s", file, mode ? " --mode " : "", mode ? mode : "");
}
