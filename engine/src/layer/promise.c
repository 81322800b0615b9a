/*
 * fsync: make true for one file what the configuration promises (layer/promise.h). For
 * `fsync: tier` the order is: bytes into a directory tier, sync of the slab, journal
 * records, sync of the journal. A few bytes in memory stay there and go into the journal
 * with their records, which costs one sync instead of two. So do a few bytes of a large buffer that
 * were written since its last records: these go on to count for the others. Whatever fails on the way, the
 * promise is kept on the PFS instead; after a failed sync of a slab, those of all its
 * buffers are.
 */
#include "layer/promise.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

#include "base/kill_point.h"
#include "base/scratch.h"
#include "buffer/interval.h"
#include "buffer/map.h"
#include "buffer/medium.h"
#include "buffer/of_file.h"
#include "buffer/swap.h"
#include "buffer/unrecorded.h"
#include "file/claim.h"
#include "file/file.h"
#include "file/state.h"
#include "flush/backing.h"
#include "flush/flush.h"
#include "flush/program.h"
#include "io/whole.h"
#include "journal/commit.h"
#include "journal/journal.h"
#include "layer/repair.h"
#include "tiering/move.h"

static bool is_persistent(const tb_engine *e, const struct tb_buffer *b)
{
    return tb_tier_is_directory(e, tb_slab_layout(e, b)->tier);
}

/* A sync of its slab has failed, perhaps after these bytes were written: a later one proves nothing (journal/commit.c). */
static bool is_doubtful(const tb_engine *e, const struct tb_buffer *b)
{
    return e->header->journal.slab_failed[b->slab];
}

static uint64_t valid_bytes(const tb_engine *e, const struct tb_buffer *b)
{
    uint64_t n = 0;
    for (uint32_t lo = b->valid_lo, from, to; tb_interval_valid(e, b, lo, b->valid_hi, &from, &to); lo = to)
        n += to - from;
    return n;
}

/*
 * Move a buffer of a memory or remote tier to a directory tier, or -ENOBUFS. Locked by the
 * chunk all the while, unlike the organizer's moves: no write may come before the record.
 */
static int move_down(tb_engine *e, int stripe, struct tb_buffer **b)
{
    struct tb_buffer *from = *b;
    int rc = tb_buffer_copy(e, from, true, b);
    if (rc)
        return rc;
    TB_STEP("move down");
    tb_move_publish(e, stripe, &(uint32_t){tb_buffer_number(e, from)}, 1, &(uint32_t){tb_buffer_number(e, *b)}, 1);
    tb_counters(e, from)->moved_to[tb_slab_layout(e, *b)->tier] += valid_bytes(e, *b);
    return 0;
}

/*
 * The checksum of the bytes that a record refers to. It is read without the device model:
 * the engine proves its own work from the page cache, and the modelled device transfers
 * nothing.
 */
static int data_checksum(tb_engine *e, const struct tb_buffer *b, uint32_t lo, uint32_t hi, uint64_t *out)
{
    assert(is_persistent(e, b) && lo < hi);
    char *bytes = tb_scratch_bytes(hi - lo);
    if (!bytes)
        return -ENOMEM;
    ssize_t r = tb_io_read_all(e->base, e->slab_fd[b->slab], bytes, hi - lo, tb_medium_offset(e, b, lo));
    if (r != (ssize_t)(hi - lo))
        return r < 0 ? (int)r : -EIO;
    *out = tb_checksum(bytes, hi - lo);
    return 0;
}

/*
 * What this fsync recorded. If the version has not changed at the end, the bytes are
 * durable and older copies are freed.
 */
struct journaled {
    uint32_t buffer, version;
    uint64_t cell, start;
    uint32_t lo, hi; /* the bytes that `sum` covers; none if they are several intervals */
    uint64_t sum;
    uint32_t ref;      /* index in keep.refs */
    bool is_part;      /* its record is written, of the bytes that no record had, and the buffer may go on to change */
    uint32_t n_voided; /* of the chunk, when it was reserved */
};

/*
 * So few buffers of a file, and none larger, have their bytes in the journal: until they are
 * flushed they stay in memory, and the first write after an fsync copies the whole buffer.
 */
#define BYTES_BUFFERS 16u
#define BYTES_BUFFER_SIZE 65536u

#define PASSES 8 /* after so many the promise is kept on the PFS: the claim of the flush keeps other writers out */

struct keep {
    tb_engine *e;
    uint32_t file;
    uint32_t n_cuts; /* of the file, before its buffers were looked at */
    struct tb_buffer_ref *refs;
    bool *missed; /* for each: it was not found where it was listed */
    struct journaled *done;
    uint32_t n, n_done;
    bool in_slabs; /* some of what was reserved is */
};

/* Of a buffer in this node's memory that no record refers to. From then on its medium says which kind of record it gets. */
static bool goes_into_journal(const struct keep *k, const struct tb_buffer *b)
{
    return k->n <= BYTES_BUFFERS && !tb_buffer_is_remote(k->e, b) && tb_buffer_size(k->e, b) <= BYTES_BUFFER_SIZE &&
           tb_interval_dirty_bytes(k->e, b) <= TB_RECORD_BYTES_MAX && tb_journal_takes_bytes(k->e);
}

/*
 * From here on the bytes stay as they are: a write goes on in a copy. n_journaled is
 * raised first, so that no process empties the journal. If killed between, the count is
 * too high until repair counts again.
 */
static int reserve(const struct keep *k, int stripe, struct tb_buffer **b)
{
    tb_engine *e = k->e;
    int rc = is_persistent(e, *b) || goes_into_journal(k, *b) ? 0 : move_down(e, stripe, b);
    if (rc)
        return rc;
    assert(!((*b)->flags & TB_BUFFER_JOURNALED) && tb_buffer_is_dirty(*b));
    e->header->journal.n_journaled++;
    TB_STEP("count journaled");
    tb_map_flag(e, *b, TB_BUFFER_JOURNALED, TB_BUFFER_RECORDED | TB_BUFFER_DURABLE);
    return 0;
}

/* The checksum is made before the slab is synced, while the device still works. The bytes can no longer change. */
static int note_reserved(tb_engine *e, struct tb_buffer *b, const struct tb_buffer_ref *ref, struct journaled *out)
{
    *out = (struct journaled){.buffer = tb_buffer_number(e, b), .version = tb_buffer_see(b), .cell = ref->cell, .start = ref->start};
    if (b->fragment != TB_NONE || b->flags & TB_BUFFER_RECORDED || !is_persistent(e, b))
        return 0;
    out->lo = b->dirty_lo;
    out->hi = b->dirty_hi;
    return data_checksum(e, b, out->lo, out->hi, &out->sum);
}

/*
 * In this node's memory, of a buffer that knows what was written since its durable records. The predecessor keeps these for
 * the rest of the bytes, so nothing is copied, and no slab is synced.
 */
static bool is_part_enough(const tb_engine *e, const struct tb_buffer *b)
{
    uint32_t lo, hi;
    if (e->region.file_nodes || b->flags & TB_BUFFER_JOURNALED || !tb_tier_is_memory(e, tb_slab_layout(e, b)->tier) ||
        !tb_unrecorded_is_known(e, b))
        return false;
    return !tb_unrecorded_bytes(e, b, &lo, &hi) || (hi - lo <= TB_RECORD_BYTES_MAX && tb_journal_takes_bytes(e));
}

/*
 * Locked by the chunk from the look to the last record, so that records of the same bytes follow each other as the
 * bytes did. The version moves: a flush that made the older records void meanwhile must not take these for void, too.
 */
static int record_part(struct keep *k, struct tb_buffer *b, const struct tb_buffer_ref *ref, uint32_t i)
{
    tb_engine *e = k->e;
    uint32_t lo, hi, a, z;
    int rc = 0;
    if (!tb_unrecorded_bytes(e, b, &lo, &hi))
        return 0;
    for (; !rc && tb_interval_dirty(e, b, lo, hi, &a, &z); lo = z)
        rc = tb_journal_write_bytes(e, k->file, b, a, z);
    b->version++;
    TB_STEP("part recorded");
    k->done[k->n_done++] = (struct journaled){
        .buffer = tb_buffer_number(e, b), .version = tb_buffer_see(b), .cell = ref->cell, .start = ref->start, .is_part = true, .ref = i};
    return rc;
}

/*
 * No directory tier has a buffer of this one's size to give. The bytes go on in buffers of
 * another size, which the next pass lists, also if a write came in between.
 */
static int move_elsewhere(struct keep *k, uint32_t i)
{
    int rc = tb_move_for_promise(k->e, k->file, &k->refs[i]);
    TB_STEP("moved elsewhere");
    k->missed[i] = rc == 0 || rc == -EAGAIN;
    return k->missed[i] ? 0 : rc;
}

/* Locked by the chunk. */
static int reserve_dirty(struct keep *k, int stripe, struct tb_buffer *b, uint32_t i)
{
    tb_engine *e = k->e;
    int rc = b->flags & TB_BUFFER_JOURNALED ? 0 : reserve(k, stripe, &b);
    if (!rc && is_doubtful(e, b))
        rc = -EIO;
    if (rc)
        return rc;
    if (is_persistent(e, b)) {
        k->in_slabs = true;
        e->header->journal.slab_unsynced[b->slab] = true;
    }
    assert(k->n_done < k->n && b->flags & TB_BUFFER_JOURNALED);
    rc = note_reserved(e, b, &k->refs[i], &k->done[k->n_done]);
    k->done[k->n_done].n_voided = e->region.locks->chunk[stripe].n_voided;
    k->done[k->n_done++].ref = i;
    return rc;
}

/* Locked by the chunk. Also takes buffers that another fsync reserved and has not made durable yet. */
static int reserve_buffer(struct keep *k, uint32_t i)
{
    tb_engine *e = k->e;
    const struct tb_buffer_ref *ref = &k->refs[i];
    struct tb_buffer *b = &e->region.buffers[ref->buffer];
    if (tb_unrecorded_are_none(e, b, k->file, ref->cell))
        return 0;
    int rc = 0, stripe = tb_chunk_lock(e, k->file, ref->start);
    if (stripe < 0)
        return stripe;
    if (!tb_buffer_is_at(b, k->file, ref->cell))
        k->missed[i] = true;
    else if (tb_buffer_is_dirty(b) && !(b->flags & TB_BUFFER_DURABLE))
        rc = is_part_enough(e, b) && !goes_into_journal(k, b) ? record_part(k, b, ref, i) : reserve_dirty(k, stripe, b, i);
    tb_chunk_unlock(e, stripe);
    return rc == -ENOBUFS ? move_elsewhere(k, i) : rc;
}

static int append_record(tb_engine *e, uint32_t file, const struct tb_buffer *b, const struct journaled *j, uint32_t lo, uint32_t hi)
{
    uint64_t sum = j->sum;
    int rc = lo == j->lo && hi == j->hi ? 0 : data_checksum(e, b, lo, hi, &sum);
    return rc ? rc : tb_journal_write(e, file, b, lo, hi, sum);
}

/* One record for each dirty interval. */
static int append_records(tb_engine *e, uint32_t file, struct tb_buffer *b, const struct journaled *j)
{
    uint32_t lo = b->dirty_lo, a, z;
    int rc = 0;
    assert(b->flags & TB_BUFFER_JOURNALED && b->version == j->version);
    while (!rc && tb_interval_dirty(e, b, lo, b->dirty_hi, &a, &z)) {
        rc = is_persistent(e, b) ? append_record(e, file, b, j, a, z) : tb_journal_write_bytes(e, file, b, a, z);
        lo = z;
    }
    TB_STEP("recorded");
    if (!rc)
        b->flags |= TB_BUFFER_RECORDED;
    return rc;
}

/*
 * A write replaced the buffer, and the newer one is recorded already. A record of the
 * older bytes would come later in the journal, and win.
 */
static bool is_superseded(tb_engine *e, uint32_t file, const struct tb_buffer *b)
{
    const struct tb_buffer *newer = tb_map_find(e, file, tb_slab_layout(e, b)->class_index, b->cell);
    while (newer && newer != b && !(newer->flags & TB_BUFFER_RECORDED))
        newer = newer->prev == TB_NONE ? NULL : &e->region.buffers[newer->prev];
    return newer && newer != b;
}

/*
 * A cut changes only the live copy, not the buffer that it replaced, and a flush takes
 * only the live copy. So a replaced buffer must not be recorded after their DROP.
 */
static bool is_dropped(const struct keep *k, const struct tb_buffer *b, const struct journaled *j, int stripe)
{
    return b->state == TB_BUFFER_RETAINED &&
           (k->e->region.files[k->file].n_cuts != k->n_cuts || k->e->region.locks->chunk[stripe].n_voided != j->n_voided);
}

/*
 * A write may have replaced the buffer since; then it is retained and still holds the
 * bytes. If it was flushed or cut, the next pass looks for what is left.
 */
static int record_buffer(struct keep *k, const struct journaled *j)
{
    tb_engine *e = k->e;
    struct tb_buffer *b = &e->region.buffers[j->buffer];
    int rc = 0, stripe = tb_chunk_lock(e, k->file, j->start);
    if (stripe < 0)
        return stripe;
    bool there = (b->state == TB_BUFFER_LIVE || b->state == TB_BUFFER_RETAINED) && b->file == k->file && b->cell == j->cell;
    if (j->is_part)
        ; /* it was recorded when it was looked at */
    else if (!there || b->version != j->version || is_dropped(k, b, j, stripe))
        k->missed[j->ref] = true;
    else if (is_doubtful(e, b))
        rc = -EIO; /* since it was reserved; the sync that counted may have been one that told nothing */
    else if (b->flags & TB_BUFFER_JOURNALED && !(b->flags & TB_BUFFER_RECORDED) && !is_superseded(e, k->file, b))
        rc = append_records(e, k->file, b, j);
    tb_chunk_unlock(e, stripe);
    return rc;
}

/* The new record is durable: the older copies that earlier records referred to are freed. */
static void note_durable(struct keep *k, const struct journaled *j)
{
    tb_engine *e = k->e;
    struct tb_buffer *b = &e->region.buffers[j->buffer];
    int stripe = tb_chunk_lock(e, k->file, j->start);
    if (stripe < 0)
        return;
    TB_STEP("note durable");
    bool same = tb_buffer_is_at(b, k->file, j->cell) && b->version == j->version;
    if (same && j->is_part && tb_unrecorded_is_known(e, b))
        tb_unrecorded_forget(e, b);
    if (same && !j->is_part && b->flags & TB_BUFFER_JOURNALED) {
        tb_buffer_release_prev(e, b);
        tb_map_flag(e, b, TB_BUFFER_DURABLE, 0);
    }
    tb_chunk_unlock(e, stripe);
}

/*
 * Bytes, slab sync, records, journal sync, in this order; where no bytes are in slabs, records
 * and journal sync. The bytes of a sound record were synced before the record was written, or
 * are part of it, so replay may take a wrong byte for damage. If killed or crashed anywhere
 * before the last sync, the promise was not given yet.
 */
static int keep_listed(struct keep *k)
{
    int rc = 0;
    for (uint32_t i = 0; i < k->n && !rc; i++)
        rc = reserve_buffer(k, i);
    TB_STEP("reserved");
    if (!rc && k->in_slabs)
        rc = tb_commit_slabs(k->e);
    for (uint32_t i = 0; i < k->n_done && !rc; i++)
        rc = record_buffer(k, &k->done[i]);
    if (!rc && k->n_done)
        rc = tb_commit_journal(k->e);
    for (uint32_t i = 0; i < k->n_done && !rc; i++)
        note_durable(k, &k->done[i]);
    return rc;
}

/* The first pass lists all dirty buffers; a later one only those that overlap what the last pass missed. */
static int list(struct keep *k, bool first)
{
    uint32_t n;
    struct tb_buffer_ref *refs = tb_file_buffers(k->e, k->file, TB_BUFFERS_UNPROMISED, &n);
    bool failed = n && !refs;
    if (refs && !first)
        n = tb_buffers_overlapping(k->e, refs, n, k->refs, k->n);
    free(k->refs);
    k->refs = refs;
    k->n = failed ? 0 : n;
    k->n_done = 0;
    k->in_slabs = false;
    k->done = k->n ? malloc(k->n * sizeof(*k->done)) : NULL;
    k->missed = k->n ? calloc(k->n, sizeof(*k->missed)) : NULL;
    return failed || (k->n && (!k->done || !k->missed)) ? -ENOMEM : 0;
}

/* One pass. Afterwards the list holds what it missed. */
static int keep_buffers(struct keep *k, bool first)
{
    uint32_t n_missed = 0;
    int rc = list(k, first);
    rc = rc ? rc : keep_listed(k);
    for (uint32_t i = 0; i < k->n && !rc; i++)
        if (k->missed[i])
            k->refs[n_missed++] = k->refs[i];
    k->n = rc ? k->n : n_missed;
    free(k->done);
    free(k->missed);
    return rc;
}

/* The file is being cut or renamed: wait until that ends. If the client that did it is dead, finish it first. */
static void wait_for_holder(tb_engine *e, uint32_t file)
{
    tb_repair(e);
    if (!tb_file_claim(e, file))
        return;
    tb_file_end_naming(&e->region.files[file]);
    tb_file_unclaim(e, file);
}

static bool has_no_name(const struct tb_target *t)
{
    return t->engine->region.files[t->file].flags & TB_FILE_UNLINKED;
}

/*
 * Make durable what was dirty at the start: repeat until every listed buffer was met where
 * it was. A buffer that moved took its dirty bytes along. A file without a name needs
 * nothing: no crash can show its bytes again.
 */
static int keep_in_tier(struct tb_target *t)
{
    struct keep k = {.e = t->engine, .file = t->file};
    int rc = -EAGAIN;
    for (int pass = 0; pass < PASSES && (rc == -EAGAIN || (!rc && k.n)); pass++) {
        if (has_no_name(t))
            k.n = 0, rc = 0;
        else {
            k.n_cuts = t->engine->region.files[t->file].n_cuts;
            rc = keep_buffers(&k, pass == 0);
        }
        if (rc == -EAGAIN)
            wait_for_holder(t->engine, t->file);
    }
    rc = rc ? rc : k.n ? -EAGAIN : 0;
    free(k.refs);
    return rc;
}

static int keep_on_pfs(struct tb_target *t)
{
    struct tb_flush_result r = tb_flush_file(t->engine, t->file, t->can_write ? t->fd : -1, true);
    return r.error;
}

/*
 * A journal never gets shorter while a record in it counts. When it is full, everything is
 * flushed; until the journal is empty, promises are kept on the PFS.
 */
static bool has_room(tb_engine *e)
{
    if (!tb_journal_is_full(e))
        return true;
    tb_engine_flush(e, -1);
    tb_journal_trim(e);
    return !tb_journal_is_full(e);
}

/* Bytes that were spilled or flushed, and the name of a new file, are on the PFS already: they are synced there. */
static int sync_backing(struct tb_target *t)
{
    return t->engine->region.files[t->file].unsynced ? tb_target_sync(t) : 0;
}

int tb_promise_keep(struct tb_target *t)
{
    tb_engine *e = t->engine;
    struct tb_file *f = &e->region.files[t->file];
    e->header->totals.fsyncs++;
    if (f->flags & (TB_FILE_SCRATCH | TB_FILE_UNLINKED))
        return 0;
    if (f->flags & (TB_FILE_COHERENT | TB_FILE_FSYNC_PFS) || tb_config_of(e)->fsync != TB_FSYNC_TIER || e->journal_fd < 0 || !has_room(e))
        return keep_on_pfs(t);
    int rc = sync_backing(t); /* first: a record must not name a file that a crash takes from the PFS */
    if (rc)
        return rc;
    if (keep_in_tier(t))
        /* the tier is full or fails, or others change the same bytes again and again: keep the stronger promise */
        return keep_on_pfs(t);
    return sync_backing(t); /* what was flushed or spilled during the passes */
}
