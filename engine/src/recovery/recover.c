/*
 * Recovery of every dead instance of a configuration. If the region survived (processes
 * died, the node did not), it knows all that was written, and is drained. If it is gone,
 * the journal knows all that was fsynced, and is replayed. Each instance is taken by its
 * lease first, so recovery never works on a living one.
 */
#include "recovery/recover.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/private_files.h"
#include "base/report.h"
#include "chain/chain.h"
#include "chain/model/device_clock.h"
#include "file/state.h"
#include "io/directory.h"
#include "instance/attach.h"
#include "instance/drain.h"
#include "instance/make.h"
#include "recovery/replay.h"
#include "io/identity.h"
#include "journal/lost.h"
#include "namespace/deferred.h"
#include "region/counters.h"
#include "region/directories.h"
#include "region/handle.h"
#include "region/lease.h"

struct recovery {
    const struct tb_config *config;
    struct tb_layout layout;
    uint64_t digest;
    char host[64];
    struct tb_io *base, *pfs, *tier[TB_MAX_TIERS];
    struct tb_device_clock *clocks; /* of the PFS and the tiers: its own, as no instance lives */
    tb_progress *progress;
    tb_file_reporter *report;
    void *arg;
    int n, error; /* instances recovered; the first error */
    int n_lost;   /* files that other programs removed: journal/lost.h */
    int n_borrowed;
};

/* Counts instances; the first error is the result of the command. */
static void note(struct recovery *r, int rc)
{
    r->n += rc > 0;
    if (rc < 0 && !r->error)
        r->error = rc;
}

/* Report an instance that is left as it is, and why. `error`: its bytes are not on the PFS. */
static int leave(struct recovery *r, const char *name, int error, const char *format, ...) __attribute__((format(printf, 4, 5)));
static int leave(struct recovery *r, const char *name, int error, const char *format, ...)
{
    struct tb_file_report report = {.error = error};
    va_list args;
    va_start(args, format);
    vsnprintf(report.why, sizeof(report.why), format, args);
    va_end(args);
    snprintf(report.path, sizeof(report.path), "instance %s", name);
    if (r->report)
        r->report(r->arg, &report);
    return error;
}

/* A process uses it. If its daemon lives, that is all. If not, what it holds is not flushed until its programs end. */
static int leave_used(struct recovery *r, const char *name, int lease, bool is_dirty)
{
    char holders[300];
    tb_lease_holders(lease, holders, sizeof(holders));
    if (tb_lease_is_locked(lease, TB_LEASE_DAEMON))
        return leave(r, name, 0, "lives, used by %s: left alone", holders);
    return leave(r, name, is_dirty ? -EBUSY : 0, "its daemon is dead, and %s still uses it: left alone%s", holders,
                 is_dirty ? "; end that, then try again" : "");
}

/* The lease is missing: an older version made the instance, or the file was removed. */
static int leave_unknown(struct recovery *r, const char *name, int error)
{
    char directory[TB_PATH_MAX + 256];
    const char *file;
    tb_lease_place(r->config, r->host, name, directory, sizeof(directory), &file);
    return leave(r, name, error == -ENOENT ? -ENODEV : error,
                 "%.300s/%s: %s: it is not known whether a process uses it; if none does, make an empty file of that name", directory, file,
                 strerror(-error));
}

/*
 * Take the lease alone: its descriptor, or what leave() reported. -EALREADY: there is
 * nothing to do. From here on no program can attach.
 */
static int take(struct recovery *r, const char *name, bool is_dirty, int region)
{
    int fd = tb_lease_open(r->config, r->host, name, region);
    if (fd < 0)
        return leave_unknown(r, name, fd);
    int rc = tb_lease_take(fd);
    if (rc == -EBUSY)
        rc = leave_used(r, name, fd, is_dirty);
    else if (rc)
        leave(r, name, rc, "its lease cannot be locked: %s", strerror(-rc));
    else if (!tb_file_is_linked(fd))
        rc = -ENOENT;
    else
        return fd;
    close(fd);
    return rc == 0 || rc == -ENOENT ? -EALREADY : rc; /* nothing to do */
}

/* The directory of the lease is not there: it was removed, or is not mounted. */
static bool has_lost_its_tier(struct tb_io *io, const struct tb_config *c, const char *host, const char *name, char *directory, size_t size)
{
    const char *file;
    return tb_lease_place(c, host, name, directory, size, &file) && TB_IO(io, access, directory, F_OK, AT_EACCESS) == -ENOENT;
}

/* Bytes of files that the PFS lacks, by the records of the buffers. A deferred name counts as one. */
static uint64_t bytes_at_stake(const struct tb_region *r)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < r->header->layout.n_buffers; i++) {
        const struct tb_buffer *b = &r->buffers[i];
        bool is_file = b->file < r->n_file_buckets && tb_file_flush_state(&r->files[b->file]) < TB_FLUSH_VOID;
        if (b->state == TB_BUFFER_LIVE && is_file && b->dirty_hi > b->dirty_lo)
            n += b->dirty_hi - b->dirty_lo;
    }
    for (uint32_t i = 0; i < r->n_file_buckets; i++)
        n += r->files[i].magic == TB_FILE_MAGIC && r->files[i].flags & TB_FILE_WAITING;
    return n;
}

/*
 * The tier directory with the lease is gone (a job's epilog cleared the node), so no
 * process can attach any more. A process that attached before still holds the region file.
 */
static int clear_region(struct recovery *r, const struct tb_region *region, int file, const char *directory)
{
    const struct tb_header *h = region->header;
    char holders[300];
    int rc = tb_lease_take(file);
    if (rc == -EBUSY) {
        tb_lease_holders(file, holders, sizeof(holders));
        return leave(r, h->name, -ENODEV, "%.300s is gone, and %s still uses it: left alone", directory, holders);
    }
    if (rc || !tb_file_is_linked(file))
        return rc;
    uint64_t bytes = bytes_at_stake(region);
    if (bytes)
        return leave(r, h->name, -ENODEV,
                     "%.300s is gone, and %llu bytes are not on the PFS; no process uses it: bring that back and try again, "
                     "or give them up: tierctl stop -i %s --force",
                     directory, (unsigned long long)bytes, h->name);
    tb_instance_remove(&h->config, h->host, h->name, h->id);
    return 1;
}

/* Only if the tier directory is really gone: all other instances are ended by a drain. */
int tb_instance_discard(const char *name)
{
    struct tb_region region = {0};
    char directory[TB_PATH_MAX + 256];
    int file, rc = tb_region_attach(name, &region, &file);
    if (rc)
        return rc;
    const struct tb_header *h = region.header;
    rc = has_lost_its_tier(tb_io_libc(), &h->config, h->host, name, directory, sizeof(directory)) ? tb_lease_take(file) : -EEXIST;
    if (!rc && tb_file_is_linked(file))
        tb_instance_remove(&h->config, h->host, name, h->id);
    close(file);
    tb_region_unmap(&region);
    return rc;
}

/* By the counters of the tiers: the records are not walked while a program may use them. */
static bool is_dirty(const struct tb_region *r)
{
    for (uint32_t t = 0; t < r->header->config.n_tiers; t++)
        if (tb_tier_is_dirty(r->header, t))
            return true;
    return false;
}

/* A PFS that was mounted again may have another device number: the records keep the one that it had. */
static void call_pfs_as_recorded(const tb_engine *e)
{
    const struct tb_root_identity *root = &e->header->root;
    struct tb_identity now;
    if (root->inode && tb_identity_of_path(e->pfs, tb_config_of(e)->pfs.path, &now) == 0 && now.inode == root->inode &&
        now.birth_ns == root->birth_ns)
        tb_identity_call_device(now.device, root->device);
}

/* The lease is held alone, and is given to the handle. If the drain fails, the region stays for another try. */
static int drain_and_end(struct recovery *r, const char *name, int lease)
{
    tb_engine *e;
    assert(lease >= 0);
    int rc = tb_client_attach_alone(name, lease, r->base, &e);
    if (rc)
        return leave(r, name, rc, "%s", tb_engine_refusal());
    struct tb_lost lost = {.config = &e->header->config,
                           .name = name,
                           .pfs = e->pfs,
                           .root = {.inode = e->header->root.inode, .birth_ns = e->header->root.birth_ns}};
    e->lost = &lost;
    call_pfs_as_recorded(e);
    rc = tb_instance_drain(e, 2, r->progress, r->report, r->arg);
    r->n_lost += lost.n;
    r->n_borrowed += lost.n_borrowed;
    if (rc)
        tb_engine_detach(e);
    else
        rc = tb_instance_destroy(e);
    tb_identity_call_device(0, 0);
    return rc ? rc : 1;
}

/* The lease is held, and decides: of another instance, void, or ours to drain. Without one the region file itself was locked. */
static int end_by_lease(struct recovery *r, const char *name, uint64_t id, int fd)
{
    struct tb_lease lease = {.state = TB_LEASE_LIVING, .id = id};
    bool in_file = tb_journal_tier(r->config) != TB_NONE || r->config->deferred;
    int rc = in_file ? tb_lease_read(fd, &lease) : 0;
    bool ours = !rc && lease.id == id;
    if (ours && lease.state != TB_LEASE_VOID)
        return drain_and_end(r, name, fd);
    if (ours)
        tb_instance_remove(r->config, r->host, name, id);
    close(fd);
    return ours ? 1 : leave(r, name, -ESTALE, "the directories in its tiers are of another instance of that name");
}

/* The region is mapped only for the look: a drain attaches to it again. */
static int recover_mapped(struct recovery *r, struct tb_region *region, int file, const char *name)
{
    uint64_t id = region->header->id;
    char directory[TB_PATH_MAX + 256];
    bool lost = has_lost_its_tier(r->base, r->config, r->host, name, directory, sizeof(directory));
    int rc = lost ? clear_region(r, region, file, directory) : take(r, name, is_dirty(region), dup(file));
    close(file);
    tb_region_unmap(region);
    if (lost)
        return rc;
    if (rc < 0)
        return rc == -EALREADY ? 0 : rc;
    return end_by_lease(r, name, id, rc);
}

/* The host may have another name by now: the directories have the one that the region remembers. */
static int recover_region(struct recovery *r, const char *name)
{
    struct tb_region region = {0};
    char now[sizeof(r->host)];
    int file, rc = tb_region_attach(name, &region, &file);
    if (rc)
        return rc == -ENOENT ? 0 : rc;
    memcpy(now, r->host, sizeof(now));
    snprintf(r->host, sizeof(r->host), "%s", region.header->host);
    rc = recover_mapped(r, &region, file, name);
    memcpy(r->host, now, sizeof(now));
    return rc;
}

/* Mapped only for the look: the name may lead to a newer instance by now. */
static bool has_region(const char *name, uint64_t id)
{
    struct tb_region r = {0};
    bool has = tb_region_attach(name, &r, NULL) == 0 && r.header->id == id;
    tb_region_unmap(&r);
    return has;
}

/*
 * One directory "tierbench.UID.HOST.NAME" of this user. Its lease is held alone. Made void
 * before it is removed: if killed between, the next recovery removes the rest.
 */
static int recover_journal(struct recovery *r, const char *name, int fd, const struct tb_lease *lease)
{
    bool is_foreign = false;
    assert(fd >= 0 && r->pfs);
    struct tb_replay replay = {.config = r->config,
                               .layout = &r->layout,
                               .host = r->host,
                               .name = name,
                               .io = r->pfs,
                               .tier = r->tier,
                               .report = r->report,
                               .arg = r->arg,
                               .id = lease->id,
                               .n_lost = &r->n_lost,
                               .is_foreign = &is_foreign};
    int rc = lease->state == TB_LEASE_LIVING ? tb_replay(&replay) : 0;
    if (!rc && is_foreign) /* a damaged lease does not name its configuration */
        return lease->digest ? leave(r, name, -ESTALE, "its journal is of another configuration than its lease says") : 0;
    if (!rc && (rc = tb_lease_make_void(fd)) == 0)
        tb_instance_remove(r->config, r->host, name, lease->id);
    return rc ? rc : 1;
}

/* It belongs to another configuration, or its region was met before: then it was recovered with it, or left with it. */
static bool is_not_ours(const struct recovery *r, const char *name)
{
    struct tb_lease lease;
    int fd = tb_lease_open(r->config, r->host, name, -1);
    bool not = fd >= 0 && tb_lease_read(fd, &lease) == 0 && ((lease.digest && lease.digest != r->digest) || has_region(name, lease.id));
    if (fd >= 0)
        close(fd);
    return not ;
}

/*
 * A directory that another user made in a tier is never entered. Asked of the kernel past the
 * chain: the check is of a descriptor, and what it answers must be no layer's.
 */
static int check_owner(struct recovery *r, const char *name, const char *path)
{
    int directory = tb_private_directory(path);
    if (directory >= 0)
        return close(directory), 1;
    if (directory == -EPERM || directory == -ELOOP || directory == -ENOTDIR)
        return leave(r, name, 0, "%.300s is not a directory of this user alone: left alone", path);
    return directory == -ENOENT ? 0 : leave(r, name, directory, "%.300s: %s", path, strerror(-directory));
}

/* Only for a configuration with a journal: recover_journals asks before. */
static struct tb_io *journal_of(const struct recovery *r)
{
    uint32_t t = tb_journal_tier(r->config);
    assert(t != TB_NONE && r->tier[t]);
    return r->tier[t];
}

/* An instance that has only its directory left: its region went with the node's memory. */
static int recover_directory(struct recovery *r, const char *name, const char *path)
{
    struct tb_lease lease;
    int rc = check_owner(r, name, path);
    if (rc <= 0 || is_not_ours(r, name) ||
        TB_IO(journal_of(r), unlink, path, AT_REMOVEDIR) == 0) /* an empty one was left by a start that was killed */
        return rc < 0 ? rc : 0;
    int fd = take(r, name, true, -1);
    if (fd < 0)
        return fd == -EALREADY ? 0 : fd;
    rc = tb_lease_read(fd, &lease);
    rc = rc ? leave(r, name, rc, "its lease cannot be read: %s", strerror(-rc)) : recover_journal(r, name, fd, &lease);
    close(fd);
    return rc;
}

/* Directories of instances in a place, by their names: user and host are part of them. */
struct search {
    struct recovery *r;
    const char *place;
    char prefix[128];
    int (*recover)(struct recovery *r, const char *name, const char *path);
};

/* One instance that fails does not stop the search: the first error is the result of the command. */
static int recover_entry(void *arg, const char *entry, unsigned char type)
{
    const struct search *s = arg;
    char path[TB_PATH_MAX + 256];
    size_t length = strlen(s->prefix);
    (void)type;
    if (strncmp(entry, s->prefix, length) != 0)
        return 0;
    snprintf(path, sizeof(path), "%s/%s", s->place, entry);
    note(s->r, s->recover(s->r, entry + length, path));
    return 0;
}

/* A place that cannot be listed may hold what was promised: that is an error, and not "nothing there". */
static void search(struct search *s, struct tb_io *io, const char *dot)
{
    snprintf(s->prefix, sizeof(s->prefix), "%stierbench.%u.%s.", dot, (unsigned)getuid(), s->r->host);
    note(s->r, tb_io_each_entry(io, s->place, recover_entry, s));
}

/* After the regions: what a region knows was drained with it, and its journal is gone by now. */
static void recover_journals(struct recovery *r)
{
    uint32_t t = tb_journal_tier(r->config);
    if (t != TB_NONE)
        search(&(struct search){.r = r, .place = r->config->tiers[t].path, .recover = recover_directory}, r->tier[t], "");
}

/*
 * Deferred names of instances that are gone. Their journals were replayed before, so each
 * file has its bytes when it gets its name. If killed here, the names that are left are
 * found by the next recovery in the same way.
 */
static int recover_names(struct recovery *r, const char *name, const char *path)
{
    int fd = -1, rc = check_owner(r, name, path);
    if (rc <= 0 || (tb_journal_tier(r->config) == TB_NONE && is_not_ours(r, name)))
        return rc < 0 ? rc : 0;
    if (tb_journal_tier(r->config) == TB_NONE && (fd = take(r, name, true, -1)) < 0)
        return fd == -EALREADY ? 0 : fd;
    rc = tb_waiting_recover(r->config, r->host, name, r->pfs, r->report, r->arg);
    if (fd >= 0)
        close(fd);
    return rc ? rc : 1;
}

/*
 * The directory of the journal is there: deferred names are handled with it. -ENOENT: it is
 * not. Any other error is the result: names that are given before the journal was replayed
 * would lose its bytes.
 */
static int find_journal(const struct recovery *r, const char *name)
{
    char path[TB_PATH_MAX + 256];
    uint32_t t = tb_journal_tier(r->config);
    if (t == TB_NONE)
        return -ENOENT;
    tb_tier_directory(&r->config->tiers[t], r->host, name, path, sizeof(path));
    return TB_IO(r->tier[t], access, path, F_OK, AT_EACCESS);
}

static int recover_hidden(struct recovery *r, const char *name, const char *path)
{
    int rc = find_journal(r, name);
    return rc == -ENOENT ? recover_names(r, name, path) : rc;
}

/* Hidden directories on the PFS, for configurations with deferred names. */
static void recover_waiting(struct recovery *r)
{
    if (r->config->deferred)
        search(&(struct search){.r = r, .place = r->config->pfs.path, .recover = recover_hidden}, r->pfs, ".");
}

/* The chains of all places, as in an instance: models, traces and faults see what recovery does. */
static int open_places(struct recovery *r)
{
    const struct tb_config *c = r->config;
    r->clocks = calloc(c->n_tiers + 1, sizeof(*r->clocks));
    if (!r->clocks)
        return -ENOMEM;
    r->pfs = tb_chain_new(c->pfs.modelled ? &c->pfs.model : NULL, &r->clocks[c->n_tiers], r->base);
    for (uint32_t t = 0; t < c->n_tiers && r->pfs; t++)
        if (c->tiers[t].medium == TB_MEDIUM_DIRECTORY &&
            !(r->tier[t] = tb_chain_new(c->tiers[t].modelled ? &c->tiers[t].model : NULL, &r->clocks[t], r->base)))
            return -errno;
    return r->pfs ? 0 : -errno;
}

/* After the last report: a chain that is freed pays no debts of a model. */
static void close_places(struct recovery *r)
{
    for (uint32_t t = 0; t < TB_MAX_TIERS; t++)
        if (r->tier[t])
            tb_chain_free(r->tier[t], r->base);
    if (r->pfs)
        tb_chain_free(r->pfs, r->base);
    free(r->clocks);
}

/* Instances with a living daemon are left out without a message. */
static void recover_regions(struct recovery *r)
{
    struct tb_instance_info *all;
    tb_region_file_relink(r->config);
    int found = tb_instance_list(&all);
    if (found < 0)
        note(r, found);
    for (int i = 0; i < found; i++)
        if (all[i].config_digest == r->digest && !all[i].daemon_alive)
            note(r, recover_region(r, all[i].name));
    free(all);
}

/*
 * Regions first, then journals: a region knows more than the journal of the same instance.
 * One failure does not stop the rest.
 */
int tb_instance_recover(const struct tb_config *config, struct tb_io *base, tb_progress *progress, tb_file_reporter *report, void *arg,
                        struct tb_error *err)
{
    struct recovery r = {
        .config = config, .base = base, .progress = progress, .report = report, .arg = arg, .digest = tb_config_digest(config)};
    r.error = open_places(&r);
    if (!r.error)
        r.error = tb_layout_compute(config, &r.layout, err);
    gethostname(r.host, sizeof(r.host) - 1);
    if (!r.error) {
        recover_regions(&r);
        recover_journals(&r);
        recover_waiting(&r);
    }
    close_places(&r);
    if (!r.error && r.n_lost) {
        snprintf(err->text, sizeof(err->text), "%d file%s removed or replaced by another program", r.n_lost,
                 r.n_lost == 1 ? " was" : "s were");
        r.error = -ESTALE;
    }
    if (!r.error && r.n_borrowed) {
        snprintf(err->text, sizeof(err->text), "bytes of %d file%s were only in the memory of other nodes, and are lost", r.n_borrowed,
                 r.n_borrowed == 1 ? "" : "s");
        r.error = -ENODATA;
    }
    return r.error ? r.error : r.n;
}
