/*
 * The identity of a file: device, inode, birth time and what kind of file it is, asked by
 * descriptor or by path. The birth time tells a file from a later one with the same inode
 * number.
 */
#include "io/identity.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

/* Past an adapter's statx, which would answer for its own descriptors. */
static int identify(int fd, const char *path, int flags, struct tb_identity *out)
{
    struct statx x;
    if (syscall(SYS_statx, fd, path, flags, STATX_BASIC_STATS | STATX_BTIME, &x))
        return -errno;
    *out = (struct tb_identity){
        .device = makedev(x.stx_dev_major, x.stx_dev_minor),
        .inode = x.stx_ino,
        .size = x.stx_size,
        .birth_ns = x.stx_mask & STATX_BTIME ? x.stx_btime.tv_sec * 1000000000ll + x.stx_btime.tv_nsec : 0,
        .mtime_ns = x.stx_mtime.tv_sec * 1000000000ll + x.stx_mtime.tv_nsec,
        .ctime_ns = x.stx_ctime.tv_sec * 1000000000ll + x.stx_ctime.tv_nsec,
        .links = x.stx_nlink,
        .regular = S_ISREG(x.stx_mode),
        .link = S_ISLNK(x.stx_mode),
    };
    return 0;
}

int tb_identity_of_fd(int fd, struct tb_identity *out)
{
    return identify(fd, "", AT_EMPTY_PATH, out);
}

int tb_identity_of_path(const char *path, struct tb_identity *out)
{
    return identify(AT_FDCWD, path, 0, out);
}

int tb_identity_of_name(const char *path, struct tb_identity *out)
{
    return identify(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW, out);
}
