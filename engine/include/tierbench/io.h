/*
 * The I/O chain: one table of file operations, many layers.
 *
 * A layer is a `struct tb_io`. Each of its operations does its part and calls the same
 * operation of `next`.  The last layer is supplied by the caller: the preload adapter
 * passes the libc functions it resolved, the daemon and the tests pass plain libc
 * (`tb_io_libc`).  So what the engine does to the files and names of a place never meets the
 * adapter's wrappers, and models, traces and faults see it.
 *
 * What is not asked of a place goes past the chain: what a descriptor is (statx of it); to
 * which prefix a name belongs; and what an instance is made of (its directories, region,
 * lease, slabs, journal), which is made and opened by descriptors of checked directories.
 * Of the calls of a program: the entries of a directory that it has opened.
 *
 *   [trace] -> [engine] -> [trace] -> [model | fault] -> libc
 *
 * Rules for every operation:
 *   - failure is a negative errno, never -1 with errno; success is >= 0;
 *   - `fd` is a real descriptor of the backing file in every layer;
 *   - sizes and offsets are bytes, 64 bits wide (build with _FILE_OFFSET_BITS=64);
 *   - operations are thread safe and may be called from any process that
 *     inherited the layer by fork; none is async-signal-safe unless it says so;
 *   - a path is absolute or relative to the working directory.
 *
 * TB_IO_OWN, with the flags of open: the descriptor is the engine's own for a moment, not
 * the program's.  Every layer passes it on, the kernel ignores it; a last layer inside a
 * program may give one that it has kept (preload).
 *
 * TB_IO_NO_LINKS, with the flags of open: -ELOOP where any part of the path is a symbolic link, and where
 * the system cannot say so (Linux before 5.6, some sandboxes). Every layer passes it on.
 */
#ifndef TIERBENCH_IO_H
#define TIERBENCH_IO_H

#include <dirent.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <time.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

#define TB_IO_OWN 0x40000000
#define TB_IO_NO_LINKS 0x20000000

struct tb_io;
struct statx;
struct statfs;
struct statvfs;

struct tb_io_ops {
    const char *name; /* of the layer, for traces and messages */

    int (*open)(struct tb_io *io, const char *path, int flags, mode_t mode);
    int (*close)(struct tb_io *io, int fd);

    /* At the description's own offset, which moves by what was transferred. */
    ssize_t (*read)(struct tb_io *io, int fd, void *buf, size_t n);
    ssize_t (*write)(struct tb_io *io, int fd, const void *buf, size_t n);
    off_t (*lseek)(struct tb_io *io, int fd, off_t offset, int whence);

    ssize_t (*pread)(struct tb_io *io, int fd, void *buf, size_t n, off_t offset);
    ssize_t (*pwrite)(struct tb_io *io, int fd, const void *buf, size_t n, off_t offset);

    /* These bytes are read soon: the device may begin.  Only a hint, so nothing depends on what it returns. */
    int (*will_read)(struct tb_io *io, int fd, off_t offset, size_t n);

    /* These bytes were written and are synced soon: the device may begin.  Only a hint; what goes wrong is told by the sync. */
    int (*will_sync)(struct tb_io *io, int fd, off_t offset, size_t n);
    /* `data_only` is fdatasync. */
    int (*fsync)(struct tb_io *io, int fd, bool data_only);
    int (*ftruncate)(struct tb_io *io, int fd, off_t length);
    int (*truncate)(struct tb_io *io, const char *path, off_t length);

    int (*fstat)(struct tb_io *io, int fd, struct stat *st);
    /* `flags`: 0 or AT_SYMLINK_NOFOLLOW. */
    int (*stat)(struct tb_io *io, const char *path, struct stat *st, int flags);

    /* `flags`: 0 or AT_REMOVEDIR. */
    int (*unlink)(struct tb_io *io, const char *path, int flags);
    /* `flags` as in renameat2.  `io` is the chain that serves `from`, also of link. */
    int (*rename)(struct tb_io *io, const char *from, const char *to, unsigned flags);
    int (*link)(struct tb_io *io, const char *from, const char *to);
    int (*mkdir)(struct tb_io *io, const char *path, mode_t mode);

    /* `newfd` already refers to the description of `oldfd` (after dup, dup2, dup3, F_DUPFD). */
    int (*dup)(struct tb_io *io, int oldfd, int newfd);

    /* The text of a symlink: its bytes, of which up to `n` are in `text`, without a NUL. */
    ssize_t (*readlink)(struct tb_io *io, const char *path, char *text, size_t n);
    int (*symlink)(struct tb_io *io, const char *text, const char *path);
    /* `out` has PATH_MAX bytes. */
    int (*realpath)(struct tb_io *io, const char *path, char *out);
    /* `flags` as of faccessat: AT_EACCESS, by the effective user. */
    int (*access)(struct tb_io *io, const char *path, int mode, int flags);
    /* `flags` of these three: 0, or AT_SYMLINK_NOFOLLOW for a symlink itself. */
    int (*chmod)(struct tb_io *io, const char *path, mode_t mode, int flags);
    int (*chown)(struct tb_io *io, const char *path, uid_t user, gid_t group, int flags);
    /* Of access and change, as utimensat. */
    int (*utimens)(struct tb_io *io, const char *path, const struct timespec times[2], int flags);
    /* What kind of file is in `mode`; of a regular one it is empty. */
    int (*mknod)(struct tb_io *io, const char *path, mode_t mode, dev_t device);
    /* Which file a name leads to. `flags`: 0 or AT_SYMLINK_NOFOLLOW. */
    int (*statx)(struct tb_io *io, const char *path, int flags, unsigned mask, struct statx *out);

    /* Of the file system that the name is in. */
    int (*statfs)(struct tb_io *io, const char *path, struct statfs *out);
    int (*statvfs)(struct tb_io *io, const char *path, struct statvfs *out);
    /* A limit of the file or its directory, as of pathconf. *out: -1 where there is none. */
    int (*pathconf)(struct tb_io *io, const char *path, int name, long *out);
    /* Extended attributes. `flags` as of chmod; `how` as of setxattr. A size: of the value or list, whole where `n` is 0. */
    ssize_t (*getxattr)(struct tb_io *io, const char *path, const char *key, void *out, size_t n, int flags);
    ssize_t (*listxattr)(struct tb_io *io, const char *path, char *out, size_t n, int flags);
    int (*setxattr)(struct tb_io *io, const char *path, const char *key, const void *value, size_t n, int how, int flags);
    int (*removexattr)(struct tb_io *io, const char *path, const char *key, int flags);
    /* Its number in the inotify descriptor `fd`. */
    int (*watch)(struct tb_io *io, const char *path, int fd, uint32_t mask);

    int (*opendir)(struct tb_io *io, const char *path, DIR **out);
    /* *out: the next entry, until the next call; NULL after the last. */
    int (*readdir)(struct tb_io *io, DIR *directory, struct dirent **out);
    int (*closedir)(struct tb_io *io, DIR *directory);

    /* Ends the layer alone, not those below it.  NULL: its maker frees it. */
    void (*free)(struct tb_io *io);
};

struct tb_io {
    const struct tb_io_ops *ops;
    struct tb_io *next; /* NULL in the last layer */
};

/* An operation of `io`, and the same of the layer below it: TB_IO(io, fsync, fd, true). */
#define TB_IO(io, op, ...) ((io)->ops->op((io), __VA_ARGS__))
#define TB_NEXT(io, op, ...) TB_IO((io)->next, op, __VA_ARGS__)

/* The last layer for programs that interpose nothing.  Static, never freed. */
struct tb_io *tb_io_libc(void);
/* For last layers: openat with TB_IO_NO_LINKS in `flags`, by a `syscall` of the caller's; a descriptor or a negative errno. */
int tb_io_open_without_links(long (*call)(long number, ...), int directory, const char *path, int flags, mode_t mode);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#ifdef __cplusplus
}
#endif
#endif
