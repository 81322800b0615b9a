/* What a configuration needs of this machine: directories, room, a file system that keeps what it is told. */
#include <errno.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "config.h"

#define MIB(bytes) ((unsigned long long)(bytes) >> 20)

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
        snprintf(err->text, sizeof(err->text), "%.400s: %s: %.400s: %s; allowed: a directory that exists and is writable",
                 c->file, key, path, wrong);
    return wrong ? -EINVAL : 0;
}

static int check_tier(const struct tb_config *c, uint32_t t, struct tb_error *err)
{
    const struct tb_config_tier *tier = &c->tiers[t];
    struct statfs fs;
    char key[64];
    snprintf(key, sizeof(key), "tiers[%u].path", t);
    if (tier->medium != TB_MEDIUM_DIRECTORY)
        return 0;
    if (refuse_directory(c, key, tier->path, err))
        return -EINVAL;
    if (statfs(tier->path, &fs))
        return -errno;
    if ((uint64_t)fs.f_bavail * (uint64_t)fs.f_bsize < tier->capacity) {
        snprintf(err->text, sizeof(err->text), "%.300s: tiers[%u].capacity: %llu MiB, and %.300s has %llu MiB free; allowed: what fits",
                 c->file, t, MIB(tier->capacity), tier->path, MIB((uint64_t)fs.f_bavail * (uint64_t)fs.f_bsize));
        return -EINVAL;
    }
    if (c->fsync == TB_FSYNC_TIER && !c->allow_volatile && (fs.f_type == TMPFS_MAGIC || fs.f_type == RAMFS_MAGIC)) {
        snprintf(err->text, sizeof(err->text),
                 "%.300s: tiers[%u].path: %.300s is on a tmpfs, which loses what fsync: tier promises; allowed: a persistent "
                 "file system (or allow_volatile: true in tests)", c->file, t, tier->path);
        return -EINVAL;
    }
    return 0;
}

int tb_config_check_paths(const struct tb_config *c, uint64_t region_bytes, struct tb_error *err)
{
    struct statfs shm;
    int rc = refuse_directory(c, "pfs.path", c->pfs.path, err);
    for (uint32_t t = 0; t < c->n_tiers && !rc; t++)
        rc = check_tier(c, t, err);
    if (rc)
        return rc;
    if (statfs("/dev/shm", &shm) || (uint64_t)shm.f_bavail * (uint64_t)shm.f_bsize < region_bytes) {
        snprintf(err->text, sizeof(err->text),
                 "%.300s: the region needs %llu MiB and /dev/shm has %llu MiB free; allowed: a smaller memory tier (tiers[].capacity) "
                 "or max_files, or a larger /dev/shm (mount -o remount,size=...)",
                 c->file, MIB(region_bytes) + 1, MIB((uint64_t)shm.f_bavail * (uint64_t)shm.f_bsize));
        return -EINVAL;
    }
    return 0;
}
