/*
 * The last layer of every chain: libc's own functions, past the wrappers.  So
 * the engine never meets a wrapper with a managed descriptor, and a wrapper that
 * is called with one while this thread is in the engine was called by a signal
 * handler that could not wait (core/signal.c): it is refused.
 */
#include "core/base.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "core/adapter.h"
#include "core/record_locks.h"

static inline long rc_of(long rc)
{
    return rc == -1 ? -errno : rc;
}

/* The directory of the shadow, open for this process's life: names in it are looked up from there, and not from "/". */
static struct {
    int fd; /* -1: none */
    size_t length;
    char path[PATH_MAX];
} shadow = {.fd = -1};

/* Names of the shadow are then opened relative to this descriptor, so long ones fit. */
void tb_base_know_shadow(const char *path)
{
    size_t n = strlen(path);
    if (!n || n >= sizeof(shadow.path))
        return;
    memcpy(shadow.path, path, n + 1);
    shadow.length = n;
    shadow.fd = tb_own_open(path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, 0);
}

/* Where `*path` begins, for the calls that take a directory; what is left of it follows in `*path`. */
static int at(const char **path)
{
    if (shadow.fd < 0 || strncmp(*path, shadow.path, shadow.length) != 0 || (*path)[shadow.length] != '/')
        return AT_FDCWD;
    const char *rest = *path + shadow.length + 1;
    if (!*rest || *rest == '/')
        return AT_FDCWD;
    *path = rest;
    return shadow.fd;
}

#define BASE(type, op, parameters, ...)  \
    static type base_##op parameters     \
    {                                    \
        (void)io;                        \
        return (type)rc_of(__VA_ARGS__); \
    }

static int base_open(struct tb_io *io, const char *path, int flags, mode_t mode)
{
    (void)io;
    if (flags & TB_IO_OWN)
        return tb_own_open(path, flags & ~TB_IO_OWN, mode);
    int directory = at(&path);
    if (flags & TB_IO_NO_LINKS)
        return tb_io_open_without_links(REAL(syscall), directory, path, flags, mode);
    return (int)rc_of(REAL(openat)(directory, path, flags, mode));
}

/* As BASE, of an operation on one name that the system has with a directory. */
#define BASE_AT(type, op, parameters, ...) \
    static type base_##op parameters       \
    {                                      \
        (void)io;                          \
        int directory = at(&path);         \
        return (type)rc_of(__VA_ARGS__);   \
    }

/* The program's, with which its record locks on the file go, or the engine's, which must leave them. */
static int base_close(struct tb_io *io, int fd)
{
    (void)io;
    if (fd != tb_program_closes)
        return tb_own_close(fd);
    struct tb_lock_mark *mark = tb_locks_go_begin(fd);
    int rc = (int)rc_of(REAL(close)(fd));
    tb_locks_go_end(mark, true);
    return rc;
}

BASE(ssize_t, read, (struct tb_io * io, int fd, void *buf, size_t n), REAL(read)(fd, buf, n))
BASE(ssize_t, write, (struct tb_io * io, int fd, const void *buf, size_t n), REAL(write)(fd, buf, n))
BASE(off_t, lseek, (struct tb_io * io, int fd, off_t offset, int whence), REAL(lseek)(fd, offset, whence))
BASE(ssize_t, pread, (struct tb_io * io, int fd, void *buf, size_t n, off_t offset), REAL(pread)(fd, buf, n, offset))
BASE(ssize_t, pwrite, (struct tb_io * io, int fd, const void *buf, size_t n, off_t offset), REAL(pwrite)(fd, buf, n, offset))
BASE(int, will_read, (struct tb_io * io, int fd, off_t offset, size_t n), -REAL(posix_fadvise)(fd, offset, (off_t)n, POSIX_FADV_WILLNEED))
BASE(int, will_sync, (struct tb_io * io, int fd, off_t offset, size_t n),
     REAL(sync_file_range)(fd, offset, (off_t)n, SYNC_FILE_RANGE_WRITE))
BASE(int, fsync, (struct tb_io * io, int fd, bool data_only), data_only ? REAL(fdatasync)(fd) : REAL(fsync)(fd))
BASE(int, ftruncate, (struct tb_io * io, int fd, off_t length), REAL(ftruncate)(fd, length))
BASE(int, truncate, (struct tb_io * io, const char *path, off_t length), REAL(truncate)(path, length))
BASE(int, fstat, (struct tb_io * io, int fd, struct stat *st), REAL(fstat)(fd, st))
BASE_AT(int, stat, (struct tb_io * io, const char *path, struct stat *st, int flags), REAL(fstatat)(directory, path, st, flags))
BASE_AT(int, unlink, (struct tb_io * io, const char *path, int flags), REAL(unlinkat)(directory, path, flags))
/* renameat2 only where it is needed: some file systems and kernels lack it. */
static int base_rename(struct tb_io *io, const char *from, const char *to, unsigned flags)
{
    (void)io;
    int old = at(&from), new = at(&to);
    return (int)rc_of(flags ? REAL(renameat2)(old, from, new, to, flags) : REAL(renameat)(old, from, new, to));
}

BASE(int, link, (struct tb_io * io, const char *from, const char *to), REAL(link)(from, to))
BASE_AT(int, mkdir, (struct tb_io * io, const char *path, mode_t mode), REAL(mkdirat)(directory, path, mode))
BASE(int, dup, (struct tb_io * io, int oldfd, int newfd), ((void)oldfd, (void)newfd, 0)) /* the kernel has done it */
BASE_AT(ssize_t, readlink, (struct tb_io * io, const char *path, char *text, size_t n), REAL(readlinkat)(directory, path, text, n))
BASE(int, symlink, (struct tb_io * io, const char *text, const char *path), REAL(symlink)(text, path))
BASE(int, realpath, (struct tb_io * io, const char *path, char *out), REAL(realpath)(path, out) ? 0 : -1)
BASE(int, access, (struct tb_io * io, const char *path, int mode, int flags), REAL(faccessat)(AT_FDCWD, path, mode, flags))
BASE(int, chmod, (struct tb_io * io, const char *path, mode_t mode, int flags), REAL(fchmodat)(AT_FDCWD, path, mode, flags))
BASE(int, chown, (struct tb_io * io, const char *path, uid_t user, gid_t group, int flags),
     REAL(fchownat)(AT_FDCWD, path, user, group, flags))
BASE(int, utimens, (struct tb_io * io, const char *path, const struct timespec times[2], int flags),
     REAL(utimensat)(AT_FDCWD, path, times, flags))
BASE(int, mknod, (struct tb_io * io, const char *path, mode_t mode, dev_t device), REAL(mknod)(path, mode, device))
BASE_AT(int, statx, (struct tb_io * io, const char *path, int flags, unsigned mask, struct statx *out),
        REAL(statx)(directory, path, flags, mask, out))
BASE(int, statfs, (struct tb_io * io, const char *path, struct statfs *out), REAL(statfs)(path, out))
BASE(int, statvfs, (struct tb_io * io, const char *path, struct statvfs *out), REAL(statvfs)(path, out))
/* errno alone tells an error from no limit. */
BASE(int, pathconf, (struct tb_io * io, const char *path, int name, long *out),
     (errno = 0, *out = REAL(pathconf)(path, name)) != -1 || !errno ? 0 : -1)
BASE(ssize_t, getxattr, (struct tb_io * io, const char *path, const char *key, void *out, size_t n, int flags),
     flags &AT_SYMLINK_NOFOLLOW ? REAL(lgetxattr)(path, key, out, n) : REAL(getxattr)(path, key, out, n))
BASE(ssize_t, listxattr, (struct tb_io * io, const char *path, char *out, size_t n, int flags),
     flags &AT_SYMLINK_NOFOLLOW ? REAL(llistxattr)(path, out, n) : REAL(listxattr)(path, out, n))
BASE(int, setxattr, (struct tb_io * io, const char *path, const char *key, const void *value, size_t n, int how, int flags),
     flags &AT_SYMLINK_NOFOLLOW ? REAL(lsetxattr)(path, key, value, n, how) : REAL(setxattr)(path, key, value, n, how))
BASE(int, removexattr, (struct tb_io * io, const char *path, const char *key, int flags),
     flags &AT_SYMLINK_NOFOLLOW ? REAL(lremovexattr)(path, key) : REAL(removexattr)(path, key))
BASE(int, watch, (struct tb_io * io, const char *path, int fd, uint32_t mask), REAL(inotify_add_watch)(fd, path, mask))
BASE(int, opendir, (struct tb_io * io, const char *path, DIR **out), (*out = REAL(opendir)(path)) ? 0 : -1)
/* errno alone tells an error from the end. */
BASE(int, readdir, (struct tb_io * io, DIR *directory, struct dirent **out),
     (errno = 0, *out = REAL(readdir)(directory)) || !errno ? 0 : -1)
BASE(int, closedir, (struct tb_io * io, DIR *directory), REAL(closedir)(directory))

static const struct tb_io_ops base_ops = {
    .name = "libc",
    .open = base_open,
    .close = base_close,
    .read = base_read,
    .write = base_write,
    .lseek = base_lseek,
    .pread = base_pread,
    .pwrite = base_pwrite,
    .will_read = base_will_read,
    .will_sync = base_will_sync,
    .fsync = base_fsync,
    .ftruncate = base_ftruncate,
    .truncate = base_truncate,
    .fstat = base_fstat,
    .stat = base_stat,
    .unlink = base_unlink,
    .rename = base_rename,
    .link = base_link,
    .mkdir = base_mkdir,
    .dup = base_dup,
    .readlink = base_readlink,
    .symlink = base_symlink,
    .realpath = base_realpath,
    .access = base_access,
    .chmod = base_chmod,
    .chown = base_chown,
    .utimens = base_utimens,
    .mknod = base_mknod,
    .statx = base_statx,
    .statfs = base_statfs,
    .statvfs = base_statvfs,
    .pathconf = base_pathconf,
    .getxattr = base_getxattr,
    .listxattr = base_listxattr,
    .setxattr = base_setxattr,
    .removexattr = base_removexattr,
    .watch = base_watch,
    .opendir = base_opendir,
    .readdir = base_readdir,
    .closedir = base_closedir,
};

struct tb_io *tb_base(void)
{
    static struct tb_io base = {.ops = &base_ops, .next = NULL};
    return &base;
}
