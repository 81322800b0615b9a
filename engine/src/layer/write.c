/*
 * Writing through a descriptor: at a given offset, at the description's own offset, or at
 * the end of the file.
 *
 * An offset that several processes share is moved after the bytes are written, under its
 * lock. So a file that is written through it grows without holes, as an appended one does
 * (layer/end.h), and a reader or a seek through the same offset comes before the write or
 * after it.
 */
#include "layer/write.h"

#include <errno.h>
#include <fcntl.h>
#include <time.h>

#include "base/kill_point.h"
#include "buffer/map.h"
#include "buffer/of_file.h"
#include "file/times.h"
#include "layer/data.h"
#include "layer/descriptions.h"
#include "layer/end.h"
#include "layer/layer.h"
#include "layer/names.h"
#include "layer/promise.h"
#include "region/clients.h"
#include "region/counters.h"
#include "shared/commit.h"
#include "tiering/stream.h"

#define ASK_LIMIT_FROM (1ull << 40) /* bytes; no file system of today ends a file earlier */

bool tb_layer_may_reach(tb_engine *e, const struct tb_open *o, int fd, uint64_t end)
{
    struct tb_io *io = tb_file_io(e, o->file);
    return end <= ASK_LIMIT_FROM || TB_IO(io, lseek, fd, (off_t)end, SEEK_SET) != -EINVAL;
}

/* The largest length that the file system takes, found bit by bit. */
static uint64_t longest(tb_engine *e, const struct tb_open *o, int fd)
{
    uint64_t end = 0;
    for (int bit = 62; bit >= 0; bit--)
        if (tb_layer_may_reach(e, o, fd, end | 1ull << bit))
            end |= 1ull << bit;
    return end;
}

/* Refuse what the file system would refuse (EFBIG). A flush would find it too late, after the write returned. */
static int limit_write(tb_engine *e, const struct tb_open *o, int fd, uint64_t offset, size_t *n)
{
    uint64_t end = offset + *n;
    bool grows = end > ASK_LIMIT_FROM && end > e->region.files[o->file].size;
    if (!grows || !*n || tb_layer_may_reach(e, o, fd, end))
        return 0;
    end = longest(e, o, fd);
    if (offset >= end)
        return -EFBIG;
    assert(end - offset <= *n);
    *n = (size_t)(end - offset);
    return 0;
}

/* If the file went back to its buffers during the write, what they read from the PFS before it is old. */
static ssize_t write_coherent(struct tb_target *t, const struct tb_open *o, const void *buf, size_t n, uint64_t offset)
{
    tb_engine *e = t->engine;
    ssize_t w = TB_IO(t->io, pwrite, t->fd, buf, n, (off_t)offset);
    if (w > 0)
        tb_file_raise_size(&e->region.files[t->file], offset + (uint64_t)w);
    if (!tb_layer_is_coherent(e, o)) {
        tb_stage_void(e);
        tb_layer_flush_now(e, o, t->fd);
        tb_file_drop_clean(e, t->file);
    }
    return w;
}

/* By the kernel's own offset, which is this description's now; where it came to tells the size. */
static ssize_t write_in_kernel(tb_engine *e, struct tb_open *o, int fd, const void *buf, size_t n)
{
    struct tb_io *io = tb_file_io(e, o->file);
    ssize_t w = TB_IO(io, write, fd, buf, n);
    off_t end = w > 0 ? TB_IO(io, lseek, fd, 0, SEEK_CUR) : 0;
    if (end > 0)
        tb_file_raise_size(&e->region.files[o->file], (uint64_t)end);
    return w;
}

#define REDOS 20 /* then another node's commit may have a part of it */
#define TEARING_NS 200000

/*
 * Since the count was `seen` another node's commit, or a flush, took a part of what was being written. Waits for what does so right
 * now: a write that is done again before that has ended can lose a part once more. The daemon does it, or was killed and never ends it.
 */
static bool is_torn(const tb_engine *e, const struct tb_file_nodes *f, uint32_t seen)
{
    while (f->n_tearing && tb_daemon_is_alive(e->header))
        nanosleep(&(struct timespec){0, TEARING_NS}, NULL);
    return f->n_torn != seen;
}

struct counts {
    uint32_t torn, let_go, cleaned;
};

static struct counts count(const struct tb_file_nodes *f)
{
    return f ? (struct counts){f->n_torn, f->n_let_go, f->n_cleaned} : (struct counts){0};
}

/*
 * It is noted first: so a flush or another node's commit that claims the file later spares it, and one that has the claim, or had it, is
 * seen here.
 */
static bool is_noted_as_whole(tb_engine *e, uint32_t file, uint64_t offset, uint64_t n, const struct counts *since)
{
    const struct tb_file_nodes *f = &e->region.file_nodes[file];
    return tb_shared_note_write(e, file, offset, n) && !e->region.files[file].flusher && f->n_let_go == since->let_go &&
           f->n_cleaned == since->cleaned;
}

/*
 * With `nodes: shared` bytes may go for newer ones of another node, or be committed early by a flush, while they are written. Then
 * the write is done once more, so that of two writes that nothing orders one is there as a whole. Where none of it can have gone, or become
 * clean, it is enough that all of it counts as in no commit.
 */
static ssize_t write_whole(struct tb_target *t, const void *from, size_t n, uint64_t offset)
{
    tb_engine *e = t->engine;
    const struct tb_file_nodes *f = tb_is_shared(e, &e->region.files[t->file]) ? &e->region.file_nodes[t->file] : NULL;
    struct counts since = count(f);
    ssize_t w = tb_data_write(t, from, n, offset);
    for (int i = 0; i < REDOS && f && w > 0 && is_torn(e, f, since.torn); i++) {
        since.torn = f->n_torn;
        if (is_noted_as_whole(e, t->file, offset, (uint64_t)w, &since))
            continue;
        since = count(f);
        ssize_t again = tb_data_write(t, from, (size_t)w, offset);
        w = again < 0 ? again : w;
    }
    return w;
}

/* Copy the bytes into buffers. What else the write owes (settle) is done after the caller dropped its locks. */
static ssize_t put(struct tb_target *t, const struct tb_open *o, const void *buf, size_t n, uint64_t offset)
{
    tb_engine *e = t->engine;
    if (tb_layer_passes_the_end(offset, n))
        return -EINVAL;
    int rc = limit_write(e, o, t->fd, offset, &n);
    t->hint = tb_reader_hint(e, (uint32_t)(o - e->region.opens), offset);
    return rc ? rc : write_whole(t, buf, n, offset);
}

static int promise_now(tb_engine *e, const struct tb_open *o, int fd)
{
    struct tb_target t = tb_layer_target(e, o, fd);
    return tb_promise_keep(&t);
}

/*
 * Called without locks: it flushes and syncs. Write-through and O_SYNC promise before the
 * call returns. The flags are looked at after the bytes are in buffers: the process
 * that ends the instance sets SYNC and then drains. So it flushes the bytes, or they are flushed here,
 * however long this process was stopped in between.
 */
static int settle(tb_engine *e, const struct tb_open *o, int fd)
{
    struct tb_file *f = &e->region.files[o->file];
    int rc = 0;
    if (!(f->flags & TB_FILE_SYNC))
        tb_times_written(f);
    if (tb_layer_is_coherent(e, o)) { /* it became coherent during the write: that flush may have missed these bytes */
        rc = tb_layer_flush_now(e, o, fd);
        tb_file_drop_clean(e, o->file);
    }
    if (f->flags & TB_FILE_SYNC)
        rc = tb_layer_flush_now(e, o, fd);
    if (!rc && o->flags & (O_SYNC | O_DSYNC))
        rc = promise_now(e, o, fd);
    TB_MEETING("write settled");
    return rc;
}

static ssize_t write_buffered(struct tb_target *t, const struct tb_open *o, const void *buf, size_t n, uint64_t offset)
{
    tb_layer_enter();
    TB_MEETING("write begins");
    bool warm =
        !tb_model_has_started() && tb_data_write_warm(t->engine, t->file, buf, n, offset); /* in place of dirty bytes: no end moves */
    ssize_t w = warm ? (ssize_t)n : put(t, o, buf, n, offset);
    TB_MEETING("bytes put");
    assert(w < 0 || (size_t)w <= n);
    int rc = w > 0 ? settle(t->engine, o, t->fd) : 0;
    tb_layer_leave(false);
    return rc ? rc : w;
}

/* To buffers, or past them; if the file becomes coherent in between, the rest goes past them. */
static ssize_t write_at(tb_engine *e, struct tb_open *o, int fd, const void *buf, size_t n, uint64_t offset)
{
    struct tb_target t = tb_layer_target(e, o, fd);
    size_t done = 0;
    ssize_t w;
    if (tb_layer_passes_the_end(offset, n))
        return -EINVAL;
    do {
        const char *from = (const char *)buf + done;
        int through = tb_layer_passes_through(e, o, fd);
        t.passes = false;
        w = through < 0 ? through
          : through     ? write_coherent(&t, o, from, n - done, offset + done)
                        : write_buffered(&t, o, from, n - done, offset + done);
        done += w > 0 ? (size_t)w : 0;
    } while (t.passes && (w > 0 || w == -EAGAIN) && done < n);
    return done ? (ssize_t)done : w;
}

/* A killed writer may have spilled past the end to the backing file without raising the size. */
static void look_at_backing(tb_engine *e, const struct tb_target *t)
{
    struct tb_file *f = &e->region.files[t->file];
    struct stat st;
    if (f->flags & TB_FILE_OVERFLOWN && TB_IO(t->io, fstat, t->fd, &st) == 0)
        tb_file_raise_size(f, (uint64_t)st.st_size);
}

/* Locked by the end lock. A plain write may move the end while the chunk is being locked; then start at the new end. */
static ssize_t put_at_end(tb_engine *e, struct tb_open *o, int fd, const void *buf, size_t n, bool moves)
{
    struct tb_target t = tb_layer_target(e, o, fd);
    uint64_t at;
    ssize_t w;
    look_at_backing(e, &t);
    do {
        at = e->region.files[o->file].size;
        TB_MEETING("end looked at");
        t.at_end = true;
        t.end_moved = false;
        w = put(&t, o, buf, n, at);
    } while (t.end_moved);
    if (w > 0 && moves)
        o->offset = at + (uint64_t)w;
    return w;
}

/* The kernel knows the end of a coherent file, and for write() its own offset too. `*through` 0: it is not coherent any more. */
static ssize_t append_coherent(tb_engine *e, struct tb_open *o, int fd, const void *buf, size_t n, bool moves, int *through)
{
    struct tb_target t = tb_layer_target(e, o, fd);
    *through = moves ? tb_layer_is_in_kernel(e, o, fd) : tb_layer_passes_through(e, o, fd);
    return *through <= 0 ? *through : moves ? write_in_kernel(e, o, fd, buf, n) : write_coherent(&t, o, buf, n, 0);
}

static ssize_t append_buffered(tb_engine *e, struct tb_open *o, int fd, const void *buf, size_t n, bool moves, bool *coherent)
{
    tb_layer_enter();
    int end = tb_end_lock(e, o->file, fd), rc = 0;
    *coherent = end >= 0 && tb_layer_is_coherent(e, o); /* since a moment ago */
    ssize_t w = end < 0 ? end : *coherent || !n ? 0 : put_at_end(e, o, fd, buf, n, moves);
    if (end >= 0)
        tb_end_unlock(e, end);
    assert(w < 0 || (size_t)w <= n);
    if (w > 0)
        rc = settle(e, o, fd);
    tb_layer_leave(false);
    return rc ? rc : w;
}

/* `moves`: the call is write(), which moves the offset. pwrite() on O_APPEND appends too in Linux, and leaves it. */
static ssize_t append(tb_engine *e, struct tb_open *o, int fd, const void *buf, size_t n, bool moves)
{
    for (;;) {
        bool coherent;
        int through = -1;
        ssize_t w = append_buffered(e, o, fd, buf, n, moves, &coherent);
        if (coherent)
            w = append_coherent(e, o, fd, buf, n, moves, &through);
        if (through)
            return w;
    }
}

/* pwrite on a descriptor with O_APPEND appends, as Linux does, and ignores the offset that is given. */
ssize_t tb_layer_pwrite(struct tb_io *io, int fd, const void *buf, size_t n, off_t offset)
{
    tb_engine *e = tb_layer_engine(io);
    struct tb_open *o = tb_open_of(e, fd);
    if (!o)
        return TB_IO(e->pfs, pwrite, fd, buf, n, offset);
    if (offset < 0 || !tb_layer_may_write(o->flags))
        return offset < 0 ? -EINVAL : -EBADF;
    if (o->flags & O_APPEND)
        return append(e, o, fd, buf, n, false);
    return write_at(e, o, fd, buf, n, (uint64_t)offset);
}

/*
 * The last writer at this offset was killed: move the offset past the bytes that it left,
 * as a kernel would. Otherwise the next writer, if it is killed too, could leave its bytes
 * in the middle of them. Taking the chunk's lock repairs what the killed writer left
 * there.
 */
static void pass_killed(tb_engine *e, struct tb_open *o, int fd)
{
    struct tb_target t = tb_layer_target(e, o, fd);
    const struct tb_file *f = &e->region.files[o->file];
    uint64_t from = o->offset, to = from + o->appending;
    assert(to > from);
    int chunk = tb_chunk_lock(e, o->file, f->size);
    if (chunk >= 0)
        tb_chunk_unlock(e, chunk);
    look_at_backing(e, &t);
    uint64_t size = f->size;
    o->appending = 0; /* cleared before the offset moves: if killed between, it is moved once or not at all, never twice */
    if (size > from)
        o->offset = size < to ? size : to;
}

/* Locked by the offset lock. `appending` tells the next writer how far a killed one may have come. */
static ssize_t write_shared(tb_engine *e, struct tb_open *o, int fd, const void *buf, size_t n)
{
    if (o->appending)
        pass_killed(e, o, fd);
    if (o->offset >= e->region.files[o->file].size)
        o->appending = n < UINT32_MAX ? (uint32_t)n : UINT32_MAX;
    ssize_t w = write_at(e, o, fd, buf, n, o->offset);
    if (w > 0)
        o->offset += (uint64_t)w;
    o->appending = 0;
    return w;
}

/* No other thread or process has this offset, so a killed writer takes it along: there is nothing to tell the next one. */
static ssize_t write_alone(tb_engine *e, struct tb_open *o, int fd, const void *buf, size_t n)
{
    uint64_t at = o->offset;
    ssize_t w = write_at(e, o, fd, buf, n, at);
    if (w > 0)
        tb_offset_move(o, at + (uint64_t)w);
    return w;
}

ssize_t tb_layer_write(struct tb_io *io, int fd, const void *buf, size_t n)
{
    tb_engine *e = tb_layer_engine(io);
    struct tb_open *o = tb_open_of(e, fd);
    if (!o)
        return TB_IO(e->pfs, write, fd, buf, n);
    if (!tb_layer_may_write(o->flags))
        return -EBADF;
    int in_kernel = tb_layer_is_in_kernel(e, o, fd);
    if (in_kernel)
        return in_kernel < 0 ? in_kernel : write_in_kernel(e, o, fd, buf, n);
    int stripe = tb_offset_lock(e, o);
    if (stripe < 0)
        return stripe;
    ssize_t w = o->flags & O_APPEND        ? append(e, o, fd, buf, n, true)
              : stripe == TB_OFFSET_IS_OWN ? write_alone(e, o, fd, buf, n)
                                           : write_shared(e, o, fd, buf, n);
    tb_offset_unlock(e, stripe);
    return w;
}
