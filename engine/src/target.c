#include "target.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "file.h"
#include "interval.h"
#include "medium.h"

struct tb_io *tb_file_io(tb_engine *e, uint32_t file)
{
    return e->region.files[file].flags & TB_FILE_SCRATCH ? e->shadow_io : e->pfs;
}

int tb_target_open(tb_engine *e, uint32_t file, int flags)
{
    struct tb_file *f = &e->region.files[file];
    struct tb_io *io = tb_file_io(e, file);
    struct tb_identity id;
    char path[TB_PATH_MAX];
    int stripe = tb_file_lock(e, file);
    tb_file_path(e, f, path, sizeof(path));
    tb_file_unlock(e, stripe);
    int fd = io->ops->open(io, path, flags | O_CLOEXEC, 0);
    if (fd < 0)
        return fd;
    if (tb_identity_of_fd(fd, &id) || !tb_identity_is(f, &id)) {
        io->ops->close(io, fd);
        return -ESTALE;
    }
    return fd;
}

int tb_target_read(struct tb_target *t, void *to, size_t n, uint64_t offset)
{
    int fd = t->fd >= 0 && t->can_read ? t->fd : tb_target_open(t->engine, t->file, O_RDONLY);
    if (fd < 0)
        return fd;
    ssize_t r = tb_io_read_all(t->io, fd, to, n, offset);
    if (fd != t->fd)
        t->io->ops->close(t->io, fd);
    if (r < 0)
        return (int)r;
    memset((char *)to + r, 0, n - (size_t)r);
    t->engine->header->pfs_read += (uint64_t)r;
    return 0;
}

static int with_writable(struct tb_target *t, int (*act)(struct tb_target *, int, void *), void *arg)
{
    int fd = t->fd >= 0 && t->can_write ? t->fd : tb_target_open(t->engine, t->file, O_WRONLY);
    if (fd < 0)
        return fd;
    int rc = act(t, fd, arg);
    int closed = fd != t->fd ? t->io->ops->close(t->io, fd) : 0;
    return rc ? rc : closed;
}

struct write_bytes {
    const void *from;
    size_t n;
    uint64_t offset;
};

static int write_bytes(struct tb_target *t, int fd, void *arg)
{
    const struct write_bytes *w = arg;
    int rc = tb_io_write_all(t->io, fd, w->from, w->n, w->offset);
    if (!rc)
        t->engine->header->pfs_written += w->n;
    return rc;
}

int tb_target_write(struct tb_target *t, const void *from, size_t n, uint64_t offset)
{
    return with_writable(t, write_bytes, &(struct write_bytes){from, n, offset});
}

static int flush_buffer(struct tb_target *t, int fd, void *arg)
{
    struct tb_buffer *b = arg;
    tb_engine *e = t->engine;
    char *bytes = tb_scratch_bytes(tb_buffer_size(e, b));
    uint32_t lo = b->dirty_lo, a, z;
    int rc = bytes ? 0 : -ENOMEM;
    while (!rc && tb_interval_dirty(e, b, lo, b->dirty_hi, &a, &z)) {
        rc = tb_medium_read(e, b, a, z - a, bytes);
        if (!rc)
            rc = write_bytes(t, fd, &(struct write_bytes){bytes, z - a, tb_buffer_start(e, b) + a});
        lo = z;
    }
    if (!rc && (b->flags & TB_BUFFER_JOURNALED || b->prev != TB_NONE))
        rc = t->io->ops->fsync(t->io, fd, true);
    return rc;
}

int tb_target_flush_buffer(struct tb_target *t, struct tb_buffer *b)
{
    return with_writable(t, flush_buffer, b);
}

struct scratch {
    size_t size;
    char bytes[];
};

static pthread_key_t scratch_key;
static pthread_once_t scratch_once = PTHREAD_ONCE_INIT;

static void make_key(void)
{
    pthread_key_create(&scratch_key, free);
}

char *tb_scratch_bytes(size_t size)
{
    pthread_once(&scratch_once, make_key);
    struct scratch *s = pthread_getspecific(scratch_key);
    if (!s || s->size < size) {
        free(s);
        s = malloc(sizeof(*s) + size);
        pthread_setspecific(scratch_key, s);
        if (!s)
            return NULL;
        s->size = size;
    }
    return s->bytes;
}
