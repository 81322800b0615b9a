/* Pass-through operations; see io/io_layer.h. */
#include "io/io_layer.h"

#include <stddef.h>

static int pass_open(struct tb_io *io, const char *path, int flags, mode_t mode)
{
    return TB_NEXT(io, open, path, flags, mode);
}

static int pass_close(struct tb_io *io, int fd)
{
    return TB_NEXT(io, close, fd);
}

static ssize_t pass_read(struct tb_io *io, int fd, void *buf, size_t n)
{
    return TB_NEXT(io, read, fd, buf, n);
}

static ssize_t pass_write(struct tb_io *io, int fd, const void *buf, size_t n)
{
    return TB_NEXT(io, write, fd, buf, n);
}

static off_t pass_lseek(struct tb_io *io, int fd, off_t offset, int whence)
{
    return TB_NEXT(io, lseek, fd, offset, whence);
}

static ssize_t pass_pread(struct tb_io *io, int fd, void *buf, size_t n, off_t offset)
{
    return TB_NEXT(io, pread, fd, buf, n, offset);
}

static ssize_t pass_pwrite(struct tb_io *io, int fd, const void *buf, size_t n, off_t offset)
{
    return TB_NEXT(io, pwrite, fd, buf, n, offset);
}

static int pass_fsync(struct tb_io *io, int fd, bool data_only)
{
    return TB_NEXT(io, fsync, fd, data_only);
}

static int pass_ftruncate(struct tb_io *io, int fd, off_t length)
{
    return TB_NEXT(io, ftruncate, fd, length);
}

static int pass_truncate(struct tb_io *io, const char *path, off_t length)
{
    return TB_NEXT(io, truncate, path, length);
}

static int pass_fstat(struct tb_io *io, int fd, struct stat *st)
{
    return TB_NEXT(io, fstat, fd, st);
}

static int pass_stat(struct tb_io *io, const char *path, struct stat *st, int flags)
{
    return TB_NEXT(io, stat, path, st, flags);
}

static int pass_unlink(struct tb_io *io, const char *path, int flags)
{
    return TB_NEXT(io, unlink, path, flags);
}

static int pass_rename(struct tb_io *io, const char *from, const char *to, unsigned flags)
{
    return TB_NEXT(io, rename, from, to, flags);
}

static int pass_link(struct tb_io *io, const char *from, const char *to)
{
    return TB_NEXT(io, link, from, to);
}

static int pass_mkdir(struct tb_io *io, const char *path, mode_t mode)
{
    return TB_NEXT(io, mkdir, path, mode);
}

static int pass_dup(struct tb_io *io, int oldfd, int newfd)
{
    return TB_NEXT(io, dup, oldfd, newfd);
}

#define PASS_ON(op)                \
    do {                           \
        if (table->op == NULL)     \
            table->op = pass_##op; \
    } while (0)

void tb_io_layer_init(struct tb_io *io, struct tb_io_ops *table, const struct tb_io_ops *own, struct tb_io *next)
{
    *table = *own;
    PASS_ON(open);
    PASS_ON(close);
    PASS_ON(read);
    PASS_ON(write);
    PASS_ON(lseek);
    PASS_ON(pread);
    PASS_ON(pwrite);
    PASS_ON(fsync);
    PASS_ON(ftruncate);
    PASS_ON(truncate);
    PASS_ON(fstat);
    PASS_ON(stat);
    PASS_ON(unlink);
    PASS_ON(rename);
    PASS_ON(link);
    PASS_ON(mkdir);
    PASS_ON(dup); /* not `free`: a layer that has none owns nothing */
    io->ops = table;
    io->next = next;
}
