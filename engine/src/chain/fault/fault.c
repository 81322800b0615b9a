/* The fault layer; see chain/fault/fault.h.  Costs a readlink per operation where a path is asked for. */
#include "chain/fault/fault.h"

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
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof path - 1);
    if (n < 0)
        return false;
    path[n] = '\0';
    return path_matches(what, path);
}

/* Counts a match; is it one of those to hit?  A signal is sent here. */
static bool hits(struct fault *fault, const char *op, const char *path, int fd)
{
    const struct tb_fault *what = &fault->what;
    if (strcmp(what->op, op) != 0 && strcmp(what->op, "any") != 0)
        return false;
    if (path != NULL ? !path_matches(what, path) : !fd_matches(what, fd))
        return false;
    uint64_t seen = atomic_fetch_add(&fault->seen, 1);
    if (seen < what->after || (what->count > 0 && seen - what->after >= what->count))
        return false;
    if (what->kind == TB_FAULT_SIGNAL)
        kill(getpid(), (int)what->value);
    return what->kind != TB_FAULT_SIGNAL;
}

/* 0, or the error to return instead of the operation. */
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
    if (*n > fault->what.value)
        *n = fault->what.value;
    return 0;
}

static int fault_open(struct tb_io *io, const char *path, int flags, mode_t mode)
{
    int error = injected(io, "open", path, -1);
    return error != 0 ? error : TB_NEXT(io, open, path, flags, mode);
}

/* Closes in any case, as close does. */
static int fault_close(struct tb_io *io, int fd)
{
    int error = injected(io, "close", NULL, fd);
    int result = TB_NEXT(io, close, fd);
    return error != 0 ? error : result;
}

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

static off_t fault_lseek(struct tb_io *io, int fd, off_t offset, int whence)
{
    int error = injected(io, "lseek", NULL, fd);
    return error != 0 ? error : TB_NEXT(io, lseek, fd, offset, whence);
}

static ssize_t fault_pread(struct tb_io *io, int fd, void *buf, size_t n, off_t offset)
{
    int error = injected_transfer(io, "pread", fd, &n);
    return error != 0 ? error : TB_NEXT(io, pread, fd, buf, n, offset);
}

static ssize_t fault_pwrite(struct tb_io *io, int fd, const void *buf, size_t n, off_t offset)
{
    int error = injected_transfer(io, "pwrite", fd, &n);
    return error != 0 ? error : TB_NEXT(io, pwrite, fd, buf, n, offset);
}

static int fault_fsync(struct tb_io *io, int fd, bool data_only)
{
    int error = injected(io, "fsync", NULL, fd);
    return error != 0 ? error : TB_NEXT(io, fsync, fd, data_only);
}

static int fault_ftruncate(struct tb_io *io, int fd, off_t length)
{
    int error = injected(io, "ftruncate", NULL, fd);
    return error != 0 ? error : TB_NEXT(io, ftruncate, fd, length);
}

static int fault_truncate(struct tb_io *io, const char *path, off_t length)
{
    int error = injected(io, "truncate", path, -1);
    return error != 0 ? error : TB_NEXT(io, truncate, path, length);
}

static int fault_fstat(struct tb_io *io, int fd, struct stat *st)
{
    int error = injected(io, "fstat", NULL, fd);
    return error != 0 ? error : TB_NEXT(io, fstat, fd, st);
}

static int fault_stat(struct tb_io *io, const char *path, struct stat *st, int flags)
{
    int error = injected(io, "stat", path, -1);
    return error != 0 ? error : TB_NEXT(io, stat, path, st, flags);
}

static int fault_unlink(struct tb_io *io, const char *path, int flags)
{
    int error = injected(io, "unlink", path, -1);
    return error != 0 ? error : TB_NEXT(io, unlink, path, flags);
}

static int fault_rename(struct tb_io *io, const char *from, const char *to, unsigned flags)
{
    int error = injected(io, "rename", from, -1);
    return error != 0 ? error : TB_NEXT(io, rename, from, to, flags);
}

static int fault_link(struct tb_io *io, const char *from, const char *to)
{
    int error = injected(io, "link", from, -1);
    return error != 0 ? error : TB_NEXT(io, link, from, to);
}

static int fault_mkdir(struct tb_io *io, const char *path, mode_t mode)
{
    int error = injected(io, "mkdir", path, -1);
    return error != 0 ? error : TB_NEXT(io, mkdir, path, mode);
}

static int fault_dup(struct tb_io *io, int oldfd, int newfd)
{
    int error = injected(io, "dup", NULL, oldfd);
    return error != 0 ? error : TB_NEXT(io, dup, oldfd, newfd);
}

static void fault_free(struct tb_io *io)
{
    free(io);
}

static const struct tb_io_ops fault_ops = {
    .name = "fault",
    .open = fault_open,
    .close = fault_close,
    .read = fault_read,
    .write = fault_write,
    .lseek = fault_lseek,
    .pread = fault_pread,
    .pwrite = fault_pwrite,
    .fsync = fault_fsync,
    .ftruncate = fault_ftruncate,
    .truncate = fault_truncate,
    .fstat = fault_fstat,
    .stat = fault_stat,
    .unlink = fault_unlink,
    .rename = fault_rename,
    .link = fault_link,
    .mkdir = fault_mkdir,
    .dup = fault_dup,
    .free = fault_free,
};

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
    struct fault *fault = calloc(1, sizeof *fault);
    if (fault == NULL)
        return NULL;
    tb_io_layer_init(&fault->io, &fault->ops, &fault_ops, next);
    fault->what = what;
    return &fault->io;
}
