/*
 * The trace layer (chain/trace/trace.h): it times each call of the layers below, and records it for its file. Calls that fail
 * moved nothing and are left out, as Darshan leaves them out.
 */
#include "chain/trace/trace.h"

#include <assert.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "chain/model/device_clock.h"
#include "io/io_layer.h"
#include "trace/records.h"

#define SELF "/proc/self/fd/"

struct traced {
    struct tb_io io;
    struct tb_io_ops ops;
    tb_trace *trace; /* the process's */
};

/* Never NULL in a layer: a process that is not traced gets none (tb_io_trace_new). */
static tb_trace *trace_of(struct tb_io *io)
{
    tb_trace *trace = ((struct traced *)io)->trace;
    assert(trace);
    return trace;
}

struct moment {
    double model, real;
};

/*
 * Two clocks: the model's, which moves by device time that is not slept yet, and the real one. Both in seconds since the
 * start of the job, as all its processes count.
 */
static struct moment now(struct tb_io *io)
{
    return (struct moment){(double)(int64_t)(tb_model_now() - trace_of(io)->job->start_ns) * 1e-9, tb_trace_now()};
}

/*
 * Modelled time does not move while a real place works, and the real one hardly moves where the model's time is slept
 * later: the longer of both is what the operation took.
 */
static struct tb_trace_time since(struct tb_io *io, struct moment start)
{
    struct moment end = now(io);
    double lasted = end.real - start.real, modelled = end.model - start.model;
    return (struct tb_trace_time){start.model, start.model + (lasted > modelled ? lasted : modelled)};
}

/* By /proc; a file without a name is not recorded. What begins with no slash is a pipe or a socket. */
static bool name_of(int fd, char *out)
{
    char link[64];
    snprintf(link, sizeof(link), SELF "%d", fd);
    ssize_t n = readlink(link, out, PATH_MAX - 1);
    out[n > 0 ? n : 0] = 0;
    return n > 0 && out[0] == '/';
}

/*
 * Slabs and journals are opened without the chain: their descriptors are recognised by the file that they lead to. A
 * number is looked up once: what has no name is noted as not recorded, and costs no readlink again.
 */
static void know(tb_trace *t, int fd)
{
    char path[PATH_MAX];
    if ((unsigned)fd >= TB_TRACE_FDS || t->fds[fd] || !tb_trace_enter(t))
        return;
    int number = name_of(fd, path) ? tb_trace_find(t, TB_TRACE_POSIX, path) : -1;
    tb_trace_set_fd(t, fd, number < 0 ? TB_TRACE_NOT_RECORDED : number);
    tb_trace_leave();
}

/* By its real name where it is opened again by descriptor (/proc/self/fd), so that both count for one file. */
static int traced_open(struct tb_io *io, const char *path, int flags, mode_t mode)
{
    char real[PATH_MAX];
    struct moment start = now(io);
    int fd = TB_NEXT(io, open, path, flags, mode);
    if (fd < 0)
        return fd;
    struct tb_trace_time t = since(io, start);
    if (strncmp(path, SELF, strlen(SELF)) == 0 && name_of(fd, real))
        path = real;
    tb_trace_open(trace_of(io), fd, path, mode, t);
    return fd;
}

/* Before the close, because afterwards the number may be another file's. */
static int traced_close(struct tb_io *io, int fd)
{
    int closing = tb_trace_closing(trace_of(io), fd);
    struct moment start = now(io);
    int rc = TB_NEXT(io, close, fd);
    tb_trace_close(trace_of(io), closing, since(io, start));
    return rc;
}

/* The offset of read and write is the trace's own, as Darshan counts it. */
static ssize_t moved(struct tb_io *io, int fd, enum tb_trace_access access, off_t offset, const void *buf, ssize_t n, struct moment start)
{
    if (n < 0)
        return n;
    assert(fd >= 0); /* something was moved by it */
    struct tb_trace_time t = since(io, start);
    know(trace_of(io), fd);
    tb_trace_transfer(trace_of(io), fd, access, offset, buf, (size_t)n, t);
    return n;
}

/* The moment is taken before the call: the end is read in `moved`. */
static ssize_t traced_read(struct tb_io *io, int fd, void *buf, size_t n)
{
    struct moment start = now(io);
    return moved(io, fd, TB_TRACE_READ, TB_TRACE_HERE, buf, TB_NEXT(io, read, fd, buf, n), start);
}

/* As traced_read: a short transfer counts with what was moved. */
static ssize_t traced_write(struct tb_io *io, int fd, const void *buf, size_t n)
{
    struct moment start = now(io);
    return moved(io, fd, TB_TRACE_WRITE, TB_TRACE_HERE, buf, TB_NEXT(io, write, fd, buf, n), start);
}

/* With the offset that was asked for; the description's own stays as it was. */
static ssize_t traced_pread(struct tb_io *io, int fd, void *buf, size_t n, off_t offset)
{
    struct moment start = now(io);
    return moved(io, fd, TB_TRACE_READ, offset, buf, TB_NEXT(io, pread, fd, buf, n, offset), start);
}

static ssize_t traced_pwrite(struct tb_io *io, int fd, const void *buf, size_t n, off_t offset)
{
    struct moment start = now(io);
    return moved(io, fd, TB_TRACE_WRITE, offset, buf, TB_NEXT(io, pwrite, fd, buf, n, offset), start);
}

/* What the seek returned is noted and not what was asked for, so the trace's own offset agrees with the file's. */
static off_t traced_lseek(struct tb_io *io, int fd, off_t offset, int whence)
{
    struct moment start = now(io);
    off_t at = TB_NEXT(io, lseek, fd, offset, whence);
    if (at >= 0)
        tb_trace_seek(trace_of(io), fd, at, since(io, start));
    return at;
}

/* A descriptor that was opened without the chain is known from its first transfer or sync on. */
static int traced_fsync(struct tb_io *io, int fd, bool data_only)
{
    struct moment start = now(io);
    int rc = TB_NEXT(io, fsync, fd, data_only);
    if (rc == 0) {
        struct tb_trace_time t = since(io, start);
        know(trace_of(io), fd);
        tb_trace_sync(trace_of(io), fd, data_only, t);
    }
    return rc;
}

/* Both stats count for the file, as Darshan's POSIX_STATS does. */
static int traced_fstat(struct tb_io *io, int fd, struct stat *st)
{
    struct moment start = now(io);
    int rc = TB_NEXT(io, fstat, fd, st);
    if (rc == 0)
        tb_trace_stat(trace_of(io), fd, NULL, since(io, start));
    return rc;
}

/* By name: there is no descriptor that a record could be found by. */
static int traced_stat(struct tb_io *io, const char *path, struct stat *st, int flags)
{
    struct moment start = now(io);
    int rc = TB_NEXT(io, stat, path, st, flags);
    if (rc == 0)
        tb_trace_stat(trace_of(io), -1, path, since(io, start));
    return rc;
}

/* Source and target are two records, as Darshan has it. */
static int traced_rename(struct tb_io *io, const char *from, const char *to, unsigned flags)
{
    struct moment start = now(io);
    int rc = TB_NEXT(io, rename, from, to, flags);
    if (rc == 0)
        tb_trace_rename(trace_of(io), from, to, since(io, start));
    return rc;
}

/* Both numbers lead to one record from here on, so that what is moved by either counts for one file. */
static int traced_dup(struct tb_io *io, int oldfd, int newfd)
{
    struct moment start = now(io);
    int rc = TB_NEXT(io, dup, oldfd, newfd);
    if (rc == 0)
        tb_trace_dup(trace_of(io), oldfd, newfd, since(io, start));
    return rc;
}

/* The recorder is the process's, and stays. */
static void traced_free(struct tb_io *io)
{
    free(io);
}

static const struct tb_io_ops traced_ops = {
    .name = "trace",
    .open = traced_open,
    .close = traced_close,
    .read = traced_read,
    .write = traced_write,
    .lseek = traced_lseek,
    .pread = traced_pread,
    .pwrite = traced_pwrite,
    .fsync = traced_fsync,
    .fstat = traced_fstat,
    .stat = traced_stat,
    .rename = traced_rename,
    .dup = traced_dup,
    .free = traced_free,
};

/* One recorder a process: the layers of all places share it, and it outlives them. */
struct tb_io *tb_io_trace_new(const struct tb_io_place *place, const char *text, struct tb_io *next)
{
    tb_trace *trace = tb_trace_of(TB_TRACE_STORAGE);
    (void)place;
    (void)text;
    if (trace == NULL)
        return next;
    struct traced *traced = calloc(1, sizeof(*traced));
    if (traced == NULL)
        return NULL;
    tb_io_layer_init(&traced->io, &traced->ops, &traced_ops, next);
    traced->trace = trace;
    return &traced->io;
}
