/*
 * What every layer of the chain shares: operations it has no opinion on go to
 * the next layer, so that a layer of three operations is three functions.
 */
#ifndef TB_IO_LAYER_H
#define TB_IO_LAYER_H

#include <tierbench/io.h>

struct tb_device;
struct tb_device_clock;

/* What the configuration says of the place below a chain. */
struct tb_io_place {
    const struct tb_device *model; /* NULL: the place is as fast as it is */
    struct tb_device_clock *clock;
};

/*
 * Makes a layer over `next` if the place, `text` (of its variable in the environment; NULL:
 * none) or the process asks for it; else it returns `next`.  NULL with errno: ENOMEM, or
 * what is wrong with the text.  The layer's `free` undoes it.
 */
typedef struct tb_io *tb_io_make(const struct tb_io_place *place, const char *text, struct tb_io *next);

/* Every operation of the table but `free`: its type, its name, its parameters, and what is passed on. */
#define TB_IO_OPERATIONS(DO)                                                                                                              \
    DO(int, open, (struct tb_io * io, const char *path, int flags, mode_t mode), path, flags, mode)                                       \
    DO(int, close, (struct tb_io * io, int fd), fd)                                                                                       \
    DO(ssize_t, read, (struct tb_io * io, int fd, void *buf, size_t n), fd, buf, n)                                                       \
    DO(ssize_t, write, (struct tb_io * io, int fd, const void *buf, size_t n), fd, buf, n)                                                \
    DO(off_t, lseek, (struct tb_io * io, int fd, off_t offset, int whence), fd, offset, whence)                                           \
    DO(ssize_t, pread, (struct tb_io * io, int fd, void *buf, size_t n, off_t offset), fd, buf, n, offset)                                \
    DO(ssize_t, pwrite, (struct tb_io * io, int fd, const void *buf, size_t n, off_t offset), fd, buf, n, offset)                         \
    DO(int, will_read, (struct tb_io * io, int fd, off_t offset, size_t n), fd, offset, n)                                                \
    DO(int, will_sync, (struct tb_io * io, int fd, off_t offset, size_t n), fd, offset, n)                                                \
    DO(int, fsync, (struct tb_io * io, int fd, bool data_only), fd, data_only)                                                            \
    DO(int, ftruncate, (struct tb_io * io, int fd, off_t length), fd, length)                                                             \
    DO(int, truncate, (struct tb_io * io, const char *path, off_t length), path, length)                                                  \
    DO(int, fstat, (struct tb_io * io, int fd, struct stat *st), fd, st)                                                                  \
    DO(int, stat, (struct tb_io * io, const char *path, struct stat *st, int flags), path, st, flags)                                     \
    DO(int, unlink, (struct tb_io * io, const char *path, int flags), path, flags)                                                        \
    DO(int, rename, (struct tb_io * io, const char *from, const char *to, unsigned flags), from, to, flags)                               \
    DO(int, link, (struct tb_io * io, const char *from, const char *to), from, to)                                                        \
    DO(int, mkdir, (struct tb_io * io, const char *path, mode_t mode), path, mode)                                                        \
    DO(int, dup, (struct tb_io * io, int oldfd, int newfd), oldfd, newfd)                                                                 \
    DO(ssize_t, readlink, (struct tb_io * io, const char *path, char *text, size_t n), path, text, n)                                     \
    DO(int, symlink, (struct tb_io * io, const char *text, const char *path), text, path)                                                 \
    DO(int, realpath, (struct tb_io * io, const char *path, char *out), path, out)                                                        \
    DO(int, access, (struct tb_io * io, const char *path, int mode, int flags), path, mode, flags)                                        \
    DO(int, chmod, (struct tb_io * io, const char *path, mode_t mode, int flags), path, mode, flags)                                      \
    DO(int, chown, (struct tb_io * io, const char *path, uid_t user, gid_t group, int flags), path, user, group, flags)                   \
    DO(int, utimens, (struct tb_io * io, const char *path, const struct timespec times[2], int flags), path, times, flags)                \
    DO(int, mknod, (struct tb_io * io, const char *path, mode_t mode, dev_t device), path, mode, device)                                  \
    DO(int, statx, (struct tb_io * io, const char *path, int flags, unsigned mask, struct statx *out), path, flags, mask, out)            \
    DO(int, statfs, (struct tb_io * io, const char *path, struct statfs *out), path, out)                                                 \
    DO(int, statvfs, (struct tb_io * io, const char *path, struct statvfs *out), path, out)                                               \
    DO(int, pathconf, (struct tb_io * io, const char *path, int name, long *out), path, name, out)                                        \
    DO(ssize_t, getxattr, (struct tb_io * io, const char *path, const char *key, void *out, size_t n, int flags), path, key, out, n,      \
       flags)                                                                                                                             \
    DO(ssize_t, listxattr, (struct tb_io * io, const char *path, char *out, size_t n, int flags), path, out, n, flags)                    \
    DO(int, setxattr, (struct tb_io * io, const char *path, const char *key, const void *value, size_t n, int how, int flags), path, key, \
       value, n, how, flags)                                                                                                              \
    DO(int, removexattr, (struct tb_io * io, const char *path, const char *key, int flags), path, key, flags)                             \
    DO(int, watch, (struct tb_io * io, const char *path, int fd, uint32_t mask), path, fd, mask)                                          \
    DO(int, opendir, (struct tb_io * io, const char *path, DIR **out), path, out)                                                         \
    DO(int, readdir, (struct tb_io * io, DIR * directory, struct dirent * *out), directory, out)                                          \
    DO(int, closedir, (struct tb_io * io, DIR * directory), directory)

/*
 * Make `io` a layer over `next`: `table` becomes `own` with every missing
 * operation passed on.  `table` must live as long as the layer.
 */
void tb_io_layer_init(struct tb_io *io, struct tb_io_ops *table, const struct tb_io_ops *own, struct tb_io *next);

#endif
