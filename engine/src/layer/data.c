/*
 * Writing and reading the bytes of a file through its buffers: layer/data.h tells the order. A write is repeated chunk by chunk. It
 * goes back and begins the chunk again whenever it had to drop the lock, so other processes see all of a chunk's write or none of it.
 */
#include "layer/data.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/kill_point.h"
#include "buffer/heat.h"
#include "buffer/interval.h"
#include "buffer/map.h"
#include "buffer/medium.h"
#include "buffer/of_file.h"
#include "buffer/slab.h"
#include "buffer/swap.h"
#include "buffer/unrecorded.h"
#include "file/claim.h"
#include "file/state.h"
#include "flush/backing.h"
#include "flush/flush.h"
#include "flush/remote.h"
#include "layer/end.h"
#include "region/counters.h"
#include "shared/commit.h"
#include "tiering/ahead.h"
#include "tiering/promote.h"
#include "tiering/stage.h"

#define UNGRANTED (-EREMOTEIO) /* bytes would go to the PFS that were not committed (shared/commit.h): of the write, */
#define UNFLUSHED (-ECOMM)     /* or of a buffer that is in its way */
#define UNNOTED (-EXFULL)      /* too many writes of the file have no commit (tb_shared_note_write) */
#define FETCHES 1000
#define READS_UNLOCKED 4 /* of a file that is cut again and again; then the read takes the end lock, and the next cut waits */

/* Called by intervals for the gap inside one 4 KiB block, so never for more than a block. */
static int fill_from_backing(void *arg, struct tb_buffer *b, uint32_t lo, uint32_t hi)
{
    struct tb_target *t = arg;
    char bytes[TB_BLOCK_MIN];
    assert(hi - lo <= sizeof(bytes));
    int rc = tb_target_read_gap(t, bytes, hi - lo, tb_buffer_start(t->engine, b) + lo);
    TB_MEETING("gap fetched");
    return rc ? rc : tb_medium_write(t->engine, b, lo, hi - lo, bytes);
}

/*
 * Lock a chunk for writing, while no process sets the length of the file, and while it is
 * not coherent. A process that changes that marks the file first, and then waits for the
 * writers that have not seen the mark (layer/end.h). -EAGAIN: it is coherent.
 */
static int lock_to_write(struct tb_target *t, uint64_t offset)
{
    for (;;) {
        /* take the lock first, then read the mark; the thread that sets it does it the other way round */
        int stripe = tb_chunk_lock(t->engine, t->file, offset);
        uint32_t flags = stripe < 0 ? 0 : t->engine->region.files[t->file].flags;
        if (!(flags & (TB_FILE_CUTTING | TB_FILE_COHERENT)))
            return stripe;
        tb_chunk_unlock(t->engine, stripe);
        t->passes = !(flags & TB_FILE_CUTTING);
        if (t->passes)
            return -EAGAIN;
        tb_end_wait(t->engine, t->file);
    }
}

/* What a write needs while it does not hold the chunk's lock. After that it begins the chunk again. */
struct wish {
    bool may_flush; /* placement may ask for a flush before it places bytes: once; then the write takes what room there is */
    uint32_t tier;
    uint64_t bytes; /* above 0: flush so many of `tier`, */
    bool wait;      /* or wait for the flush of this file that is under way */
};

/*
 * Flush and empty a buffer of the locked chunk. That is safe only while no other flush of
 * the file runs: it could write older bytes of this buffer afterwards.
 * -EAGAIN with `wish->wait`: one runs.
 */
static int make_room_in(struct tb_target *t, struct tb_buffer *b, struct wish *wish)
{
    wish->wait = !tb_file_try_claim(t->engine, t->file);
    if (wish->wait)
        return -EAGAIN;
    int rc = tb_grant_covers_buffer(t->engine, t->file, b) ? tb_flush_and_empty(t, b) : UNFLUSHED;
    tb_file_unclaim(t->engine, t->file);
    return rc;
}

/* Outside the chunk's lock. False: the chunk's write wished for nothing, and failed. */
static bool fulfil(struct tb_target *t, struct wish *wish)
{
    bool wait = wish->wait, some = wish->bytes > 0;
    if (wait) {
        TB_MEETING("room wanted");
        if (tb_file_claim(t->engine, t->file))
            tb_file_unclaim(t->engine, t->file);
    }
    if (some)
        tb_flush_some(t->engine, wish->tier, wish->bytes);
    wish->may_flush &= !some;
    wish->wait = false;
    wish->bytes = 0;
    return wait || some;
}

/*
 * With several nodes, a gap between two dirty intervals may belong to another node.
 * Flushing it would overwrite that node's bytes.
 */
static bool takes_others(const struct tb_target *t, const struct tb_buffer *b, uint32_t lo, uint32_t hi)
{
    const tb_engine *e = t->engine;
    return e->header->config.several_nodes && !(e->region.files[t->file].flags & TB_FILE_SCRATCH) && tb_interval_bridges(e, b, lo, hi);
}

/*
 * Clean bytes are marked dirty before they are overwritten. If the writer is killed here,
 * what it wrote may be read by others; as clean bytes it could be dropped at any time, and
 * the old bytes would come back.
 */
static void note_overwritten(tb_engine *e, struct tb_buffer *b, uint32_t lo, uint32_t hi)
{
    if (b->fragment == TB_NONE && b->dirty_lo <= lo && hi <= b->dirty_hi)
        return;
    for (uint32_t a, z; lo < hi && tb_interval_valid(e, b, lo, hi, &a, &z); lo = z)
        tb_interval_note(e, b, a, z, true);
    TB_STEP("dirty first");
    atomic_signal_fence(memory_order_seq_cst);
}

/*
 * Make bytes [lo, hi) of a published buffer writable. If a journal record refers to the
 * buffer, `*owner` becomes a copy of it. -ENOBUFS: no buffer for the copy, no free
 * fragment, or the dirty bytes must be flushed first.
 */
static int open_owned(struct tb_target *t, struct tb_buffer **owner, uint32_t lo, uint32_t hi)
{
    if (takes_others(t, *owner, lo, hi))
        return -ENOBUFS;
    int rc = (*owner)->flags & TB_BUFFER_JOURNALED ? tb_buffer_replace(t->engine, owner) : 0;
    return rc ? rc : tb_interval_open(t->engine, *owner, lo, hi);
}

/* The part of a write from one byte on: the buffer that owns it (NULL: none does) and where that ends. */
struct part {
    struct tb_buffer *owner;
    uint64_t end;
};

static struct part part_at(struct tb_target *t, uint64_t offset, uint64_t limit)
{
    struct part p;
    p.owner = tb_map_owner(t->engine, t->file, offset, limit, &p.end);
    return p;
}

/*
 * Make all owners writable before the first byte is written, so that other processes see
 * all of the write or none. Gives the first part.
 */
static int open_all(struct tb_target *t, size_t n, uint64_t offset, struct wish *wish, struct part *first)
{
    uint64_t limit = offset + n;
    for (uint64_t at = offset; at < limit;) {
        struct part p = part_at(t, at, limit);
        if (p.owner && tb_buffer_leave_remote(t->engine, p.owner))
            continue;
        uint32_t lo = p.owner ? (uint32_t)(at - tb_buffer_start(t->engine, p.owner)) : 0;
        int rc = p.owner ? open_owned(t, &p.owner, lo, lo + (uint32_t)(p.end - at)) : 0;
        if (at == offset)
            *first = p;
        at = p.end;
        if (rc == -ENOBUFS && (rc = make_room_in(t, p.owner, wish)) == 0)
            at = offset;
        if (rc)
            return rc;
    }
    return 0;
}

/*
 * Overwrite bytes [lo, hi) of a buffer that was made writable. Order: mark clean bytes
 * dirty, copy, note the interval. If killed after the copy, the bytes are seen where the
 * interval was valid already, and are dirty there.
 */
static int write_owned(struct tb_target *t, struct tb_buffer *b, uint32_t lo, uint32_t hi, const char *from)
{
    tb_engine *e = t->engine;
    assert(!(b->flags & TB_BUFFER_JOURNALED)); /* a record's bytes stay as they are */
    tb_interval_forget_apart(e, b, lo, hi);
    int rc = tb_interval_prepare(e, b, lo, hi, fill_from_backing, t);
    if (rc)
        return rc;
    tb_unrecorded_note(e, b, lo, hi);
    note_overwritten(e, b, lo, hi);
    rc = tb_medium_write(e, b, lo, hi - lo, from);
    if (rc) {
        tb_map_count_dirty(e, b);
        return rc;
    }
    TB_STEP("overwritten");
    tb_interval_note(e, b, lo, hi, true);
    b->flags &= (uint16_t)~TB_BUFFER_SEEN; /* its version has moved */
    TB_STEP("noted");
    tb_map_count_dirty(e, b);
    tb_heat_touch(e, b, hi - lo, hi, TB_HEAT_WRITE);
    tb_count_in(e, tb_slab_layout(e, b)->tier, hi - lo, 1);
    return 0;
}

/* Put the first bytes of a gap into a buffer that is not published: how many it took. */
static ssize_t fill_new(struct tb_target *t, struct tb_buffer *b, const char *from, uint64_t n, uint64_t offset)
{
    tb_engine *e = t->engine;
    uint64_t size = tb_buffer_size(e, b);
    uint32_t lo = (uint32_t)(offset % size), take = (uint32_t)(size - lo < n ? size - lo : n);
    int rc = tb_medium_write(e, b, lo, take, from);
    if (rc)
        return rc;
    TB_STEP("copied");
    tb_interval_set(e, b, lo, lo + take);
    tb_heat_set(e, b, TB_HEAT_WRITE, false);
    b->flags = t->hint == TB_HINT_KEEP ? TB_BUFFER_KEEP : 0;
    return take;
}

/*
 * Put the first bytes of a gap into a row of new buffers of `tier`: how many they took, 0
 * where the tier is full. All are filled, then counted, then published: so locks and counters
 * that processes share are touched once a row. If killed before, repair frees them and the
 * bytes were never written. What could not be filled is given back.
 */
static ssize_t write_row(struct tb_target *t, uint32_t tier, const char *from, uint64_t n, uint64_t offset)
{
    tb_engine *e = t->engine;
    struct tb_buffer *row[TB_ROW];
    uint32_t taken = tb_tier_take_row(e, tier, offset, n, row), filled = 0;
    uint64_t done = 0, cell = taken ? offset / tb_buffer_size(e, row[0]) : 0;
    ssize_t w = 0;
    TB_MEETING("row taken");
    while (filled < taken && (w = fill_new(t, row[filled], from + done, n - done, offset + done)) > 0) {
        done += (uint64_t)w;
        filled++;
    }
    assert(done <= n);
    for (uint32_t i = filled; i < taken; i++)
        tb_slab_give(e, row[i]);
    if (!filled)
        return w;
    tb_count_dirty(e, tier, done);
    TB_STEP("row filled");
    tb_slab_ask_ahead(e, row[0]->slab, n);
    tb_map_publish_row(e, row, filled, t->file, cell);
    tb_count_in(e, tier, done, 0);
    return (ssize_t)done;
}

/* One tier's part of a gap, row by row. A tier with a failing device counts as full: the bytes go on to the next tier. */
static uint64_t fill_part(struct tb_target *t, uint32_t tier, const char *from, uint64_t n, uint64_t offset)
{
    uint64_t done = 0;
    while (done < n) {
        ssize_t w = write_row(t, tier, from + done, n - done, offset + done);
        if (w <= 0)
            break;
        done += (uint64_t)w;
    }
    if (done)
        tb_count_in(t->engine, tier, 0, 1);
    return done;
}

/*
 * What placement did not place goes to the PFS. Other tiers are tried first in two cases:
 * a tier had less room than it seemed to have, or the file is scratch and has no PFS (then
 * -ENOSPC if no tier has room).
 * If killed after a write past the end, OVERFLOWN says that the backing file may be longer
 * than the size here.
 */
static ssize_t spill(struct tb_target *t, const char *from, uint64_t n, uint64_t offset, bool any_tier)
{
    tb_engine *e = t->engine;
    uint64_t done = 0;
    any_tier |= (e->region.files[t->file].flags & TB_FILE_SCRATCH) != 0;
    for (uint32_t tier = 0; any_tier && tier < e->header->config.n_tiers && done < n; tier++)
        done += fill_part(t, tier, from + done, n - done, offset + done);
    if (done == n)
        return (ssize_t)done;
    if (e->region.files[t->file].flags & TB_FILE_SCRATCH)
        return done ? (ssize_t)done : -ENOSPC;
    if (!tb_grant_covers(e, t->file, offset + done, n - done))
        return done ? (ssize_t)done : UNGRANTED;
    if (offset + n > e->region.files[t->file].size)
        tb_file_note_overflow(&e->region.files[t->file]);
    int rc = tb_target_write(t, from + done, n - done, offset + done);
    TB_STEP("spilled");
    e->region.locks->chunk[tb_chunk_of(e, t->file, offset).stripe].n_spilled++; /* also if it failed: a part may be there */
    if (rc)
        return done ? (ssize_t)done : rc;
    e->header->totals.spilled += n - done;
    return (ssize_t)n;
}

/*
 * Fill the parts of a placement in their order. If a part ends inside a buffer's cell, the
 * rest of the cell belongs to that buffer: `*again` tells the caller to look for owners
 * again.
 */
static uint64_t fill_parts(struct tb_target *t, const struct tb_placement *p, const char *from, uint64_t n, uint64_t offset, bool *again,
                           bool *short_of)
{
    uint64_t done = 0, end;
    for (uint32_t i = 0; i < p->n && done < n && !*short_of; i++) {
        if (done && tb_map_owner(t->engine, t->file, offset + done, offset + n, &end)) {
            *again = true;
            break;
        }
        uint64_t part = p->part[i].bytes < n - done ? p->part[i].bytes : n - done;
        uint64_t w = fill_part(t, p->part[i].tier, from + done, part, offset + done);
        done += w;
        *short_of = w < part;
    }
    return done;
}

/* Write bytes that no buffer owns. -EAGAIN: nothing was written; fulfil the wish, then come again. */
static ssize_t write_gap(struct tb_target *t, const char *from, uint64_t n, uint64_t offset, struct wish *wish)
{
    struct tb_placement p;
    struct tb_file *f = &t->engine->region.files[t->file];
    bool again = false, short_of = false;
    bool may_flush = wish->may_flush && !(f->flags & TB_FILE_SCRATCH);
    tb_place(t->engine, &(struct tb_place_request){t->file, offset, n, may_flush}, &p);
    wish->tier = p.flush_tier;
    wish->bytes = p.flush_first;
    if (p.flush_first)
        return -EAGAIN;
    if (p.bytes)
        n = p.bytes;
    uint64_t done = fill_parts(t, &p, from, n, offset, &again, &short_of), end;
    if (done == n || again || (done && tb_map_owner(t->engine, t->file, offset + done, offset + n, &end)))
        return (ssize_t)done;
    ssize_t rest = spill(t, from + done, n - done, offset + done, short_of);
    return rest < 0 ? (done ? (ssize_t)done : rest) : (ssize_t)done + rest;
}

static ssize_t write_part(struct tb_target *t, const struct part *p, const char *from, uint64_t at, struct wish *wish)
{
    if (!p->owner)
        return write_gap(t, from, p->end - at, at, wish);
    uint32_t lo = (uint32_t)(at - tb_buffer_start(t->engine, p->owner));
    int rc = write_owned(t, p->owner, lo, lo + (uint32_t)(p->end - at), from);
    return rc ? rc : (ssize_t)(p->end - at);
}

/* A flush may be asked for only before the first byte, since others would see half a write. Bytes without a note are written again. */
static ssize_t write_parts(struct tb_target *t, struct part p, const char *from, size_t n, uint64_t offset, struct wish *wish)
{
    size_t done = 0;
    ssize_t w = 0;
    while (done < n && w >= 0) {
        if (done)
            p = part_at(t, offset + done, offset + n);
        w = write_part(t, &p, from + done, offset + done, wish);
        if (w > 0 && !tb_shared_note_write(t->engine, t->file, offset + done, (size_t)w))
            w = UNNOTED;
        done += w > 0 ? (size_t)w : 0;
        wish->may_flush &= !done;
    }
    return done ? (ssize_t)done : w;
}

/*
 * Write the part of a transfer that is in one chunk: bytes in the place of dirty ones without its lock, else under it. The size
 * is raised before the lock is dropped, because a flush writes nothing that is past the size.
 */
static ssize_t write_chunk(struct tb_target *t, const char *from, size_t n, uint64_t offset, struct wish *wish)
{
    tb_engine *e = t->engine;
    struct part first;
    assert(n > 0 && !wish->wait && !wish->bytes);
    if (!t->at_end && tb_write_in_place(e, t->file, from, n, offset))
        return (ssize_t)n;
    int stripe = lock_to_write(t, offset);
    if (stripe < 0)
        return stripe;
    ssize_t w = open_all(t, n, offset, wish, &first);
    /* another writer moved the end, or was killed in this chunk */
    if (!w && t->at_end && e->region.files[t->file].size != offset) {
        t->end_moved = true;
        w = -EAGAIN;
    }
    if (!w)
        w = write_parts(t, first, from, n, offset, wish);
    assert(w <= (ssize_t)n);
    if (w > 0)
        tb_file_raise_size(&e->region.files[t->file], offset + (uint64_t)w);
    tb_chunk_unlock(e, stripe);
    return w;
}

/*
 * Outside the chunk's lock: what a write into a shared file needs of other nodes. Then it begins the chunk again. While bytes are
 * fetched nothing is granted: others wait for bytes that were granted and are not written yet.
 */
static int ask_others(struct tb_target *t, int why, size_t n, uint64_t offset)
{
    if (why == UNGRANTED || why == UNFLUSHED)
        return tb_grant_take_to_write(t->engine, t->file, offset, why == UNGRANTED ? n : 0);
    tb_grant_end(t->engine, t->file);
    return why == UNNOTED ? tb_shared_commit_notes(t->engine, t->file) : tb_remote_fetch(t, offset, n, NULL);
}

/* The part in one chunk, begun again after each wait without the chunk's lock. `asked`: other nodes were. */
static ssize_t write_piece(struct tb_target *t, const char *from, size_t n, uint64_t offset, bool *asked)
{
    struct wish wish = {.may_flush = true};
    ssize_t w = 0;
    for (bool again = true; again;) {
        w = write_chunk(t, from, n, offset, &wish);
        again = w == -EAGAIN && fulfil(t, &wish);
        if (w == -EREMOTE || w == UNGRANTED || w == UNFLUSHED || w == UNNOTED) {
            *asked = true;
            again = (w = ask_others(t, (int)w, n, offset)) == 0;
        }
    }
    return w;
}

/* Chunk by chunk. An error after the first chunk is reported as a short write, as a kernel does. */
ssize_t tb_data_write(struct tb_target *t, const void *from, size_t n, uint64_t offset)
{
    size_t done = 0;
    ssize_t w = 1;
    bool together = tb_place_together(t->engine), asked = false;
    tb_place_note_access(t->engine, t->file);
    if (together)
        tb_model_together_begin();
    while (done < n && w > 0) {
        w = write_piece(t, (const char *)from + done, tb_to_chunk_end(t->engine, offset + done, n - done), offset + done, &asked);
        done += w > 0 ? (size_t)w : 0;
        t->at_end &= w <= 0; /* only the first chunk must begin at the end */
    }
    if (together)
        tb_model_together_end();
    if (asked) {
        tb_remote_drop();
        tb_grant_end(t->engine, t->file);
    }
    w = w == -EHOSTDOWN ? -EIO : w; /* programs know of no other node */
    return done || n == 0 ? (ssize_t)done : w;
}

/*
 * Read bytes [lo, hi) that a published buffer lacks from the backing file, and keep them
 * in the buffer if staging wants them. They are not kept in a buffer with journal records:
 * its bytes must not change.
 */
static int read_hole(struct tb_target *t, struct tb_buffer *b, uint32_t lo, uint32_t hi, char *to)
{
    tb_engine *e = t->engine;
    uint64_t offset = tb_buffer_start(e, b) + lo;
    int rc = tb_target_read(t, to, hi - lo, offset);
    TB_MEETING("hole fetched");
    if (rc || !tb_stage_wanted(t, offset, hi - lo) || b->flags & TB_BUFFER_JOURNALED || b->prev != TB_NONE ||
        tb_stage_limit(e, t->file, offset, hi - lo) < hi - lo)
        return rc;
    if (tb_interval_prepare(e, b, lo, hi, fill_from_backing, t) || tb_medium_write(e, b, lo, hi - lo, to))
        return 0; /* the read has its bytes; only the staging is left out */
    tb_interval_note(e, b, lo, hi, false);
    e->header->totals.staged += hi - lo;
    return 0;
}

/* Bytes [lo, hi) of a buffer: what is valid from it, what is not from the backing file. */
static int read_owned(struct tb_target *t, struct tb_buffer *b, uint32_t lo, uint32_t hi, char *to)
{
    tb_engine *e = t->engine;
    uint32_t at = lo, a, z;
    int rc = 0;
    assert(lo < hi && hi <= tb_buffer_size(e, b));
    while (at < hi && !rc) {
        bool valid = tb_interval_valid(e, b, at, hi, &a, &z);
        uint32_t hole_end = valid ? a : hi;
        if (at < hole_end)
            rc = read_hole(t, b, at, hole_end, to + (at - lo));
        if (!rc && valid) {
            rc = tb_medium_read(e, b, a, z - a, to + (a - lo));
            tb_count_out(e, tb_slab_layout(e, b)->tier, z - a, 0);
        }
        at = valid ? z : hi;
    }
    tb_heat_touch(e, b, hi - lo, hi, TB_HEAT_READ);
    tb_count_out(e, tb_slab_layout(e, b)->tier, 0, 1);
    return rc;
}

/* Lock a chunk for reading. Buffers that are hot enough are promoted first; promotion copies without the lock. */
static int lock_to_read(struct tb_target *t, size_t n, uint64_t offset)
{
    tb_engine *e = t->engine;
    struct tb_buffer_ref up[TB_PROMOTE_MAX];
    int stripe = tb_chunk_lock(e, t->file, offset);
    uint32_t n_up = stripe < 0 ? 0 : tb_promote_find(e, t->file, offset, n, up);
    if (!n_up)
        return stripe;
    tb_chunk_unlock(e, stripe);
    tb_promote(e, t->file, up, n_up);
    return tb_chunk_lock(e, t->file, offset);
}

/* Locked by the chunk, so the bytes of one chunk are of one moment. A read over two chunks is not. */
static int read_chunk(struct tb_target *t, char *to, size_t n, uint64_t offset)
{
    tb_engine *e = t->engine;
    int stripe = lock_to_read(t, n, offset), rc = 0;
    if (stripe < 0)
        return stripe;
    bool ahead = tb_ahead_begin(e, t->file, n, offset);
    for (uint64_t at = offset, end; at < offset + n && !rc; at = end) {
        struct tb_buffer *b = tb_map_owner(e, t->file, at, offset + n, &end);
        char *here = to + (at - offset);
        if (b) {
            uint32_t lo = (uint32_t)(at - tb_buffer_start(e, b));
            rc = read_owned(t, b, lo, lo + (uint32_t)(end - at), here);
            if (rc == -EHOSTDOWN && (rc = tb_buffer_leave_unread(e, b, lo, lo + (uint32_t)(end - at))) == 0)
                end = at; /* once more, without it */
        } else {
            rc = tb_stage_read(t, here, end - at, at);
        }
    }
    if (ahead)
        tb_ahead_end();
    tb_chunk_unlock(e, stripe);
    return rc;
}

/* Of a chunk that lacks some bytes which may be another node's. Again where some of it was flushed in between. */
static int read_remote(struct tb_target *t, char *to, size_t n, uint64_t offset)
{
    int rc = -EREMOTE;
    for (int i = 0; i < FETCHES && rc == -EREMOTE; i++) {
        rc = tb_remote_fetch(t, offset, n, to);
        rc = rc ? rc : read_chunk(t, to, n, offset);
    }
    tb_remote_end(t, offset, rc ? 0 : n);
    return rc == -EREMOTE ? -EIO : rc;
}

static ssize_t read_once(struct tb_target *t, void *to, size_t n, uint64_t offset)
{
    uint64_t size = t->engine->region.files[t->file].size;
    size_t done = 0;
    if (offset >= size)
        return 0;
    if (n > size - offset)
        n = (size_t)(size - offset);
    while (done < n) {
        size_t piece = tb_to_chunk_end(t->engine, offset + done, n - done);
        int rc = tb_read_in_place(t->engine, t->file, (char *)to + done, piece, offset + done)
                   ? 0
                   : read_chunk(t, (char *)to + done, piece, offset + done);
        if (rc == -EREMOTE)
            rc = read_remote(t, (char *)to + done, piece, offset + done);
        if (rc)
            return done ? (ssize_t)done : rc;
        done += piece;
    }
    return (ssize_t)done;
}

/* If the file was made shorter during the read, bytes from after the new end may be among those read: read again. */
ssize_t tb_data_read(struct tb_target *t, void *to, size_t n, uint64_t offset)
{
    const struct tb_file *f = &t->engine->region.files[t->file];
    tb_place_note_access(t->engine, t->file);
    for (int i = 0;; i++) {
        int end = i == READS_UNLOCKED ? tb_end_lock(t->engine, t->file, -1) : -EBUSY;
        uint32_t cuts = f->n_cuts;
        ssize_t r = read_once(t, to, n, offset);
        atomic_thread_fence(memory_order_acquire);
        bool whole = f->n_cuts == cuts || i == READS_UNLOCKED;
        if (end >= 0)
            tb_end_unlock(t->engine, end);
        if (whole)
            return r;
    }
}
