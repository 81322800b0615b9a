/*
 * The model as a layer: what each file operation charges.
 *
 * Data operations that fail charge nothing; metadata operations always ask the
 * server.  lseek, fstat and dup are local; the entries of a directory come with
 * its opening.  statx is not charged: the engine asks by it which file a name
 * leads to, beside an operation on the same name, of which a client of a file
 * system keeps the attributes.  A write through a descriptor opened
 * with O_SYNC or O_DSYNC is a write and a sync.
 */
#include "chain/model/model.h"

#include "chain/model/device_clock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

#include "chain/model/unsynced.h"
#include "io/io_layer.h"

struct model {
    struct tb_io io;
    struct tb_io_ops ops;
    const struct tb_device *device;
    struct tb_device_clock *clock;
    struct tb_unsynced *unsynced;
};

/* The layer is the first member, so a pointer to one is a pointer to the other. */
static struct model *model_of(struct tb_io *io)
{
    return (struct model *)io;
}

/*
 * A failed transfer (negative) charges nothing. Inside the defer of the operation, so that the
 * model counts from when it began.
 */
static void charge(struct tb_io *io, enum tb_charge kind, ssize_t bytes)
{
    struct model *model = model_of(io);
    if (bytes >= 0)
        tb_model_charge(model->device, model->clock, kind, (size_t)bytes);
}

/* The end of an operation: its real time and its charges are known. */
static void finish(bool pay_all)
{
    tb_model_defer_end();
    tb_model_settle(pay_all);
}

/* Asked before the open: will it make the file if it succeeds? */
static bool would_create(struct tb_io *io, const char *path, int flags)
{
    struct stat st;
    if ((flags & O_TMPFILE) == O_TMPFILE)
        return true;
    if (!(flags & O_CREAT))
        return false;
    return (flags & O_EXCL) || TB_NEXT(io, stat, path, &st, 0) == -ENOENT;
}

/* Whether it creates is asked before, because afterwards both cases look alike. */
static int model_open(struct tb_io *io, const char *path, int flags, mode_t mode)
{
    tb_model_defer_begin();
    bool creates = would_create(io, path, flags);
    int fd = TB_NEXT(io, open, path, flags, mode);
    charge(io, creates && fd >= 0 ? TB_CHARGE_OPEN : TB_CHARGE_METADATA, 0);
    if (fd >= 0)
        tb_unsynced_open(model_of(io)->unsynced, fd, flags & O_DSYNC);
    finish(false);
    return fd;
}

/* Before the kernel frees the number: another thread may get it at once. */
static int model_close(struct tb_io *io, int fd)
{
    tb_unsynced_close(model_of(io)->unsynced, fd);
    int result = TB_NEXT(io, close, fd);
    tb_model_settle(true);
    return result;
}

/* Paid as every operation is: what the thread owes above the threshold, at once. */
static ssize_t finish_read(struct tb_io *io, ssize_t bytes)
{
    charge(io, TB_CHARGE_READ, bytes);
    finish(false);
    return bytes;
}

static ssize_t model_read(struct tb_io *io, int fd, void *buf, size_t n)
{
    tb_model_defer_begin();
    return finish_read(io, TB_NEXT(io, read, fd, buf, n));
}

static ssize_t model_pread(struct tb_io *io, int fd, void *buf, size_t n, off_t offset)
{
    tb_model_defer_begin();
    return finish_read(io, TB_NEXT(io, pread, fd, buf, n, offset));
}

/* O_SYNC makes a write a sync too, and then all is paid at once. */
static ssize_t finish_write(struct tb_io *io, int fd, ssize_t bytes)
{
    bool synced = bytes > 0 && tb_unsynced_write(model_of(io)->unsynced, fd);
    charge(io, TB_CHARGE_WRITE, bytes);
    if (synced)
        charge(io, TB_CHARGE_SYNC, 0);
    finish(synced);
    return bytes;
}

static ssize_t model_write(struct tb_io *io, int fd, const void *buf, size_t n)
{
    tb_model_defer_begin();
    return finish_write(io, fd, TB_NEXT(io, write, fd, buf, n));
}

static ssize_t model_pwrite(struct tb_io *io, int fd, const void *buf, size_t n, off_t offset)
{
    tb_model_defer_begin();
    return finish_write(io, fd, TB_NEXT(io, pwrite, fd, buf, n, offset));
}

/* What is written while the sync runs counts for the next one. */
static int model_fsync(struct tb_io *io, int fd, bool data_only)
{
    struct tb_unsynced *unsynced = model_of(io)->unsynced;
    tb_model_defer_begin();
    bool written = tb_unsynced_take(unsynced, fd);
    int result = TB_NEXT(io, fsync, fd, data_only);
    if (written && result == 0)
        charge(io, TB_CHARGE_SYNC, 0);
    else if (written)
        tb_unsynced_write(unsynced, fd);
    finish(true);
    return result;
}

/* Charged also if the operation failed: the server was asked. */
static ssize_t finish_metadata(struct tb_io *io, ssize_t result)
{
    charge(io, TB_CHARGE_METADATA, 0);
    finish(false);
    return result;
}

/* One round trip each, also for an answer like ENOENT, which no client can give by itself. */
#define ASKS_SERVER(type, op, parameters, ...)                          \
    static type model_##op parameters                                   \
    {                                                                   \
        tb_model_defer_begin();                                         \
        return (type)finish_metadata(io, TB_NEXT(io, op, __VA_ARGS__)); \
    }
ASKS_SERVER(int, ftruncate, (struct tb_io * io, int fd, off_t length), fd, length)
ASKS_SERVER(int, truncate, (struct tb_io * io, const char *path, off_t length), path, length)
ASKS_SERVER(int, stat, (struct tb_io * io, const char *path, struct stat *st, int flags), path, st, flags)
ASKS_SERVER(int, unlink, (struct tb_io * io, const char *path, int flags), path, flags)
ASKS_SERVER(int, rename, (struct tb_io * io, const char *from, const char *to, unsigned flags), from, to, flags)
ASKS_SERVER(int, link, (struct tb_io * io, const char *from, const char *to), from, to)
ASKS_SERVER(int, mkdir, (struct tb_io * io, const char *path, mode_t mode), path, mode)
ASKS_SERVER(ssize_t, readlink, (struct tb_io * io, const char *path, char *text, size_t n), path, text, n)
ASKS_SERVER(int, symlink, (struct tb_io * io, const char *text, const char *path), text, path)
ASKS_SERVER(int, realpath, (struct tb_io * io, const char *path, char *out), path, out)
ASKS_SERVER(int, access, (struct tb_io * io, const char *path, int mode, int flags), path, mode, flags)
ASKS_SERVER(int, chmod, (struct tb_io * io, const char *path, mode_t mode, int flags), path, mode, flags)
ASKS_SERVER(int, chown, (struct tb_io * io, const char *path, uid_t user, gid_t group, int flags), path, user, group, flags)
ASKS_SERVER(int, utimens, (struct tb_io * io, const char *path, const struct timespec times[2], int flags), path, times, flags)
ASKS_SERVER(int, mknod, (struct tb_io * io, const char *path, mode_t mode, dev_t device), path, mode, device)
ASKS_SERVER(int, statfs, (struct tb_io * io, const char *path, struct statfs *out), path, out)
ASKS_SERVER(int, statvfs, (struct tb_io * io, const char *path, struct statvfs *out), path, out)
ASKS_SERVER(int, pathconf, (struct tb_io * io, const char *path, int name, long *out), path, name, out)
ASKS_SERVER(ssize_t, getxattr, (struct tb_io * io, const char *path, const char *key, void *out, size_t n, int flags), path, key, out, n,
            flags)
ASKS_SERVER(ssize_t, listxattr, (struct tb_io * io, const char *path, char *out, size_t n, int flags), path, out, n, flags)
ASKS_SERVER(int, setxattr, (struct tb_io * io, const char *path, const char *key, const void *value, size_t n, int how, int flags), path,
            key, value, n, how, flags)
ASKS_SERVER(int, removexattr, (struct tb_io * io, const char *path, const char *key, int flags), path, key, flags)
ASKS_SERVER(int, opendir, (struct tb_io * io, const char *path, DIR **out), path, out)

/* dup makes a second number for the same open description, with the same unsynced bytes. */
static int model_dup(struct tb_io *io, int oldfd, int newfd)
{
    tb_unsynced_dup(model_of(io)->unsynced, oldfd, newfd);
    return TB_NEXT(io, dup, oldfd, newfd);
}

/* Debts of threads are theirs, and stay. */
static void model_free(struct tb_io *io)
{
    tb_unsynced_free(model_of(io)->unsynced);
    free(io);
}

static const struct tb_io_ops model_ops = {
    .name = "model",
    .open = model_open,
    .close = model_close,
    .read = model_read,
    .write = model_write,
    .pread = model_pread,
    .pwrite = model_pwrite,
    .fsync = model_fsync,
    .ftruncate = model_ftruncate,
    .truncate = model_truncate,
    .stat = model_stat,
    .unlink = model_unlink,
    .rename = model_rename,
    .link = model_link,
    .mkdir = model_mkdir,
    .readlink = model_readlink,
    .symlink = model_symlink,
    .realpath = model_realpath,
    .access = model_access,
    .chmod = model_chmod,
    .chown = model_chown,
    .utimens = model_utimens,
    .mknod = model_mknod,
    .statfs = model_statfs,
    .statvfs = model_statvfs,
    .pathconf = model_pathconf,
    .getxattr = model_getxattr,
    .listxattr = model_listxattr,
    .setxattr = model_setxattr,
    .removexattr = model_removexattr,
    .opendir = model_opendir,
    .dup = model_dup,
    .free = model_free,
};

struct tb_io *tb_io_model_new(const struct tb_io_place *place, const char *text, struct tb_io *next)
{
    (void)text;
    if (place->model == NULL)
        return next;
    struct model *model = calloc(1, sizeof(*model));
    if (model == NULL)
        return NULL;
    model->unsynced = tb_unsynced_new();
    if (model->unsynced == NULL) {
        free(model);
        return NULL;
    }
    tb_model_start();
    tb_io_layer_init(&model->io, &model->ops, &model_ops, next);
    model->device = place->model;
    model->clock = place->clock;
    return &model->io;
}
