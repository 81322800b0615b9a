/*
 * Files with promised bytes that another program removed or replaced: their bytes are kept
 * in a private directory of the journal's tier, and the report names it.
 */
#include "journal/lost.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/private_files.h"
#include "io/identity.h"
#include "region/directories.h"
#include "region/handle.h"

#define LONGEST_NAME 150 /* bytes of the file's own name that are used */

bool tb_lost_is_gone(int error)
{
    return error == -ENOENT || error == -ESTALE || error == -ENOTDIR || error == -EISDIR || error == -ENXIO || error == -ELOOP;
}

/*
 * If the PFS is not mounted, all its files seem to be gone: then nothing is kept apart,
 * and recovery may be tried again.
 */
static bool is_same_pfs(const struct tb_lost *l)
{
    struct tb_identity now;
    return tb_identity_of_path(l->pfs, l->config->pfs.path, &now) == 0 && now.inode == l->root.inode && now.birth_ns == l->root.birth_ns;
}

static int make_directory(const char *path)
{
    if (mkdir(path, 0700) && errno != EEXIST)
        return -errno;
    return tb_private_directory(path);
}

/* The file is not emptied: an earlier recovery may have been killed after it wrote a part. */
int tb_lost_open(struct tb_lost *l, const char *path, uint64_t inode, char *kept, size_t size)
{
    uint32_t t = tb_journal_tier(l->config);
    char directory[TB_PATH_MAX + 100], name[300];
    const char *slash = strrchr(path, '/');
    if (t == TB_NONE || !is_same_pfs(l))
        return -ENOENT;
    snprintf(directory, sizeof(directory), "%s/tierbench.lost.%u", l->config->tiers[t].path, (unsigned)getuid());
    snprintf(name, sizeof(name), "%.63s.%llu.%.*s", l->name, (unsigned long long)inode, LONGEST_NAME, slash ? slash + 1 : path);
    snprintf(kept, size, "%s/%s", directory, name);
    int d = make_directory(directory);
    int fd = d < 0 ? d : openat(d, name, O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
    int rc = fd < 0 ? (d < 0 ? d : -errno) : fsync(d) ? -errno : 0;
    if (rc && fd >= 0)
        close(fd);
    if (d >= 0)
        close(d);
    l->n += !rc;
    return rc ? rc : fd;
}

void tb_lost_say(const char *kept, uint64_t bytes, char *why, size_t size)
{
    snprintf(why, size, "removed or replaced by another program; the %llu bytes promised to it are kept in %.400s",
             (unsigned long long)bytes, kept);
}
