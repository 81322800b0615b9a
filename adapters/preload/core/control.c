/*
 * One file's mode, promise and use, asked for by its path (core/control.h names the callers).
 * The request is about the file, not about the name. So the file is found by its identity
 * among this process's descriptors, and the engine is called with one of them.
 */
#include <fcntl.h>
#include <sys/stat.h>

#include "core/adapter.h"
#include "core/control.h"

struct request {
    int (*act)(tb_engine *, int fd, struct request *);
    struct tb_path path;
    enum tb_mode mode;
    enum tb_fsync fsync;
    enum tb_hint hint;
};

/* Inside: a stat of the wrappers would look the name up again. */
static int chain_stat(struct tb_io *io, const char *path, int fd, struct stat *st)
{
    tb_enter();
    int rc = path ? TB_IO(io, stat, path, st, 0) : TB_IO(io, fstat, fd, st);
    tb_leave();
    return rc;
}

/*
 * The first descriptor of the file from `fd` on, or -1. By identity, not by name: the file may
 * have been opened by another name, or renamed since.
 */
static int next_descriptor(const struct request *r, const struct stat *file, int fd)
{
    struct stat st;
    for (; fd <= tb_fd_highest(); fd++)
        if (tb_fd_io_is_like(tb_fd_io(fd), r->path.io) && chain_stat(r->path.io, NULL, fd, &st) == 0 && st.st_dev == file->st_dev &&
            st.st_ino == file->st_ino)
            return fd;
    return -1;
}

/* By the first descriptor, or by all. */
static int find_and_act(const char *path, struct request *r, bool all)
{
    struct stat file;
    tb_engine *e = tb_adapter_engine();
    if (!e)
        return -ENODEV;
    if (!tb_path_find(AT_FDCWD, path, &r->path))
        return -ENOENT;
    int rc = chain_stat(r->path.io, r->path.path, -1, &file), fd = rc ? -1 : next_descriptor(r, &file, 0);
    if (!rc && fd < 0)
        rc = -EBADF;
    for (; !rc && fd >= 0; fd = all ? next_descriptor(r, &file, fd + 1) : -1) {
        tb_enter();
        rc = r->act(e, fd, r);
        tb_leave();
    }
    return rc;
}

/* What is asked here is no call of the program's: its errno stays. */
static int by_descriptor(const char *path, struct request *r, bool all)
{
    int saved = errno, rc = find_and_act(path, r, all);
    errno = saved;
    return rc;
}

/* A prefix in bypass: its files are no file of the engine. */
static bool is_unbuffered(const struct request *r)
{
    return r->path.mode == TB_MODE_BYPASS;
}

/* Of a file in bypass: the kernel's promise, which no call can change. */
static int promise(tb_engine *e, int fd, struct request *r)
{
    r->mode = TB_MODE_BYPASS;
    r->fsync = TB_FSYNC_PFS;
    return is_unbuffered(r) ? 0 : tb_engine_promise(e, fd, &r->mode, &r->fsync);
}

static int set_mode(tb_engine *e, int fd, struct request *r)
{
    return is_unbuffered(r) ? (r->mode == TB_MODE_BYPASS ? 0 : -EBUSY) : tb_engine_set_mode(e, fd, r->mode);
}

static int set_fsync(tb_engine *e, int fd, struct request *r)
{
    return is_unbuffered(r) ? (r->fsync == TB_FSYNC_PFS ? 0 : -EPERM) : tb_engine_set_fsync(e, fd, r->fsync);
}

/* A hint that means nothing there is no error: programs give it without knowing the mode. */
static int advise(tb_engine *e, int fd, struct request *r)
{
    return is_unbuffered(r) ? 0 : tb_engine_advise(e, fd, 0, 0, r->hint);
}

/* Both are written in any case; where there is no such file they mean nothing. */
TB_WRAPPER int tb_adapter_promise(const char *path, enum tb_mode *mode, enum tb_fsync *fsync)
{
    struct request r = {.act = promise};
    int rc = by_descriptor(path, &r, false);
    *mode = r.mode;
    *fsync = r.fsync;
    return rc;
}

TB_WRAPPER int tb_adapter_set_mode(const char *path, enum tb_mode mode)
{
    struct request r = {.act = set_mode, .mode = mode};
    return by_descriptor(path, &r, false);
}

TB_WRAPPER int tb_adapter_set_fsync(const char *path, enum tb_fsync fsync)
{
    struct request r = {.act = set_fsync, .fsync = fsync};
    return by_descriptor(path, &r, false);
}

/*
 * Of every descriptor: a hint is of a description, and a library may have opened the file more
 * than once.
 */
TB_WRAPPER int tb_adapter_advise(const char *path, enum tb_hint hint)
{
    struct request r = {.act = advise, .hint = hint};
    return by_descriptor(path, &r, true);
}
