#include "promise.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

#include "file.h"
#include "filemap.h"
#include "flush.h"
#include "heat.h"
#include "interval.h"
#include "journal.h"
#include "medium.h"
#include "move.h"
#include "slab.h"
#include "target.h"

static bool is_persistent(const tb_engine *e, const struct tb_buffer *b)
{
    return !tb_tier_is_memory(e, tb_slab_layout(e, b)->tier);
}

/* A directory buffer of the same size, so that the cell stays what it is. */
static struct tb_buffer *take_persistent(tb_engine *e, const struct tb_buffer *like)
{
    const struct tb_layout *l = &e->header->layout;
    for (uint32_t s = 0; s < l->n_slabs; s++) {
        struct tb_buffer *b = NULL;
        if (l->slab[s].class_index == l->slab[like->slab].class_index && !tb_tier_is_memory(e, l->slab[s].tier))
            b = tb_slab_take(e, s, TB_HEAT_ANY);
        if (b)
            return b;
    }
    return NULL;
}

static int copy_bytes(tb_engine *e, struct tb_buffer *to, const struct tb_buffer *from)
{
    uint32_t lo = from->valid_lo, a, z;
    int rc = 0;
    char *bytes = tb_scratch_bytes(tb_buffer_size(e, from));
    if (!bytes)
        return -ENOMEM;
    while (!rc && tb_interval_valid(e, from, lo, from->valid_hi, &a, &z)) {
        rc = tb_medium_read(e, from, a, z - a, bytes);
        if (!rc)
            rc = tb_medium_write(e, to, a, z - a, bytes);
        lo = z;
    }
    return rc;
}

/*
 * Move a buffer of a memory tier down to a directory tier; -ENOSPC: none has room for it.
 * Under the lock, unlike the organizer's moves: no write may come before the record.
 */
static int move_down(tb_engine *e, int stripe, struct tb_buffer **b)
{
    struct tb_buffer *from = *b, *to = take_persistent(e, from);
    if (!to)
        return -ENOSPC;
    int rc = tb_interval_copy(e, to, from);
    if (!rc)
        rc = copy_bytes(e, to, from);
    if (rc) {
        tb_interval_empty(e, to);
        tb_slab_give(e, to);
        return rc;
    }
    to->cell = from->cell;
    to->heat = from->heat;
    to->flags = from->flags & TB_BUFFER_KEEP;
    tb_move_publish(e, stripe, &(uint32_t){tb_buffer_number(e, from)}, 1, &(uint32_t){tb_buffer_number(e, to)}, 1);
    e->header->tier[tb_slab_layout(e, to)->tier].moved_in += tb_buffer_size(e, to);
    *b = to;
    return 0;
}

/*
 * The checksum of what a record stands on.  Read back beside the model: it is
 * the engine's own proof, served by the page cache, not a transfer of the device.
 */
static int data_checksum(tb_engine *e, const struct tb_buffer *b, uint32_t lo, uint32_t hi, uint64_t *out)
{
    char *bytes = tb_scratch_bytes(hi - lo);
    if (!bytes)
        return -ENOMEM;
    ssize_t r = tb_io_read_all(e->base, e->slab_fd[b->slab], bytes, hi - lo, tb_medium_offset(e, b, lo));
    if (r != (ssize_t)(hi - lo))
        return r < 0 ? (int)r : -EIO;
    *out = tb_checksum(bytes, hi - lo);
    return 0;
}

struct journaled {
    uint32_t buffer, version;
    uint64_t cell, start;
};

struct keep {
    tb_engine *e;
    uint32_t file;
    bool slab_touched[TB_MAX_TIERS * TB_MAX_SLABS];
    bool moved; /* a buffer of the list is elsewhere by now */
};

static int write_records(struct keep *k, int stripe, struct tb_buffer **b)
{
    tb_engine *e = k->e;
    uint32_t a, z;
    int rc = is_persistent(e, *b) ? 0 : move_down(e, stripe, b);
    uint32_t lo = (*b)->dirty_lo;
    e->header->n_journaled++; /* before the records, which the journal's end stays behind from here on */
    while (!rc && tb_interval_dirty(e, *b, lo, (*b)->dirty_hi, &a, &z)) {
        uint64_t sum = 0;
        rc = data_checksum(e, *b, a, z, &sum);
        if (!rc)
            rc = tb_journal_write(e, k->file, *b, a, z, sum);
        lo = z;
    }
    if (rc) {
        e->header->n_journaled--;
        return rc;
    }
    (*b)->flags = ((*b)->flags | TB_BUFFER_JOURNALED) & ~TB_BUFFER_DURABLE;
    return 0;
}

/*
 * Records for every dirty interval of one buffer; it counts as journaled from
 * here on so that it stays in place.  Records that another caller wrote and has
 * not synced yet are synced by this one too.
 */
static int record_buffer(struct keep *k, const struct tb_buffer_ref *ref, struct journaled *out)
{
    tb_engine *e = k->e;
    struct tb_buffer *b = &e->region.buffers[ref->buffer];
    int rc = 0, stripe = tb_chunk_lock(e, k->file, ref->start);
    out->buffer = TB_NONE;
    if (stripe < 0)
        return stripe;
    if (!tb_buffer_is_at(b, k->file, ref->cell))
        k->moved = true;
    else if (tb_buffer_is_dirty(b) && !(b->flags & TB_BUFFER_DURABLE)) {
        if (!(b->flags & TB_BUFFER_JOURNALED))
            rc = write_records(k, stripe, &b);
        if (!rc) {
            k->slab_touched[b->slab] = true;
            *out = (struct journaled){tb_buffer_number(e, b), b->version, ref->cell, ref->start};
        }
    }
    tb_chunk_unlock(e, stripe);
    return rc;
}

/* The newer record stands: what the older one stood on is free. */
static void note_durable(struct keep *k, const struct journaled *j)
{
    tb_engine *e = k->e;
    struct tb_buffer *b = &e->region.buffers[j->buffer];
    int stripe = tb_chunk_lock(e, k->file, j->start);
    if (stripe < 0)
        return;
    if (tb_buffer_is_at(b, k->file, j->cell) && b->version == j->version && b->flags & TB_BUFFER_JOURNALED) {
        tb_buffer_release_prev(e, b);
        b->flags |= TB_BUFFER_DURABLE;
    }
    tb_chunk_unlock(e, stripe);
}

static int sync_slabs(tb_engine *e, const bool *touched)
{
    int rc = 0;
    for (uint32_t s = 0; s < e->header->layout.n_slabs && !rc; s++)
        if (touched[s]) {
            struct tb_io *io = e->tier[e->header->layout.slab[s].tier];
            rc = io->ops->fsync(io, e->slab_fd[s], true);
        }
    return rc;
}

/*
 * Bytes, slab sync, record, journal sync: records are appended before the slabs
 * are synced, which is as good because nobody is told before both syncs are done
 * and a record whose bytes are not there fails its checksum.
 */
static int keep_buffers(struct keep *k)
{
    tb_engine *e = k->e;
    uint32_t n, n_done = 0;
    struct tb_buffer_ref *refs = tb_file_buffers(e, k->file, true, &n);
    struct journaled *done = n ? malloc(n * sizeof(*done)) : NULL;
    int rc = n && !done ? -ENOMEM : 0;
    for (uint32_t i = 0; i < n && !rc; i++) {
        rc = record_buffer(k, &refs[i], &done[n_done]);
        n_done += done[n_done].buffer != TB_NONE;
    }
    if (!rc)
        rc = sync_slabs(e, k->slab_touched);
    if (!rc && n_done)
        rc = tb_journal_sync(e);
    for (uint32_t i = 0; i < n_done && !rc; i++)
        note_durable(k, &done[i]);
    free(done);
    free(refs);
    return rc;
}

/* Until every buffer of the list was met where it was: one that moved meanwhile took its dirty bytes along. */
static int keep_in_tier(struct tb_target *t)
{
    struct keep k;
    int rc;
    do {
        k = (struct keep){.e = t->engine, .file = t->file};
        rc = keep_buffers(&k);
    } while (!rc && k.moved);
    return rc;
}

static int keep_on_pfs(struct tb_target *t)
{
    struct tb_flush_result r = tb_flush_file(t->engine, t->file, t->can_write ? t->fd : -1, true);
    return r.error;
}

int tb_promise_keep(struct tb_target *t)
{
    tb_engine *e = t->engine;
    struct tb_file *f = &e->region.files[t->file];
    e->header->fsyncs++;
    if (f->flags & TB_FILE_SCRATCH)
        return 0;
    if (f->flags & TB_FILE_COHERENT || tb_config_of(e)->fsync != TB_FSYNC_TIER || e->journal_fd < 0)
        return keep_on_pfs(t);
    int rc = keep_in_tier(t);
    if (rc)
        rc = keep_on_pfs(t); /* a full or failing tier: the stronger promise */
    else if (e->header->spilled && t->fd >= 0)
        rc = t->io->ops->fsync(t->io, t->fd, true); /* what was spilled is synced where it is */
    return rc;
}
