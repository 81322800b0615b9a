/*
 * What a configuration needs of this machine: directories, room, a file system that keeps what it is told.
 *
 * All of this may change after it was looked at, so nothing relies on it: each step of a
 * start says itself what it could not do. It is looked at first because one message here,
 * with key and value, is worth more than the errno of a half made instance.
 */
#include "config/check.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "base/huge_place.h"
#include "config/config.h"
#include "text/sizes.h"

/* Whole ones. */
static unsigned long long mib(uint64_t bytes)
{
    return (unsigned long long)((double)bytes / TB_MIB);
}

/*
 * Names the key, so that the user knows which directory of several is meant. access() asks
 * for the real user. That is also the user that makes the instance: it is never set-uid.
 */
static int refuse_directory(const struct tb_config *c, const char *key, const char *path, struct tb_error *err)
{
    struct stat st;
    const char *wrong = NULL;
    if (!path[0])
        wrong = "is missing";
    else if (stat(path, &st))
        wrong = strerror(errno);
    else if (!S_ISDIR(st.st_mode))
        wrong = "not a directory";
    else if (access(path, R_OK | W_OK | X_OK))
        wrong = "not writable";
    if (wrong)
        snprintf(err->text, sizeof(err->text), "%.400s: %s: %.400s: %s; allowed: a directory that exists and is writable", c->file, key,
                 path, wrong);
    return wrong ? -EINVAL : 0;
}

/* With the sticky bit only the owner of an entry may rename it. */
static bool all_may_rename_in(const struct stat *st)
{
    return st->st_mode & S_IWOTH && !(st->st_mode & S_ISVTX);
}

/*
 * A user that may rename an instance's directory away can hide what was promised in it
 * from every recovery. If all users may, that is refused. A group, an owner, or the owner
 * of a directory above is a user that the site may trust.
 */
static int refuse_open_tier(const struct tb_config *c, uint32_t t, struct tb_error *err)
{
    struct stat st;
    if (stat(c->tiers[t].path, &st))
        return -errno;
    if (!all_may_rename_in(&st))
        return 0;
    snprintf(err->text, sizeof(err->text),
             "%.300s: tiers[%u].path: %.300s: mode %04o: every user may rename what is in it; allowed: with the sticky bit "
             "(chmod +t), or a directory of your own in it (mkdir -m 700)",
             c->file, t, c->tiers[t].path, st.st_mode & 07777u);
    return -EINVAL;
}

/* Cuts the path to the directory above; false: there is none. The slash of the root itself stays. */
static bool go_up(char *path)
{
    char *slash = strrchr(path, '/');
    assert(path[0] == '/'); /* made by realpath */
    if (!slash || !path[1])
        return false;
    slash[slash == path] = 0;
    return true;
}

/*
 * Only a warning: a site may want it so. All directories above count, because a rename of
 * one of them moves all that is below it.
 */
bool tb_config_warn_of_tier(const struct tb_config *c, uint32_t t, struct tb_error *out)
{
    char path[PATH_MAX];
    struct stat st;
    const char *who = NULL;
    if (c->tiers[t].medium != TB_MEDIUM_DIRECTORY || !realpath(c->tiers[t].path, path) || stat(path, &st))
        return false;
    if (st.st_uid && st.st_uid != getuid())
        who = "its owner is another user, who";
    else if (st.st_mode & S_IWGRP && !(st.st_mode & S_ISVTX))
        who = "its group may write to it without the sticky bit, and";
    while (!who && go_up(path))
        if (stat(path, &st) == 0 && all_may_rename_in(&st))
            who = "every user may rename it in the directory above, and";
    if (who)
        snprintf(out->text, sizeof(out->text), "%.300s: tiers[%u].path: %.300s: %s can put another in the place of an instance's directory",
                 c->file, t, c->tiers[t].path, who);
    return who != NULL;
}

/* What a program may still be given, by the kernel's estimate; 0: it does not say. */
static uint64_t free_memory(void)
{
    unsigned long long kib = 0;
    char line[128];
    FILE *f = fopen("/proc/meminfo", "re");
    while (f && fgets(line, sizeof(line), f) && sscanf(line, "MemAvailable: %llu kB", &kib) != 1)
        ;
    if (f)
        fclose(f);
    return kib << 10;
}

/* This node lends as much as it borrows. */
static int check_lent(const struct tb_config *c, uint32_t t, struct tb_error *err)
{
    uint64_t room = free_memory();
    if (!room || c->tiers[t].capacity <= room)
        return 0;
    snprintf(
        err->text, sizeof(err->text),
        "%.300s: tiers[%u].capacity: %llu MiB, which this node lends to others, and it has %llu MiB of memory free; allowed: what fits",
        c->file, t, mib(c->tiers[t].capacity), mib(room));
    return -EINVAL;
}

/* Seconds for bytes of the size that is usual for a device's bandwidth; 0: not known. */
static double seconds_of(const struct tb_config_tier *t)
{
    const struct tb_device *d = t->modelled ? &t->model : t->profiled ? &t->profile : NULL;
    return d && d->write_bandwidth > 0 ? d->write_latency + TB_MIB / d->write_bandwidth : 0;
}

bool tb_config_warn_of_order(const struct tb_config *c, uint32_t t, struct tb_error *out)
{
    if (t + 1 >= c->n_tiers || (c->tiers[t].medium != TB_MEDIUM_REMOTE && c->tiers[t + 1].medium != TB_MEDIUM_REMOTE))
        return false;
    double first = seconds_of(&c->tiers[t]), second = seconds_of(&c->tiers[t + 1]);
    if (!first || !second || first <= second)
        return false;
    snprintf(out->text, sizeof(out->text),
             "%.300s: tiers[%u]: %s comes before %s, and is slower: by its figures a write of 1 MiB takes %.0f us, and %.0f us there; the "
             "fastest tier comes first",
             c->file, t, c->tiers[t].name, c->tiers[t + 1].name, first * 1e6, second * 1e6);
    return true;
}

/* A tmpfs is refused for `fsync: tier`: it forgets what was promised when the node crashes. */
static int check_tier(const struct tb_config *c, uint32_t t, struct tb_error *err)
{
    const struct tb_config_tier *tier = &c->tiers[t];
    struct statfs fs;
    assert(t < c->n_tiers);
    char key[64];
    snprintf(key, sizeof(key), "tiers[%u].path", t);
    if (tier->medium == TB_MEDIUM_REMOTE)
        return check_lent(c, t, err);
    if (tier->medium != TB_MEDIUM_DIRECTORY)
        return 0;
    if (refuse_directory(c, key, tier->path, err) || refuse_open_tier(c, t, err))
        return -EINVAL;
    if (statfs(tier->path, &fs))
        return -errno;
    if ((uint64_t)fs.f_bavail * (uint64_t)fs.f_bsize < tier->capacity) {
        snprintf(err->text, sizeof(err->text), "%.300s: tiers[%u].capacity: %llu MiB, and %.300s has %llu MiB free; allowed: what fits",
                 c->file, t, mib(tier->capacity), tier->path, mib((uint64_t)fs.f_bavail * (uint64_t)fs.f_bsize));
        return -EINVAL;
    }
    if (c->fsync == TB_FSYNC_TIER && !c->allow_volatile && (fs.f_type == TMPFS_MAGIC || fs.f_type == RAMFS_MAGIC)) {
        snprintf(err->text, sizeof(err->text),
                 "%.300s: tiers[%u].path: %.300s is on a tmpfs, which loses what fsync: tier promises; allowed: a persistent "
                 "file system (or allow_volatile: true in tests)",
                 c->file, t, tier->path);
        return -EINVAL;
    }
    return 0;
}

/*
 * hugetlbfs reports free pages only for its own page size, so the system's count is read.
 * Too few would not fail the mapping but kill the process that touches the first missing
 * page, so it must be known before.
 */
static int check_hugetlb(const struct tb_config *c, uint64_t region_bytes, uint64_t page, struct tb_error *err)
{
    uint64_t needed = (region_bytes + page - 1) / page;
    if (c->region.page % page)
        snprintf(err->text, sizeof(err->text), "%.300s: region.page: %llu bytes, and %.300s has pages of %llu; allowed: a multiple of them",
                 c->file, (unsigned long long)c->region.page, c->region.directory, (unsigned long long)page);
    else if (tb_huge_pages_free(page) < needed)
        snprintf(err->text, sizeof(err->text),
                 "%.300s: region.directory: %.300s: the region needs %llu huge pages and %llu are free; allowed: a smaller memory tier "
                 "(tiers[].capacity), or more pages (vm.nr_hugepages)",
                 c->file, c->region.directory, (unsigned long long)needed, (unsigned long long)tb_huge_pages_free(page));
    else
        return 0;
    return -EINVAL;
}

/* Room is checked, not taken: another process may use it before the start, which then fails with its own message. */
static int check_region(const struct tb_config *c, uint64_t region_bytes, struct tb_error *err)
{
    struct statfs fs;
    char place[TB_HUGE_PLACE_MAX];
    const char *directory = c->region.directory[0] ? c->region.directory : "/dev/shm";
    if (!c->region.directory[0] && c->region.huge_pages == TB_HUGE_AUTO && tb_huge_place(region_bytes, place))
        return 0;
    if (c->region.directory[0] && refuse_directory(c, "region.directory", directory, err))
        return -EINVAL;
    if (statfs(directory, &fs)) {
        snprintf(err->text, sizeof(err->text), "%.400s: the region: %.400s: %s; allowed: a tmpfs there", c->file, directory,
                 strerror(errno));
        return -EINVAL;
    }
    if (fs.f_type == HUGETLBFS_MAGIC)
        return check_hugetlb(c, region_bytes, (uint64_t)fs.f_bsize, err);
    if (c->region.directory[0] && fs.f_type != TMPFS_MAGIC) {
        snprintf(err->text, sizeof(err->text),
                 "%.400s: region.directory: %.400s is on no memory; allowed: a directory of a tmpfs or hugetlbfs", c->file, directory);
        return -EINVAL;
    }
    if ((uint64_t)fs.f_bavail * (uint64_t)fs.f_bsize >= region_bytes)
        return 0;
    snprintf(err->text, sizeof(err->text),
             "%.300s: the region needs %llu MiB and %.200s has %llu MiB free; allowed: a smaller memory tier (tiers[].capacity) "
             "or max_files, or a larger %.200s (mount -o remount,size=...)",
             c->file, mib(region_bytes) + 1, directory, mib((uint64_t)fs.f_bavail * (uint64_t)fs.f_bsize), directory);
    return -EINVAL;
}

/* Stops at the first problem: one message at a time. */
int tb_config_check_paths(const struct tb_config *c, uint64_t region_bytes, struct tb_error *err)
{
    int rc = c->by_environment ? 0 : refuse_directory(c, "pfs.path", c->pfs.path, err);
    for (uint32_t t = 0; t < c->n_tiers && !rc; t++)
        rc = check_tier(c, t, err);
    return rc ? rc : check_region(c, region_bytes, err);
}
