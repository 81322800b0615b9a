/*
 * The way from a file record to its backing file: open it by name or by a descriptor that
 * the caller has, read, write, sync. A name is believed only if the file that it opens has
 * the record's identity.
 */
#include "flush/backing.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "file/file.h"
#include "file/name_tree.h"
#include "io/identity.h"
#include "flush/remote.h"
#include "io/whole.h"
#include "shared/commit.h"

struct tb_io *tb_file_io(tb_engine *e, uint32_t file)
{
    return e->region.files[file].flags & TB_FILE_SCRATCH ? e->shadow_io : e->pfs;
}

static void path_of(tb_engine *e, uint32_t file, char *out)
{
    int stripe = tb_file_lock(e, file);
    tb_file_path(e, &e->region.files[file], out, TB_PATH_MAX);
    tb_file_unlock(e, stripe);
}

static int open_named(tb_engine *e, uint32_t file, int flags)
{
    struct tb_io *io = tb_file_io(e, file);
    struct tb_identity id;
    char path[TB_PATH_MAX];
    path_of(e, file, path);
    /* never waits, if a fifo has the name now */
    int fd = TB_IO(io, open, path, flags | O_NONBLOCK | O_CLOEXEC | TB_IO_OWN, 0);
    if (fd >= 0 && (tb_identity_of_fd(fd, &id) || !tb_identity_is(&e->region.files[file], &id))) {
        TB_IO(io, close, fd);
        return -ESTALE;
    }
    return fd;
}

/* If a directory rename is under way, the old path may fail: wait for it, then try again. */
int tb_target_open(tb_engine *e, uint32_t file, int flags)
{
    uint32_t n_renames;
    int fd;
    do {
        n_renames = e->header->names.n_renames;
        fd = open_named(e, file, flags);
    } while ((fd == -ENOENT || fd == -ESTALE) && tb_names_moved(e, n_renames));
    return fd;
}

bool tb_target_is_named(tb_engine *e, uint32_t file)
{
    struct tb_identity id;
    char path[TB_PATH_MAX];
    path_of(e, file, path);
    return tb_identity_of_path(tb_file_io(e, file), path, &id) == 0 && tb_identity_is(&e->region.files[file], &id);
}

/*
 * Another descriptor of the caller's own file, which may have no name any more. By name if
 * the system has no /proc/self/fd.
 */
static int reopen(struct tb_target *t, int flags)
{
    char self[32];
    snprintf(self, sizeof(self), "/proc/self/fd/%d", t->fd);
    int fd = t->fd < 0 ? -ENOENT : TB_IO(t->io, open, self, flags | O_CLOEXEC | TB_IO_OWN, 0);
    return fd == -ENOENT ? tb_target_open(t->engine, t->file, flags) : fd;
}

/* What is past the end of the backing file reads as zeros. */
int tb_target_read_pfs(struct tb_target *t, void *to, size_t n, uint64_t offset)
{
    int fd = t->fd >= 0 && t->can_read ? t->fd : reopen(t, O_RDONLY);
    if (fd < 0)
        return fd;
    ssize_t r = tb_io_read_all(t->io, fd, to, n, offset);
    if (fd != t->fd)
        TB_IO(t->io, close, fd);
    if (r < 0)
        return (int)r;
    memset((char *)to + r, 0, n - (size_t)r);
    t->engine->header->totals.pfs_read += (uint64_t)r;
    return 0;
}

static bool may_be_elsewhere(const struct tb_target *t)
{
    return tb_is_shared(t->engine, &t->engine->region.files[t->file]) && tb_is_elsewhere(t->engine, t->file);
}

bool tb_target_is_here(const struct tb_target *t, uint64_t n, uint64_t offset)
{
    return !may_be_elsewhere(t) || tb_remote_has(t, n, offset);
}

int tb_target_read(struct tb_target *t, void *to, size_t n, uint64_t offset)
{
    if (!may_be_elsewhere(t))
        return tb_target_read_pfs(t, to, n, offset);
    return tb_remote_copy(t, to, n, offset) ? 0 : -EREMOTE;
}

int tb_target_read_out(struct tb_target *t, void *to, size_t n, uint64_t offset)
{
    if (!may_be_elsewhere(t))
        return tb_target_read_pfs(t, to, n, offset);
    return tb_remote_give(t, to, n, offset) ? 0 : -EREMOTE;
}

/* A read past the end waits for the device as every read does; the length is known to each client of a file system. */
static bool is_past_end(const struct tb_target *t, uint64_t offset)
{
    struct stat st;
    return t->fd >= 0 && TB_IO(t->io, fstat, t->fd, &st) == 0 && offset >= (uint64_t)st.st_size;
}

/* The other nodes of a shared file may have bytes past the end that this one sees. */
int tb_target_read_gap(struct tb_target *t, void *to, size_t n, uint64_t offset)
{
    if (tb_is_shared(t->engine, &t->engine->region.files[t->file]) || !is_past_end(t, offset))
        return tb_target_read(t, to, n, offset);
    memset(to, 0, n);
    return 0;
}

int tb_target_with_writable(struct tb_target *t, int (*act)(struct tb_target *, int, void *), void *arg)
{
    int fd = t->fd >= 0 && t->can_write ? t->fd : reopen(t, O_WRONLY);
    if (fd < 0)
        return fd;
    int rc = act(t, fd, arg);
    int closed = fd != t->fd ? TB_IO(t->io, close, fd) : 0;
    return rc ? rc : closed;
}

struct write_bytes {
    const void *from;
    size_t n;
    uint64_t offset;
};

/*
 * All bytes that go to a backing file go through here. The change is noted even if the
 * write failed: a part of it may have reached the file.
 * If killed after the write, the bytes are there and not noted as unsynced. Nothing was
 * promised then: the buffers still hold them dirty, or the write did not return.
 */
static int write_bytes(struct tb_target *t, int fd, void *arg)
{
    const struct write_bytes *w = arg;
    assert(t->io == tb_file_io(t->engine, t->file)); /* the bytes of a scratch file never go to the PFS */
    int rc = tb_io_write_all(t->io, fd, w->from, w->n, w->offset);
    tb_file_note_change(t->engine, &t->engine->region.files[t->file]);
    if (!rc)
        t->engine->header->totals.pfs_written += w->n;
    return rc;
}

int tb_target_write(struct tb_target *t, const void *from, size_t n, uint64_t offset)
{
    return tb_target_with_writable(t, write_bytes, &(struct write_bytes){from, n, offset});
}

/* A hint: an error of the device is told by the sync. */
void tb_target_will_sync(struct tb_target *t, uint64_t offset, uint64_t n)
{
    assert(t->fd >= 0 && t->can_write);
    TB_IO(t->io, will_sync, t->fd, (off_t)offset, n);
}

/* `unsynced` is read before the sync: a change that comes during it is not covered. */
/* Of this thread. */
static _Thread_local struct {
    void (*tell)(void *arg);
    void *arg;
} before_sync;

void tb_target_before_sync(void (*tell)(void *arg), void *arg)
{
    before_sync.tell = tell;
    before_sync.arg = arg;
}

int tb_target_sync(struct tb_target *t)
{
    if (before_sync.tell)
        before_sync.tell(before_sync.arg);
    struct tb_file *f = &t->engine->region.files[t->file];
    int fd = t->fd >= 0 ? t->fd : tb_target_open(t->engine, t->file, O_RDONLY);
    if (fd < 0)
        return fd;
    uint32_t unsynced = f->unsynced;
    int rc = TB_IO(t->io, fsync, fd, true);
    if (!rc)
        tb_file_note_synced(f, unsynced);
    if (fd != t->fd)
        TB_IO(t->io, close, fd);
    return rc;
}
