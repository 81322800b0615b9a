#include "flush.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "data.h"
#include "file.h"
#include "filemap.h"
#include "interval.h"
#include "journal.h"
#include "medium.h"
#include "step.h"
#include "target.h"

#define RUN_BYTES (1u << 20) /* adjacent dirty bytes are written in pieces of at most this, or one buffer */

/* What one buffer contributed: it is clean after the write (and sync) if nothing moved its version. */
struct flushed {
    uint32_t buffer, version;
    uint64_t cell, start;
};

struct run {
    tb_engine *e;
    struct tb_io *io;
    uint32_t file;
    int fd;
    char *bytes;
    size_t room, n;
    uint64_t offset; /* of the file */
    uint64_t written;
    bool moved; /* a buffer of the list is elsewhere by now */
};

struct some { /* buffers of one tier, about so many bytes */
    uint32_t tier;
    uint64_t bytes;
};

static int write_run(struct run *r)
{
    struct tb_file *f = &r->e->region.files[r->file];
    if (r->n && !(f->flags & TB_FILE_UNSYNCED))
        f->flags |= TB_FILE_UNSYNCED;
    TB_STEP("flush write");
    int rc = r->n ? tb_io_write_all(r->io, r->fd, r->bytes, r->n, r->offset) : 0;
    if (!rc) {
        r->written += r->n;
        r->e->header->pfs_written += r->n;
    }
    r->n = 0;
    return rc;
}

/* Copy bytes [a, z) of a buffer behind the run, which is written out first where they don't follow or don't fit. */
static int add_to_run(struct run *r, const struct tb_buffer *b, uint32_t a, uint32_t z, int *medium_error)
{
    uint64_t offset = tb_buffer_start(r->e, b) + a;
    if (r->n && (r->offset + r->n != offset || r->n + (z - a) > r->room))
        return -EAGAIN;
    if (!r->n)
        r->offset = offset;
    *medium_error = tb_medium_read(r->e, b, a, z - a, r->bytes + r->n);
    if (!*medium_error)
        r->n += z - a;
    return 0;
}

/* The file may have been cut since: bytes behind its end are not written. */
static uint32_t end_of(const tb_engine *e, const struct tb_buffer *b, uint64_t size)
{
    uint64_t start = tb_buffer_start(e, b);
    return size <= start ? 0 : size - start < b->dirty_hi ? (uint32_t)(size - start) : b->dirty_hi;
}

/*
 * Copy a buffer's dirty bytes from `*at` on into the run.  -EAGAIN: the run must
 * be written first, `*at` says where to go on.  `out` keeps the version of the
 * first call: what is written between two calls may lie before `*at`.
 */
static int gather(struct run *r, const struct tb_buffer_ref *ref, uint32_t *at, struct flushed *out, bool *needs_sync)
{
    tb_engine *e = r->e;
    struct tb_buffer *b = &e->region.buffers[ref->buffer];
    uint32_t a, z;
    int rc = 0, medium_error = 0;
    int stripe = tb_chunk_lock(e, r->file, ref->start);
    if (stripe < 0)
        return stripe;
    bool first = *at == 0;
    if (!tb_buffer_is_at(b, r->file, ref->cell)) {
        out->buffer = TB_NONE;
        r->moved = true;
    } else {
        uint32_t end = end_of(e, b, e->region.files[r->file].size);
        while (!rc && !medium_error && tb_interval_dirty(e, b, *at, end, &a, &z)) {
            rc = add_to_run(r, b, a, z, &medium_error);
            if (!rc)
                *at = z;
        }
        if (first)
            *out = (struct flushed){ref->buffer, b->version, ref->cell, ref->start};
        *needs_sync = *needs_sync || b->flags & TB_BUFFER_JOURNALED || b->prev != TB_NONE;
    }
    tb_chunk_unlock(e, stripe);
    return medium_error ? medium_error : rc;
}

static void set_clean(tb_engine *e, uint32_t file, const struct flushed *d, bool *dropped_journaled)
{
    struct tb_buffer *b = &e->region.buffers[d->buffer];
    int stripe = tb_chunk_lock(e, file, d->start);
    if (stripe < 0)
        return;
    if (tb_buffer_is_at(b, file, d->cell) && b->version == d->version) {
        if (b->flags & TB_BUFFER_JOURNALED || b->prev != TB_NONE)
            *dropped_journaled = true;
        TB_STEP("set clean");
        tb_map_forget_record(e, b);
        TB_STEP("record forgotten");
        tb_buffer_release_prev(e, b);
        tb_counters(e, b)->flushed += tb_interval_dirty_bytes(e, b);
        TB_STEP("flushed");
        tb_interval_clean(e, b);
        TB_STEP("clean");
        tb_map_count_dirty(e, b);
    }
    tb_chunk_unlock(e, stripe);
}

/*
 * Under the chunk's lock: a newer record of the same bytes comes behind the drop, or before it and moved the version.
 * Interval by interval: what is not the buffer's may be a smaller buffer's, with a record of its own.
 */
static int void_record(tb_engine *e, uint32_t file, const struct flushed *d)
{
    const struct tb_buffer *b = &e->region.buffers[d->buffer];
    int rc = 0, stripe = tb_chunk_lock(e, file, d->start);
    if (stripe < 0)
        return stripe;
    if (tb_buffer_is_at(b, file, d->cell) && b->version == d->version && (b->flags & TB_BUFFER_JOURNALED || b->prev != TB_NONE))
        for (uint32_t lo = b->dirty_lo, a, z; !rc && tb_interval_dirty(e, b, lo, b->dirty_hi, &a, &z); lo = z)
            rc = tb_journal_drop(e, file, d->start + a, z - a);
    tb_chunk_unlock(e, stripe);
    return rc;
}

/* Records that stand on what is now on the PFS are void before a slot of theirs is used again. */
static int void_records(tb_engine *e, uint32_t file, const struct flushed *done, uint32_t n)
{
    int rc = 0;
    for (uint32_t i = 0; i < n && !rc; i++)
        rc = void_record(e, file, &done[i]);
    TB_STEP("dropped records");
    return rc ? rc : tb_journal_sync(e);
}

/* Whoever writes meanwhile sets the flag again. */
static int sync_backing(struct run *r)
{
    struct tb_file *f = &r->e->region.files[r->file];
    f->flags &= ~(uint32_t)TB_FILE_UNSYNCED;
    TB_STEP("flush sync");
    int rc = r->io->ops->fsync(r->io, r->fd, true);
    if (rc)
        f->flags |= TB_FILE_UNSYNCED;
    TB_STEP("flush synced");
    return rc;
}

static void note_backing(tb_engine *e, uint32_t file, int fd)
{
    struct tb_file *f = &e->region.files[file];
    struct tb_identity id;
    if (tb_identity_of_fd(fd, &id))
        return;
    int stripe = tb_file_lock(e, file);
    f->backing_size = id.size;
    f->backing_mtime_ns = id.mtime_ns;
    f->backing_ctime_ns = id.ctime_ns;
    tb_file_unlock(e, stripe);
}

static int flush_refs(struct run *r, const struct tb_buffer_ref *refs, uint32_t n, bool sync)
{
    struct flushed *done = malloc(n * sizeof(*done));
    uint32_t n_done = 0;
    bool needs_sync = sync, journaled = false, dropped = false;
    int rc = done ? 0 : -ENOMEM;
    for (uint32_t i = 0; i < n && !rc; i++) {
        uint32_t at = 0;
        while ((rc = gather(r, &refs[i], &at, &done[n_done], &journaled)) == -EAGAIN)
            if ((rc = write_run(r)))
                break;
        if (!rc && done[n_done].buffer != TB_NONE)
            n_done++;
    }
    if (!rc)
        rc = write_run(r);
    if (!rc && (needs_sync || journaled))
        rc = sync_backing(r);
    if (!rc && journaled)
        rc = void_records(r->e, r->file, done, n_done);
    for (uint32_t i = 0; i < n_done && !rc; i++)
        set_clean(r->e, r->file, &done[i], &dropped);
    if (dropped)
        tb_journal_trim(r->e);
    free(done);
    return rc;
}

/* Keep the first references to buffers of a tier: enough for `bytes`, and for a part of all that pays for the look. */
static uint32_t keep_some(const tb_engine *e, struct tb_buffer_ref *refs, uint32_t n, const struct some *some)
{
    uint32_t kept = 0, least = n / 16;
    uint64_t size = 0;
    for (uint32_t i = 0; i < n && (size < some->bytes || kept < least); i++) {
        const struct tb_buffer *b = &e->region.buffers[refs[i].buffer];
        if (tb_slab_layout(e, b)->tier == some->tier) {
            refs[kept++] = refs[i];
            size += tb_buffer_size(e, b);
        }
    }
    return kept;
}

/* Until every buffer of the list was met where it was: one that moved meanwhile took its dirty bytes along. */
static int flush_all(struct run *r, bool sync, const struct some *some)
{
    uint32_t n;
    int rc;
    do {
        struct tb_buffer_ref *refs = tb_file_buffers(r->e, r->file, TB_BUFFERS_DIRTY, &n);
        n = some && refs ? keep_some(r->e, refs, n, some) : n;
        r->moved = false;
        rc = n && !refs ? -ENOMEM : n || sync ? flush_refs(r, refs, n, sync) : 0;
        free(refs);
    } while (!rc && r->moved && !some);
    return rc;
}

/* All dirty bytes, or `some`. */
static struct tb_flush_result flush(tb_engine *e, uint32_t file, int fd, bool sync, const struct some *some)
{
    struct tb_file *f = &e->region.files[file];
    struct tb_flush_result result = {0, 0};
    uint64_t largest = e->header->layout.class_size[e->header->layout.n_classes - 1];
    struct run r = {.e = e, .io = tb_file_io(e, file), .file = file, .fd = fd,
                    .room = largest > RUN_BYTES ? (size_t)largest : RUN_BYTES};
    if ((!f->n_dirty && !sync) || (fd < 0 && f->flags & TB_FILE_UNLINKED)) /* nothing to do, or nobody to do it for */
        return result;
    bool own = r.fd < 0;
    if (own)
        r.fd = tb_target_open(e, file, O_WRONLY);
    result.error = r.fd < 0 ? r.fd : 0;
    if (!result.error && !(r.bytes = malloc(r.room)))
        result.error = -ENOMEM;
    if (!result.error)
        result.error = flush_all(&r, sync, some);
    result.bytes = r.written;
    if (r.fd >= 0)
        note_backing(e, file, r.fd);
    if (own && r.fd >= 0) {
        int closed = r.io->ops->close(r.io, r.fd);
        result.error = result.error ? result.error : closed;
    }
    if (result.error == -ENOENT || result.error == -ESTALE)
        f->flags |= TB_FILE_TIED;
    if (result.error)
        f->error = result.error;
    free(r.bytes);
    return result;
}

struct tb_flush_result tb_flush_claimed(tb_engine *e, uint32_t file, int fd, bool sync)
{
    return flush(e, file, fd, sync, NULL);
}

void tb_flush_some(tb_engine *e, uint32_t file, int fd, uint32_t tier, uint64_t bytes)
{
    if (!tb_file_try_claim(e, file))
        return;
    flush(e, file, fd, false, &(struct some){tier, bytes > RUN_BYTES ? bytes : RUN_BYTES});
    tb_file_unclaim(e, file);
}

struct tb_flush_result tb_flush_file(tb_engine *e, uint32_t file, int fd, bool sync)
{
    if (!tb_file_claim(e, file)) /* flushed and gone */
        return (struct tb_flush_result){0, 0};
    struct tb_flush_result result = tb_flush_claimed(e, file, fd, sync);
    tb_file_unclaim(e, file);
    return result;
}

int tb_file_take_error(tb_engine *e, uint32_t file)
{
    return atomic_exchange(&e->region.files[file].error, 0);
}

/* A claimed one is being flushed, and out of the queue. */
static void repair_queue(tb_engine *e)
{
    struct tb_header *h = e->header;
    h->queue_head = h->queue_tail = TB_NONE;
    for (uint32_t i = 0; i < e->region.n_file_buckets; i++) {
        struct tb_file *f = &e->region.files[i];
        if (f->magic != TB_FILE_MAGIC || !(f->flags & TB_FILE_QUEUED) || f->flusher)
            continue;
        f->queue_next = h->queue_head;
        h->queue_head = i;
        if (h->queue_tail == TB_NONE)
            h->queue_tail = i;
    }
}

static void lock_queue(tb_engine *e)
{
    if (tb_lock_take(&e->header->queue_lock) == TB_LOCK_ORPHANED)
        repair_queue(e);
}

void tb_flush_requeue(tb_engine *e)
{
    lock_queue(e);
    repair_queue(e);
    tb_lock_drop(&e->header->queue_lock);
}

void tb_flush_queue(tb_engine *e, uint32_t file)
{
    struct tb_header *h = e->header;
    struct tb_file *f = &e->region.files[file];
    int stripe = tb_file_lock(e, file);
    lock_queue(e);
    bool to_queue = f->magic == TB_FILE_MAGIC && !(f->flags & TB_FILE_QUEUED);
    if (to_queue) {
        f->queue_next = TB_NONE;
        f->flags |= TB_FILE_QUEUED;
        TB_STEP("queue flag");
        if (h->queue_tail == TB_NONE)
            h->queue_head = file;
        else
            e->region.files[h->queue_tail].queue_next = file;
        TB_STEP("queue link");
        h->queue_tail = file;
    }
    tb_lock_drop(&h->queue_lock);
    tb_file_unlock(e, stripe);
    if (!to_queue)
        return;
    h->queue_event++;
    syscall(SYS_futex, &h->queue_event, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

uint32_t tb_flush_dequeue(tb_engine *e)
{
    struct tb_header *h = e->header;
    lock_queue(e);
    uint32_t file = h->queue_head;
    if (file != TB_NONE) {
        h->queue_head = e->region.files[file].queue_next;
        TB_STEP("dequeue");
        if (h->queue_head == TB_NONE)
            h->queue_tail = TB_NONE;
        e->region.files[file].queue_next = TB_NONE;
    }
    tb_lock_drop(&h->queue_lock);
    return file;
}
