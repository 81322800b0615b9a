/*
 * The fault layer; see chain/fault/fault.h. Each operation asks whether it is to be hit, and is else passed on as it is.
 * That costs a readlink for each operation on a descriptor where a path is asked for, and nothing where TB_FAULT is not
 * set: then there is no layer.
 */
#include "chain/fault/fault.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "chain/fault/fault_parse.h"
#include "io/io_layer.h"

struct fault {
    struct tb_io io;
    struct tb_io_ops ops;
    struct tb_fault what;
    _Atomic uint64_t seen; /* matching operations */
};

/* By its beginning: the path of a directory is that of all in it. */
static bool path_matches(const struct tb_fault *what, const char *path)
{
    return strncmp(path, what->path, strlen(what->path)) == 0;
}

/* By the name that the descriptor has now; a file without a name matches nothing. */
static bool fd_matches(const struct tb_fault *what, int fd)
{
    char link[64], path[4096];
    if (what->path[0] == '\0')
        return true;
    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof(path) - 1);
    if (n < 0)
        return false;
    path[n] = '\0';
    return path_matches(what, path);
}

/* A stop is the calling thread's own: one of the process may be another thread's first, and this one would go on for a moment. */
static void strike(int number)
{
    if (number == SIGSTOP)
        raise(number);
    else
        kill(getpid(), number);
}

/*
 * Counts a match; is it one of those to hit? What is another operation or has another path is not counted, so that `after`
 * is of what could be hit. A signal is sent here, before the operation: a process that is killed or stopped has not done it. Threads
 * count together, in any order.
 */
static bool hits(struct fault *fault, const char *op, const char *path, int fd)
{
    const struct tb_fault *what = &fault->what;
    assert(what->op[0]); /* what is no fault was refused when the layer was made */
    if (strcmp(what->op, op) != 0 && strcmp(what->op, "any") != 0)
        return false;
    if (path != NULL ? !path_matches(what, path) : !fd_matches(what, fd))
        return false;
    uint64_t seen = atomic_fetch_add(&fault->seen, 1);
    if (seen < what->after || (what->count > 0 && seen - what->after >= what->count))
        return false;
    if (what->kind == TB_FAULT_SIGNAL)
        strike((int)what->value);
    return what->kind != TB_FAULT_SIGNAL;
}

/*
 * 0, or the error to return instead of the operation. A fault that cuts transfers counts here, too, as of `any`, and lets
 * it pass.
 */
static int injected(struct tb_io *io, const char *op, const char *path, int fd)
{
    struct fault *fault = (struct fault *)io;
    bool hit = hits(fault, op, path, fd);
    return hit && fault->what.kind == TB_FAULT_ERRNO ? -(int)fault->what.value : 0;
}

/* The same for a transfer, which may also be cut: `*n` becomes what to transfer. */
static int injected_transfer(struct tb_io *io, const char *op, int fd, size_t *n)
{
    struct fault *fault = (struct fault *)io;
    if (!hits(fault, op, NULL, fd))
        return 0;
    if (fault->what.kind == TB_FAULT_ERRNO)
        return -(int)fault->what.value;
    assert(fault->what.kind == TB_FAULT_SHORT); /* a signal was sent, and hits nothing */
    if (*n > fault->what.value)
        *n = fault->what.value;
    return 0;
}

/*
 * Operations that fail or pass: on a name, and on a descriptor. Of two names the old one counts; a symlink has the name
 * that is made, not the text in it; an open directory has the name of its descriptor.
 */
#define ON_NAME(type, op, name, parameters, ...)                  \
    static type fault_##op parameters                             \
    {                                                             \
        int error = injected(io, #op, name, -1);                  \
        return error != 0 ? error : TB_NEXT(io, op, __VA_ARGS__); \
    }
#define ON_FD(type, op, fd, parameters, ...)                      \
    static type fault_##op parameters                             \
    {                                                             \
        int error = injected(io, #op, NULL, fd);                  \
        return error != 0 ? error : TB_NEXT(io, op, __VA_ARGS__); \
    }

ON_NAME(int, open, path, (struct tb_io * io, const char *path, int flags, mode_t mode), path, flags, mode)
ON_NAME(int, truncate, path, (struct tb_io * io, const char *path, off_t length), path, length)
ON_NAME(int, stat, path, (struct tb_io * io, const char *path, struct stat *st, int flags), path, st, flags)
ON_NAME(int, unlink, path, (struct tb_io * io, const char *path, int flags), path, flags)
ON_NAME(int, rename, from, (struct tb_io * io, const char *from, const char *to, unsigned flags), from, to, flags)
ON_NAME(int, link, from, (struct tb_io * io, const char *from, const char *to), from, to)
ON_NAME(int, mkdir, path, (struct tb_io * io, const char *path, mode_t mode), path, mode)
ON_NAME(ssize_t, readlink, path, (struct tb_io * io, const char *path, char *text, size_t n), path, text, n)
ON_NAME(int, symlink, path, (struct tb_io * io, const char *text, const char *path), text, path)
ON_NAME(int, realpath, path, (struct tb_io * io, const char *path, char *out), path, out)
ON_NAME(int, access, path, (struct tb_io * io, const char *path, int mode, int flags), path, mode, flags)
ON_NAME(int, chmod, path, (struct tb_io * io, const char *path, mode_t mode, int flags), path, mode, flags)
ON_NAME(int, chown, path, (struct tb_io * io, const char *path, uid_t user, gid_t group, int flags), path, user, group, flags)
ON_NAME(int, utimens, path, (struct tb_io * io, const char *path, const struct timespec times[2], int flags), path, times, flags)
ON_NAME(int, mknod, path, (struct tb_io * io, const char *path, mode_t mode, dev_t device), path, mode, device)
ON_NAME(int, statx, path, (struct tb_io * io, const char *path, int flags, unsigned mask, struct statx *out), path, flags, mask, out)
ON_NAME(int, statfs, path, (struct tb_io * io, const char *path, struct statfs *out), path, out)
ON_NAME(int, statvfs, path, (struct tb_io * io, const char *path, struct statvfs *out), path, out)
ON_NAME(int, pathconf, path, (struct tb_io * io, const char *path, int name, long *out), path, name, out)
ON_NAME(ssize_t, getxattr, path, (struct tb_io * io, const char *path, const char *key, void *out, size_t n, int flags), path, key, out, n,
        flags)
ON_NAME(ssize_t, listxattr, path, (struct tb_io * io, const char *path, char *out, size_t n, int flags), path, out, n, flags)
ON_NAME(int, setxattr, path, (struct tb_io * io, const char *path, const char *key, const void *value, size_t n, int how, int flags), path,
        key, value, n, how, flags)
ON_NAME(int, removexattr, path, (struct tb_io * io, const char *path, const char *key, int flags), path, key, flags)
ON_NAME(int, watch, path, (struct tb_io * io, const char *path, int fd, uint32_t mask), path, fd, mask)
ON_NAME(int, opendir, path, (struct tb_io * io, const char *path, DIR **out), path, out)
ON_FD(off_t, lseek, fd, (struct tb_io * io, int fd, off_t offset, int whence), fd, offset, whence)
ON_FD(int, will_read, fd, (struct tb_io * io, int fd, off_t offset, size_t n), fd, offset, n)
ON_FD(int, will_sync, fd, (struct tb_io * io, int fd, off_t offset, size_t n), fd, offset, n)
ON_FD(int, fsync, fd, (struct tb_io * io, int fd, bool data_only), fd, data_only)
ON_FD(int, ftruncate, fd, (struct tb_io * io, int fd, off_t length), fd, length)
ON_FD(int, fstat, fd, (struct tb_io * io, int fd, struct stat *st), fd, st)
ON_FD(int, dup, oldfd, (struct tb_io * io, int oldfd, int newfd), oldfd, newfd)
ON_FD(int, readdir, dirfd(directory), (struct tb_io * io, DIR *directory, struct dirent **out), directory, out)

/* Closes in any case, as close does. */
static int fault_close(struct tb_io *io, int fd)
{
    int error = injected(io, "close", NULL, fd);
    int result = TB_NEXT(io, close, fd);
    return error != 0 ? error : result;
}

/* A cut transfer goes to the next layer with fewer bytes, so what it returns is what was moved. */
static ssize_t fault_pread(struct tb_io *io, int fd, void *buf, size_t n, off_t offset)
{
    int error = injected_transfer(io, "pread", fd, &n);
    return error != 0 ? error : TB_NEXT(io, pread, fd, buf, n, offset);
}

/* As pread. A short write is no error, and the caller has to go on with the rest. */
static ssize_t fault_pwrite(struct tb_io *io, int fd, const void *buf, size_t n, off_t offset)
{
    int error = injected_transfer(io, "pwrite", fd, &n);
    return error != 0 ? error : TB_NEXT(io, pwrite, fd, buf, n, offset);
}

/* As close does. */
static int fault_closedir(struct tb_io *io, DIR *directory)
{
    int error = injected(io, "closedir", NULL, dirfd(directory));
    int result = TB_NEXT(io, closedir, directory);
    return error != 0 ? error : result;
}

/* The description's own offset moves by what was moved, so after a cut the next call goes on where this one ended. */
static ssize_t fault_read(struct tb_io *io, int fd, void *buf, size_t n)
{
    int error = injected_transfer(io, "read", fd, &n);
    return error != 0 ? error : TB_NEXT(io, read, fd, buf, n);
}

static ssize_t fault_write(struct tb_io *io, int fd, const void *buf, size_t n)
{
    int error = injected_transfer(io, "write", fd, &n);
    return error != 0 ? error : TB_NEXT(io, write, fd, buf, n);
}

/* The count goes with the layer: a new chain begins with the first operation again. */
static void fault_free(struct tb_io *io)
{
    free(io);
}

/* Made of the list: an operation that has no function here does not compile, so none can pass unseen. */
#define OWN(type, op, parameters, ...) .op = fault_##op,
static const struct tb_io_ops fault_ops = {.name = "fault", TB_IO_OPERATIONS(OWN).free = fault_free};

/* A text that is no fault is refused: with a fault that never happens a test would pass. */
struct tb_io *tb_io_fault_new(const struct tb_io_place *place, const char *text, struct tb_io *next)
{
    struct tb_fault what;
    (void)place;
    if (text == NULL)
        return next;
    if (tb_fault_parse(text, &what) < 0) {
        errno = EINVAL;
        return NULL;
    }
    struct fault *fault = calloc(1, sizeof(*fault));
    if (fault == NULL)
        return NULL;
    tb_io_layer_init(&fault->io, &fault->ops, &fault_ops, next);
    fault->what = what;
    return &fault->io;
}
