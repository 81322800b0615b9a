/*
 * The engine's operations on descriptors: data, offset, size, fsync, close. Those on names are in layer/names.c.
 * A descriptor without a description (a directory, a full table) passes through to the PFS's chain.
 */
#include "layer/layer.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/kill_point.h"
#include "buffer/map.h"
#include "buffer/of_file.h"
#include "file/claim.h"
#include "file/state.h"
#include "file/times.h"
#include "flush/backing.h"
#include "flush/flush.h"
#include "flush/program.h"
#include "flush/queue.h"
#include "layer/data.h"
#include "layer/descriptions.h"
#include "layer/end.h"
#include "layer/late.h"
#include "layer/names.h"
#include "layer/open.h"
#include "layer/promise.h"
#include "layer/write.h"
#include "region/clients.h"
#include "region/counters.h"
#include "namespace/placed.h"
#include "shared/commit.h"
#include "tiering/stage.h"
#include "tiering/stream.h"

static const struct tb_io_ops layer_ops;

/* Only for chains that tb_engine_route gave: that of bypass has no handle. */
tb_engine *tb_layer_engine(struct tb_io *io)
{
    assert(io->ops == &layer_ops);
    return ((struct tb_engine_io *)io)->engine;
}

/* The device model reserves time during the call; the caller sleeps for it in leave, after all locks are dropped. */
void tb_layer_enter(void)
{
    tb_model_defer_begin();
}

void tb_layer_leave(bool settle_all)
{
    tb_model_defer_end();
    tb_model_settle(settle_all);
}

static bool may_read(int flags)
{
    return (flags & O_ACCMODE) != O_WRONLY;
}

bool tb_layer_may_write(int flags)
{
    return (flags & O_ACCMODE) != O_RDONLY;
}

/* What the program's own descriptor may be used for. O_DIRECT wants alignment; O_APPEND ignores offsets. */
struct tb_target tb_layer_target(tb_engine *e, const struct tb_open *o, int fd)
{
    int flags = o->flags;
    bool plain = !(flags & O_DIRECT);
    assert(o->file < e->region.n_file_buckets && e->region.files[o->file].n_open);
    return (struct tb_target){.engine = e,
                              .io = tb_file_io(e, o->file),
                              .file = o->file,
                              .fd = fd,
                              .can_read = plain && may_read(flags),
                              .can_write = plain && tb_layer_may_write(flags) && !(flags & O_APPEND)};
}

bool tb_layer_is_coherent(const tb_engine *e, const struct tb_open *o)
{
    return e->region.files[o->file].flags & TB_FILE_COHERENT;
}

/* With a descriptor that may write: the program's own, or one opened by name for this. */
static int flush_by(struct tb_target *t, int fd, void *arg)
{
    (void)arg;
    return tb_flush_file(t->engine, t->file, fd, false).error;
}

int tb_layer_flush_now(tb_engine *e, const struct tb_open *o, int fd)
{
    struct tb_target t = tb_layer_target(e, o, fd);
    return e->region.files[o->file].n_dirty ? tb_target_with_writable(&t, flush_by, NULL) : 0;
}

/* The flag is asked again: the process that made the file coherent may have taken that back, since its own flush failed. */
int tb_layer_passes_through(tb_engine *e, const struct tb_open *o, int fd)
{
    if (!tb_layer_is_coherent(e, o))
        return 0;
    if (!e->region.files[o->file].n_buffers)
        return 1;
    int rc = tb_layer_flush_now(e, o, fd);
    if (rc < 0)
        return rc;
    tb_file_drop_clean(e, o->file);
    return tb_layer_is_coherent(e, o);
}

/* A file that could not become coherent went back to its buffers: the offset is taken back, too. */
int tb_layer_is_in_kernel(tb_engine *e, struct tb_open *o, int fd)
{
    struct tb_io *io = tb_file_io(e, o->file);
    int through = tb_layer_passes_through(e, o, fd);
    if (through > 0 && !atomic_exchange(&o->in_kernel, true))
        TB_IO(io, lseek, fd, (off_t)o->offset, SEEK_SET);
    off_t at = through == 0 && o->in_kernel && atomic_exchange(&o->in_kernel, false) ? TB_IO(io, lseek, fd, 0, SEEK_CUR) : -1;
    if (at >= 0)
        o->offset = (uint64_t)at;
    return through;
}

bool tb_layer_passes_the_end(uint64_t offset, size_t n)
{
    return offset > INT64_MAX || n > INT64_MAX - offset;
}

/*
 * With several nodes, programs are shown the backing file's size. Other nodes, or a writer
 * that was killed, may have made it longer: then the size here is raised, so that what is
 * shown can be read. Locked by the end lock. A read that ended at `at` may go on, also where another one has raised the size.
 */
static bool has_grown(tb_engine *e, const struct tb_open *o, int fd, uint64_t at)
{
    struct tb_io *io = tb_file_io(e, o->file);
    struct tb_file *f = &e->region.files[o->file];
    struct stat st;
    int end = e->header->config.several_nodes ? tb_end_lock(e, o->file, -1) : -EBUSY;
    if (end < 0)
        return false;
    bool more = TB_IO(io, fstat, fd, &st) == 0 && (uint64_t)st.st_size > f->size;
    if (more)
        tb_file_raise_size(f, (uint64_t)st.st_size);
    assert(!more || f->size >= (uint64_t)st.st_size); /* it gets shorter only under this lock */
    bool goes_on = f->size > at;
    tb_end_unlock(e, end);
    return goes_on;
}

/* A read of which the daemon has nothing to learn, no device time is due, and all bytes are at hand: most reads. */
static bool read_warm(tb_engine *e, const struct tb_open *o, void *buf, size_t n, uint64_t offset)
{
    uint32_t open = (uint32_t)(o - e->region.opens);
    if (tb_layer_is_coherent(e, o) || tb_model_has_started() || !tb_reader_is_plain(e, open) ||
        !tb_data_read_warm(e, o->file, buf, n, offset))
        return false;
    tb_reader_note(&e->readers[open], n, offset);
    return true;
}

/* Read-ahead sees the call before and after it; the device time is paid between, without a lock. */
static ssize_t read_at(tb_engine *e, struct tb_open *o, int fd, void *buf, size_t n, uint64_t offset)
{
    if (!may_read(o->flags))
        return -EBADF;
    if (tb_layer_passes_the_end(offset, n))
        return -EINVAL;
    if (read_warm(e, o, buf, n, offset))
        return (ssize_t)n;
    struct tb_target t = tb_layer_target(e, o, fd);
    int through = tb_layer_passes_through(e, o, fd);
    if (through)
        return through < 0 ? through : TB_IO(t.io, pread, fd, buf, n, (off_t)offset);
    uint32_t open = (uint32_t)(o - e->region.opens);
    tb_reader_before(&t, open, n, offset);
    tb_layer_enter();
    ssize_t r = tb_data_read(&t, buf, n, offset);
    if (r >= 0 && (size_t)r < n && has_grown(e, o, fd, offset + (uint64_t)r))
        r = tb_data_read(&t, buf, n, offset);
    tb_layer_leave(false);
    assert(r < 0 || (size_t)r <= n);
    if (r > 0)
        tb_reader_after(&t, open, (uint64_t)r, offset);
    return r;
}

/* No description: a descriptor of something that is not buffered, or that the tables had no room for. */
static ssize_t layer_pread(struct tb_io *io, int fd, void *buf, size_t n, off_t offset)
{
    tb_engine *e = tb_layer_engine(io);
    struct tb_open *o = tb_open_of(e, fd);
    if (!o)
        return TB_IO(e->pfs, pread, fd, buf, n, offset);
    return offset < 0 ? -EINVAL : read_at(e, o, fd, buf, n, (uint64_t)offset);
}

/*
 * In a signal handler that interrupted another use of the offset there is no lock: the
 * handler must not wait for its own thread.
 */
static int lock_offset(tb_engine *e, const struct tb_open *o)
{
    int stripe = tb_offset_lock(e, o);
    return stripe < 0 ? TB_OFFSET_IS_OWN : stripe;
}

/* The offset moves after the bytes were copied: if killed between, the next reader gets the same bytes again. */
static ssize_t layer_read(struct tb_io *io, int fd, void *buf, size_t n)
{
    tb_engine *e = tb_layer_engine(io);
    struct tb_open *o = tb_open_of(e, fd);
    if (!o)
        return TB_IO(e->pfs, read, fd, buf, n);
    int in_kernel = tb_layer_is_in_kernel(e, o, fd);
    if (in_kernel)
        return in_kernel < 0 ? in_kernel : TB_IO(tb_file_io(e, o->file), read, fd, buf, n);
    int stripe = lock_offset(e, o);
    uint64_t at = o->offset;
    ssize_t r = read_at(e, o, fd, buf, n, at);
    if (r > 0)
        tb_offset_move(o, at + (uint64_t)r);
    tb_offset_unlock(e, stripe);
    return r;
}

/* Only the file system knows holes: the file is flushed to it, then it is asked. */
static off_t seek_data(tb_engine *e, struct tb_open *o, int fd, off_t offset, int whence)
{
    struct tb_io *io = tb_file_io(e, o->file);
    int rc = tb_layer_flush_now(e, o, fd);
    return rc ? rc : TB_IO(io, lseek, fd, offset, whence);
}

/*
 * As the kernel: an offset that overflows or is negative is refused, and nothing moves. For
 * SEEK_DATA and SEEK_HOLE the file system's own error is handed on (ENXIO).
 */
static off_t seek(tb_engine *e, struct tb_open *o, int fd, off_t offset, int whence)
{
    off_t at = offset;
    bool beyond = false;
    if (whence == SEEK_CUR)
        beyond = __builtin_add_overflow(offset, (off_t)o->offset, &at);
    else if (whence == SEEK_END)
        beyond = __builtin_add_overflow(offset, tb_layer_end(e, o->file, fd), &at);
    else if (whence == SEEK_DATA || whence == SEEK_HOLE)
        at = seek_data(e, o, fd, offset, whence);
    else if (whence != SEEK_SET)
        return -EINVAL;
    if (beyond)
        return -EINVAL;
    if (at < 0)
        return whence == SEEK_DATA || whence == SEEK_HOLE ? at : -EINVAL;
    if (!tb_layer_may_reach(e, o, fd, (uint64_t)at))
        return -EINVAL;
    tb_offset_move(o, (uint64_t)at);
    return at;
}

static off_t layer_lseek(struct tb_io *io, int fd, off_t offset, int whence)
{
    tb_engine *e = tb_layer_engine(io);
    struct tb_open *o = tb_open_of(e, fd);
    if (!o)
        return TB_IO(e->pfs, lseek, fd, offset, whence);
    int in_kernel = tb_layer_is_in_kernel(e, o, fd);
    if (in_kernel > 0 || (in_kernel < 0 && o->in_kernel)) /* a seek moves no bytes, so it need not wait for them */
        return TB_IO(tb_file_io(e, o->file), lseek, fd, offset, whence);
    int stripe = lock_offset(e, o);
    off_t at = seek(e, o, fd, offset, whence);
    tb_offset_unlock(e, stripe);
    return at;
}

/*
 * The bytes of a coherent file are on the PFS already; the other nodes learn that they changed. It ends with what those
 * committed there since, for the next read past the buffers. A file that another node has cut meanwhile ends earlier from now on,
 * as after an open.
 */
static int tell_others(tb_engine *e, const struct tb_open *o, int fd)
{
    bool coherent = e->region.files[o->file].flags & TB_FILE_COHERENT;
    struct tb_target t = tb_layer_target(e, o, fd);
    struct tb_told told;
    int rc = tb_flush_commit(&t, &told);
    if (rc > 0 && !(rc = tb_end_lower(e, o->file, fd, told.end, told.version)))
        tb_shared_learn(e, o->file, &told);
    return rc || !coherent ? rc : tb_shared_settle(e, o->file);
}

/*
 * An error of an earlier background flush is reported here, once. One of the flush that this
 * fsync made itself is returned by it, and so taken from the record: else the close would
 * report it again.
 */
static int layer_fsync(struct tb_io *io, int fd, bool data_only)
{
    tb_engine *e = tb_layer_engine(io);
    struct tb_open *o = tb_open_of(e, fd);
    if (!o)
        return TB_IO(e->pfs, fsync, fd, data_only);
    struct tb_target t = tb_layer_target(e, o, fd);
    int earlier = tb_file_take_error(e, o->file);
    tb_layer_enter();
    int rc = tb_flush_meet_removal(e, o->file, fd);
    rc = rc ? rc : tb_promise_keep(&t);
    tb_layer_leave(true);
    if (rc)
        tb_file_take_error(e, o->file);
    rc = rc ? rc : tell_others(e, o, fd);
    return rc ? rc : earlier;
}

/* The errors of a descriptor that cannot write are the kernel's: EINVAL, not EBADF. */
static int layer_ftruncate(struct tb_io *io, int fd, off_t length)
{
    tb_engine *e = tb_layer_engine(io);
    struct tb_open *o = tb_open_of(e, fd);
    if (!o)
        return TB_IO(e->pfs, ftruncate, fd, length);
    if (length < 0 || !tb_layer_may_write(o->flags))
        return -EINVAL;
    struct tb_identity id;
    int rc = tb_end_set(e, o->file, NULL, fd, (uint64_t)length);
    return rc || !e->shared_device || tb_identity_of_fd(fd, &id) ? rc : tb_shared_cut(e, &id, (uint64_t)length);
}

/* The size and times are the engine's while bytes are buffered; everything else is the backing file's. */
static int layer_fstat(struct tb_io *io, int fd, struct stat *st)
{
    tb_engine *e = tb_layer_engine(io);
    struct tb_open *o = tb_open_of(e, fd);
    struct tb_io *below = o ? tb_file_io(e, o->file) : e->pfs;
    bool buffered = o && tb_layer_passes_through(e, o, fd) <= 0; /* of a file that cannot be flushed the size is the engine's */
    int rc = TB_IO(below, fstat, fd, st);
    if (!rc && buffered && tb_times_are_old(&e->region.files[o->file], st))
        rc = TB_IO(below, fstat, fd, st);
    if (!rc && buffered) {
        st->st_size = tb_layer_size(e, o->file, st->st_size);
        tb_times_show(e, &e->region.files[o->file], st);
    }
    return rc;
}

/* Use the program's own descriptor if it can write: opening by name costs another open, and the name may be gone. */
static int flush_by_own(tb_engine *e, const struct tb_open *o, int fd)
{
    return tb_flush_file(e, o->file, tb_layer_target(e, o, fd).can_write ? fd : -1, false).error;
}

/* flush policy on-close: when close returns, the PFS has the bytes, or the daemon has the file in its queue. */
static int flush_at_close(tb_engine *e, struct tb_open *o, int fd)
{
    struct tb_file *f = &e->region.files[o->file];
    bool owed = tb_file_owes_flush(f);
    if (!tb_layer_may_write(o->flags) || !tb_file_may_flush(f) || (e->flush.policy != TB_FLUSH_ON_CLOSE && !owed))
        return 0;
    if (e->flush.background && !owed && tb_daemon_is_alive(e->header) && tb_target_is_named(e, o->file)) {
        tb_flush_queue(e, o->file);
        return 0;
    }
    return flush_by_own(e, o, fd);
}

/* The last descriptor of this description, of all processes, is being closed. The record may go with it. */
static int finish_open(tb_engine *e, struct tb_open *o, int fd)
{
    uint32_t file = o->file;
    assert(o->ended_by & TB_OPEN_ENDER); /* by this client, so no other one closes it, too */
    int rc = tb_flush_meet_removal(e, file, fd);
    rc = rc ? rc : flush_at_close(e, o, fd);
    int earlier = tb_layer_may_write(o->flags) ? tb_file_take_error(e, file) : 0;
    if (!rc && tb_layer_may_write(o->flags) && tb_shared_has_news(e, file)) {
        struct tb_target t = tb_layer_target(e, o, fd);
        rc = tb_flush_commit(&t, NULL);
    }
    if (!rc && tb_layer_may_write(o->flags))
        rc = tb_shared_finish(e, file);
    tb_reader_close(e, (uint32_t)(o - e->region.opens));
    tb_open_end(e, o);
    return rc ? rc : earlier;
}

/*
 * Unbound before the descriptor is closed: after the close its number may be another file's.
 * Once it is unbound a repair may end the description, so its place is looked up before.
 */
static int layer_close(struct tb_io *io, int fd)
{
    tb_engine *e = tb_layer_engine(io);
    bool last = false;
    struct tb_open *o = NULL;
    struct tb_io *below = tb_late_unbind(e, fd);
    if (!below) {
        o = tb_open_of(e, fd);
        below = o ? tb_file_io(e, o->file) : e->pfs;
        o = tb_open_unbind(e, fd, &last);
    }
    tb_layer_enter();
    int rc = o && last ? finish_open(e, o, fd) : 0;
    int closed = TB_IO(below, close, fd);
    tb_layer_leave(true);
    return rc ? rc : closed;
}

/*
 * The kernel has made the copy, and closed what `newfd` was: its description is ended here
 * without a descriptor, so that a flush that it owes opens the file by name.
 */
static int layer_dup(struct tb_io *io, int oldfd, int newfd)
{
    tb_engine *e = tb_layer_engine(io);
    struct tb_open *o = tb_open_of(e, oldfd), *replaced;
    bool last;
    if (oldfd == newfd)
        return 0;
    replaced = tb_late_unbind(e, newfd) ? NULL : tb_open_unbind(e, newfd, &last); /* dup2 closed it silently */
    if (replaced && last)
        finish_open(e, replaced, -1);
    return o ? tb_open_bind(e, newfd, (uint32_t)(o - e->region.opens)) : 0;
}

static const struct tb_io_ops layer_ops = {
    .name = "engine",
    .open = tb_layer_open,
    .close = layer_close,
    .read = layer_read,
    .write = tb_layer_write,
    .lseek = layer_lseek,
    .pread = layer_pread,
    .pwrite = tb_layer_pwrite,
    .fsync = layer_fsync,
    .ftruncate = layer_ftruncate,
    .truncate = tb_layer_truncate_path,
    .fstat = layer_fstat,
    .stat = tb_layer_stat,
    .unlink = tb_layer_unlink,
    .rename = tb_layer_rename,
    .link = tb_layer_link,
    .mkdir = tb_placed_mkdir,
    .dup = layer_dup,
    .readlink = tb_placed_readlink,
    .symlink = tb_placed_symlink,
    .realpath = tb_placed_realpath,
    .access = tb_placed_access,
    .chmod = tb_placed_chmod,
    .chown = tb_placed_chown,
    .utimens = tb_placed_utimens,
    .mknod = tb_placed_mknod,
    .statx = tb_placed_statx,
    .statfs = tb_placed_statfs,
    .statvfs = tb_placed_statvfs,
    .pathconf = tb_placed_pathconf,
    .getxattr = tb_placed_getxattr,
    .listxattr = tb_placed_listxattr,
    .setxattr = tb_placed_setxattr,
    .removexattr = tb_placed_removexattr,
    .watch = tb_placed_watch,
    .opendir = tb_placed_opendir,
    .readdir = tb_placed_readdir,
    .closedir = tb_placed_closedir,
};

const struct tb_io_ops *tb_layer_ops(void)
{
    return &layer_ops;
}

static int flush_once(struct tb_target *t, int fd, void *arg)
{
    (void)arg;
    return tb_flush_claimed(t->engine, t->file, fd, false).error;
}

/*
 * Repeat until nothing is dirty. A writer that began before the mark may change a buffer
 * between its copy and its cleaning; that buffer stays dirty and needs another round.
 */
static int flush_rest(struct tb_target *t, int fd, void *arg)
{
    int rc = 0;
    (void)arg;
    while (!rc && t->engine->region.files[t->file].n_dirty) {
        rc = tb_flush_claimed(t->engine, t->file, fd, false).error;
        if (!rc && tb_has_voids(t->engine, t->file))
            rc = -EAGAIN; /* they go from here when the claim is free */
    }
    return rc;
}

/*
 * Flush once while writers go on, mark the file, wait for those that have a chunk, then
 * flush the rest. The second flush is short: from the mark on, new writes pass through.
 * The file is claimed.
 */
static int become_coherent(struct tb_target *t)
{
    tb_engine *e = t->engine;
    struct tb_file *f = &e->region.files[t->file];
    assert(tb_file_is_claimed(e, t->file) && !(f->flags & TB_FILE_COHERENT));
    int rc = f->n_dirty ? tb_target_with_writable(t, flush_once, NULL) : 0;
    if (rc)
        return rc;
    TB_MEETING("become coherent");
    tb_file_become_coherent(f);
    TB_MEETING("coherent");
    tb_chunk_wait_all(e, t->file);
    tb_stage_void(e);
    if (f->n_dirty)
        rc = tb_target_with_writable(t, flush_rest, NULL);
    if (rc)
        return tb_file_stay_buffered(f), rc;
    tb_file_drop_clean(e, t->file);
    e->header->totals.fallbacks++;
    return 0;
}

int tb_layer_become_coherent(tb_engine *e, uint32_t file, int fd, int flags)
{
    struct tb_target t = {.engine = e, .io = tb_file_io(e, file), .file = file, .fd = fd};
    t.can_write = fd >= 0 && tb_layer_may_write(flags) && !(flags & (O_DIRECT | O_APPEND));
    return e->region.files[file].flags & TB_FILE_COHERENT ? 0 : become_coherent(&t);
}

/*
 * Order: the end lock, then the claim. Both are held through the flush: an append or a cut in
 * between would go to buffers that are about to be dropped. If killed after the mark, the file
 * is coherent with buffers, and the next use of it flushes and drops them.
 */
static int make_coherent(tb_engine *e, struct tb_open *o, int fd)
{
    struct tb_target t = tb_layer_target(e, o, fd);
    int settled = tb_shared_settle(e, o->file);
    if (settled)
        return settled;
    tb_grant_take(e, o->file);
    int end = tb_end_lock(e, o->file, -1); /* before this lock appends go to buffers, after it to the kernel */
    if (end < 0)
        return end;
    tb_file_claim(e, o->file);
    int rc = tb_layer_is_coherent(e, o) ? 0 : become_coherent(&t); /* another process may have been first */
    tb_file_unclaim(e, o->file);
    tb_end_unlock(e, end);
    tb_grant_end(e, o->file);
    return rc;
}

#define VOID_TRIES 1000
#define VOID_NS 5000000

/* Not while bytes that another node has newer ones of are about to go from here: that takes a moment. */
static int make_coherent_soon(tb_engine *e, struct tb_open *o, int fd)
{
    int rc = make_coherent(e, o, fd);
    for (int i = 0; i < VOID_TRIES && rc == -EAGAIN; i++) {
        nanosleep(&(struct timespec){0, VOID_NS}, NULL);
        rc = make_coherent(e, o, fd);
    }
    return rc == -EAGAIN ? -EIO : rc;
}

/* Once more if another process had made it coherent a moment ago, and took that back. */
int tb_engine_make_coherent(tb_engine *e, int fd)
{
    struct tb_open *o = tb_open_of(e, fd);
    int rc = 0, through = !o;
    while (!rc && !through) {
        if (!tb_layer_is_coherent(e, o))
            rc = make_coherent_soon(e, o, fd);
        through = tb_layer_is_in_kernel(e, o, fd);
    }
    return rc ? rc : through < 0 ? through : 0;
}

/* Read without a lock: the claim that follows checks again. */
static TB_UNLOCKED bool is_to_flush(const struct tb_file *f)
{
    return f->magic == TB_FILE_MAGIC && tb_file_may_flush(f);
}

/* All files: the first error is kept, and the other files are flushed all the same. */
int tb_engine_flush(tb_engine *e, int fd)
{
    struct tb_open *o = fd >= 0 ? tb_open_of(e, fd) : NULL;
    int n = 0, error = 0;
    if (fd >= 0)
        return o ? flush_by_own(e, o, fd) : 0;
    for (uint32_t i = 0; i < e->region.n_file_buckets; i++) {
        if (!is_to_flush(&e->region.files[i]))
            continue;
        int rc = tb_flush_file(e, i, -1, false).error;
        error = error ? error : rc;
        n += rc == 0;
    }
    return error ? error : n;
}
