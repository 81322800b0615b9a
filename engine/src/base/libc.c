/*
 * The last layer for programs that interpose nothing: every operation by libc.
 *
 * Calls that a signal interrupted before anything happened are repeated: the
 * daemon and the tests have no use for EINTR.  close is the exception: Linux has
 * freed the descriptor by then, and a second close could hit a stranger's.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <tierbench/io.h>

/* errno becomes the result here, so no layer above looks at it. */
#define REPEAT(call)                               \
    do {                                           \
        __typeof__(call) result_;                  \
        do {                                       \
            result_ = (call);                      \
        } while (result_ == -1 && errno == EINTR); \
        return result_ == -1 ? -errno : result_;   \
    } while (0)

/* Where the system refuses, with whatever number, nothing was opened: the plain open that follows says what is wrong. */
int tb_io_open_without_links(long (*call)(long number, ...), int directory, const char *path, int flags, mode_t mode)
{
    static _Atomic bool lacks_it;
    struct open_how how = {.flags = (uint64_t)(flags & ~(TB_IO_OWN | TB_IO_NO_LINKS)) | O_LARGEFILE, .resolve = RESOLVE_NO_SYMLINKS};
    how.mode = flags & O_CREAT ? mode & 07777 : 0;
    long fd = lacks_it ? -1 : call(SYS_openat2, directory, path, &how, sizeof(how));
    if (fd >= 0)
        return (int)fd;
    lacks_it = lacks_it || errno == ENOSYS;
    return lacks_it || errno == EPERM || errno == EINVAL || errno == E2BIG ? -ELOOP : -errno;
}

static int libc_open(struct tb_io *io, const char *path, int flags, mode_t mode)
{
    (void)io;
    if (flags & TB_IO_NO_LINKS)
        return tb_io_open_without_links(syscall, AT_FDCWD, path, flags, mode);
    REPEAT(open(path, flags & ~TB_IO_OWN, mode));
}

/* Errors of a close are returned: on a network file system they come from earlier writes. */
static int libc_close(struct tb_io *io, int fd)
{
    (void)io;
    return close(fd) == 0 || errno == EINTR ? 0 : -errno;
}

/* Transfers may be short, as the calls they are; io/whole.h goes on with the rest. */
static ssize_t libc_read(struct tb_io *io, int fd, void *buf, size_t n)
{
    (void)io;
    REPEAT(read(fd, buf, n));
}

static ssize_t libc_write(struct tb_io *io, int fd, const void *buf, size_t n)
{
    (void)io;
    REPEAT(write(fd, buf, n));
}

static off_t libc_lseek(struct tb_io *io, int fd, off_t offset, int whence)
{
    (void)io;
    REPEAT(lseek(fd, offset, whence));
}

static ssize_t libc_pread(struct tb_io *io, int fd, void *buf, size_t n, off_t offset)
{
    (void)io;
    REPEAT(pread(fd, buf, n, offset));
}

static ssize_t libc_pwrite(struct tb_io *io, int fd, const void *buf, size_t n, off_t offset)
{
    (void)io;
    REPEAT(pwrite(fd, buf, n, offset));
}

/* The number of the error is what it returns. */
static int libc_will_read(struct tb_io *io, int fd, off_t offset, size_t n)
{
    (void)io;
    return -posix_fadvise(fd, offset, (off_t)n, POSIX_FADV_WILLNEED);
}

/* Without a wait flag: with one the kernel would tell this call what failed before, and no longer the sync. */
static int libc_will_sync(struct tb_io *io, int fd, off_t offset, size_t n)
{
    (void)io;
    REPEAT(sync_file_range(fd, offset, (off_t)n, SYNC_FILE_RANGE_WRITE));
}

/* fdatasync writes the length, too, but not the times. That is enough for slabs and journal: their times are not used. */
static int libc_fsync(struct tb_io *io, int fd, bool data_only)
{
    (void)io;
    REPEAT(data_only ? fdatasync(fd) : fsync(fd));
}

static int libc_ftruncate(struct tb_io *io, int fd, off_t length)
{
    (void)io;
    REPEAT(ftruncate(fd, length));
}

static int libc_truncate(struct tb_io *io, const char *path, off_t length)
{
    (void)io;
    REPEAT(truncate(path, length));
}

static int libc_fstat(struct tb_io *io, int fd, struct stat *st)
{
    (void)io;
    REPEAT(fstat(fd, st));
}

/* By name, with AT_SYMLINK_NOFOLLOW in `flags` for the link itself. */
static int libc_stat(struct tb_io *io, const char *path, struct stat *st, int flags)
{
    (void)io;
    REPEAT(fstatat(AT_FDCWD, path, st, flags));
}

static int libc_unlink(struct tb_io *io, const char *path, int flags)
{
    (void)io;
    REPEAT(unlinkat(AT_FDCWD, path, flags));
}

/* renameat2 only where it is needed: some file systems and kernels lack it. */
static int libc_rename(struct tb_io *io, const char *from, const char *to, unsigned flags)
{
    (void)io;
    REPEAT(flags == 0 ? rename(from, to) : renameat2(AT_FDCWD, from, AT_FDCWD, to, flags));
}

static int libc_link(struct tb_io *io, const char *from, const char *to)
{
    (void)io;
    REPEAT(link(from, to));
}

static int libc_mkdir(struct tb_io *io, const char *path, mode_t mode)
{
    (void)io;
    REPEAT(mkdir(path, mode));
}

/* The kernel has done it already. */
static int libc_dup(struct tb_io *io, int oldfd, int newfd)
{
    (void)io;
    (void)oldfd;
    (void)newfd;
    return 0;
}

static ssize_t libc_readlink(struct tb_io *io, const char *path, char *text, size_t n)
{
    (void)io;
    REPEAT(readlink(path, text, n));
}

static int libc_symlink(struct tb_io *io, const char *text, const char *path)
{
    (void)io;
    REPEAT(symlink(text, path));
}

static int libc_realpath(struct tb_io *io, const char *path, char *out)
{
    (void)io;
    return realpath(path, out) != NULL ? 0 : -errno;
}

static int libc_access(struct tb_io *io, const char *path, int mode, int flags)
{
    (void)io;
    REPEAT(faccessat(AT_FDCWD, path, mode, flags));
}

static int libc_chmod(struct tb_io *io, const char *path, mode_t mode, int flags)
{
    (void)io;
    REPEAT(fchmodat(AT_FDCWD, path, mode, flags));
}

static int libc_chown(struct tb_io *io, const char *path, uid_t user, gid_t group, int flags)
{
    (void)io;
    REPEAT(fchownat(AT_FDCWD, path, user, group, flags));
}

static int libc_utimens(struct tb_io *io, const char *path, const struct timespec times[2], int flags)
{
    (void)io;
    REPEAT(utimensat(AT_FDCWD, path, times, flags));
}

static int libc_mknod(struct tb_io *io, const char *path, mode_t mode, dev_t device)
{
    (void)io;
    REPEAT(mknod(path, mode, device));
}

static int libc_statx(struct tb_io *io, const char *path, int flags, unsigned mask, struct statx *out)
{
    (void)io;
    REPEAT(statx(AT_FDCWD, path, flags, mask, out));
}

static int libc_statfs(struct tb_io *io, const char *path, struct statfs *out)
{
    (void)io;
    REPEAT(statfs(path, out));
}

static int libc_statvfs(struct tb_io *io, const char *path, struct statvfs *out)
{
    (void)io;
    REPEAT(statvfs(path, out));
}

/* errno alone tells an error from no limit. */
static int libc_pathconf(struct tb_io *io, const char *path, int name, long *out)
{
    (void)io;
    errno = 0;
    *out = pathconf(path, name);
    return *out != -1 ? 0 : -errno;
}

static ssize_t libc_getxattr(struct tb_io *io, const char *path, const char *key, void *out, size_t n, int flags)
{
    (void)io;
    REPEAT(flags & AT_SYMLINK_NOFOLLOW ? lgetxattr(path, key, out, n) : getxattr(path, key, out, n));
}

static ssize_t libc_listxattr(struct tb_io *io, const char *path, char *out, size_t n, int flags)
{
    (void)io;
    REPEAT(flags & AT_SYMLINK_NOFOLLOW ? llistxattr(path, out, n) : listxattr(path, out, n));
}

static int libc_setxattr(struct tb_io *io, const char *path, const char *key, const void *value, size_t n, int how, int flags)
{
    (void)io;
    REPEAT(flags & AT_SYMLINK_NOFOLLOW ? lsetxattr(path, key, value, n, how) : setxattr(path, key, value, n, how));
}

static int libc_removexattr(struct tb_io *io, const char *path, const char *key, int flags)
{
    (void)io;
    REPEAT(flags & AT_SYMLINK_NOFOLLOW ? lremovexattr(path, key) : removexattr(path, key));
}

static int libc_watch(struct tb_io *io, const char *path, int fd, uint32_t mask)
{
    (void)io;
    REPEAT(inotify_add_watch(fd, path, mask));
}

static int libc_opendir(struct tb_io *io, const char *path, DIR **out)
{
    (void)io;
    *out = opendir(path);
    return *out != NULL ? 0 : -errno;
}

/* errno alone tells an error from the end. */
static int libc_readdir(struct tb_io *io, DIR *directory, struct dirent **out)
{
    (void)io;
    errno = 0;
    *out = readdir(directory);
    return *out != NULL ? 0 : -errno;
}

static int libc_closedir(struct tb_io *io, DIR *directory)
{
    (void)io;
    return closedir(directory) == 0 || errno == EINTR ? 0 : -errno;
}

/* All operations, since there is no next layer to ask. */
static const struct tb_io_ops libc_ops = {
    .name = "libc",
    .open = libc_open,
    .close = libc_close,
    .read = libc_read,
    .write = libc_write,
    .lseek = libc_lseek,
    .pread = libc_pread,
    .pwrite = libc_pwrite,
    .will_read = libc_will_read,
    .will_sync = libc_will_sync,
    .fsync = libc_fsync,
    .ftruncate = libc_ftruncate,
    .truncate = libc_truncate,
    .fstat = libc_fstat,
    .stat = libc_stat,
    .unlink = libc_unlink,
    .rename = libc_rename,
    .link = libc_link,
    .mkdir = libc_mkdir,
    .dup = libc_dup,
    .readlink = libc_readlink,
    .symlink = libc_symlink,
    .realpath = libc_realpath,
    .access = libc_access,
    .chmod = libc_chmod,
    .chown = libc_chown,
    .utimens = libc_utimens,
    .mknod = libc_mknod,
    .statx = libc_statx,
    .statfs = libc_statfs,
    .statvfs = libc_statvfs,
    .pathconf = libc_pathconf,
    .getxattr = libc_getxattr,
    .listxattr = libc_listxattr,
    .setxattr = libc_setxattr,
    .removexattr = libc_removexattr,
    .watch = libc_watch,
    .opendir = libc_opendir,
    .readdir = libc_readdir,
    .closedir = libc_closedir,
};

/* One for the process: it has no state, and is never freed. */
struct tb_io *tb_io_libc(void)
{
    static struct tb_io libc_io = {.ops = &libc_ops, .next = NULL};
    return &libc_io;
}
