/*
 * Valid and dirty intervals of a buffer, and the fragments that hold them for each 4 KiB
 * block (buffer/interval.h). An interval is two stores. If a client is killed between
 * them, the interval is empty (low above high), and tb_interval_mend makes it so; dirty
 * bytes are valid too, so no byte that the PFS lacks is lost.
 */
#include "buffer/interval.h"

#include <errno.h>
#include <string.h>

#include "base/kill_point.h"
#include "base/valid.h"
#include "buffer/map.h"
#include "region/counters.h"

#define BLOCK TB_BLOCK_MIN

static struct tb_interval *blocks_of(const tb_engine *e, const struct tb_buffer *b)
{
    assert(b->fragment < e->header->layout.n_fragments);
    return e->region.fragments + (size_t)b->fragment * (e->header->layout.fragment_bytes / sizeof(struct tb_interval));
}

/* A free fragment holds the number of the next free one in its first bytes. */
static uint32_t fragment_next(const tb_engine *e, uint32_t fragment)
{
    uint32_t next;
    struct tb_buffer at = {.fragment = fragment};
    memcpy(&next, blocks_of(e, &at), sizeof(next));
    return next;
}

uint32_t tb_fragment_link(tb_engine *e, uint32_t fragment, uint32_t next)
{
    struct tb_buffer at = {.fragment = fragment};
    memcpy(blocks_of(e, &at), &next, sizeof(next));
    return fragment;
}

/* The buffer lets go of it first: if killed before it is linked, no buffer uses it, and repair links it. */
static void give_fragment(tb_engine *e, struct tb_buffer *b)
{
    if (b->fragment == TB_NONE)
        return;
    tb_lock_take(&e->header->fragments.lock);
    uint32_t f = b->fragment;
    b->fragment = TB_NONE;
    TB_STEP("give fragment");
    e->header->fragments.free = tb_fragment_link(e, f, e->header->fragments.free);
    tb_lock_drop(&e->header->fragments.lock);
}

/* May [lo, hi) join the interval without a gap? An empty interval joins with everything. */
static bool touches(uint32_t a_lo, uint32_t a_hi, uint32_t lo, uint32_t hi)
{
    return a_lo == a_hi || (lo <= a_hi && hi >= a_lo);
}

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static uint32_t most(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

/* The part of [lo, hi) inside block i, relative to it. */
static void inside(uint32_t i, uint32_t lo, uint32_t hi, uint16_t *from, uint16_t *to)
{
    uint32_t start = i * BLOCK;
    *from = (uint16_t)(most(lo, start) - start);
    *to = (uint16_t)(least(hi, start + BLOCK) - start);
    if (lo >= start + BLOCK || hi <= start)
        *from = *to = 0;
}

static bool is_one_block(const tb_engine *e, const struct tb_buffer *b)
{
    return tb_buffer_size(e, b) == BLOCK;
}

/* Write the buffer's two intervals down for each block. */
static void fill_blocks(const tb_engine *e, const struct tb_buffer *b, uint32_t fragment)
{
    struct tb_interval *block = blocks_of(e, &(struct tb_buffer){.fragment = fragment});
    for (uint32_t i = 0, n = (uint32_t)(tb_buffer_size(e, b) / BLOCK); i < n; i++) {
        inside(i, b->valid_lo, b->valid_hi, &block[i].valid_lo, &block[i].valid_hi);
        inside(i, b->dirty_lo, b->dirty_hi, &block[i].dirty_lo, &block[i].dirty_hi);
    }
}

/*
 * Give the buffer a fragment; false where none is free. It is filled and the buffer's own before the lock is dropped: so a repair,
 * which holds this lock while it looks which fragments are in use, finds each in the list or with a buffer, also with one that
 * another client is about to fill and that is not published. If killed here, repair finds it: no buffer uses it.
 */
static bool split(tb_engine *e, struct tb_buffer *b)
{
    assert(b->fragment == TB_NONE && !is_one_block(e, b));
    tb_lock_take(&e->header->fragments.lock);
    uint32_t f = e->header->fragments.free;
    if (f != TB_NONE) {
        e->header->fragments.free = fragment_next(e, f);
        TB_STEP("split");
        fill_blocks(e, b, f);
        TB_STEP("splitting");
        b->fragment = f; /* one store: if killed before it, the buffer has its old two intervals */
    }
    tb_lock_drop(&e->header->fragments.lock);
    return f != TB_NONE;
}

/*
 * Inside one block a gap between the old bytes and the new ones is read from the backing
 * file, so that both make one interval.
 */
static int fill_gap(struct tb_buffer *b, uint32_t v_lo, uint32_t v_hi, uint32_t lo, uint32_t hi, tb_gap_filler *fill, void *arg)
{
    if (v_lo == v_hi || touches(v_lo, v_hi, lo, hi))
        return 0;
    return lo > v_hi ? fill(arg, b, v_hi, lo) : fill(arg, b, hi, v_lo);
}

int tb_interval_open(tb_engine *e, struct tb_buffer *b, uint32_t lo, uint32_t hi)
{
    if (b->fragment != TB_NONE || is_one_block(e, b))
        return 0;
    if (touches(b->valid_lo, b->valid_hi, lo, hi) && touches(b->dirty_lo, b->dirty_hi, lo, hi))
        return 0;
    return split(e, b) ? 0 : -ENOBUFS;
}

int tb_interval_prepare(tb_engine *e, struct tb_buffer *b, uint32_t lo, uint32_t hi, tb_gap_filler *fill, void *arg)
{
    assert(lo < hi && hi <= tb_buffer_size(e, b));
    int opened = tb_interval_open(e, b, lo, hi);
    if (opened)
        return opened;
    if (b->fragment == TB_NONE)
        return is_one_block(e, b) ? fill_gap(b, b->valid_lo, b->valid_hi, lo, hi, fill, arg) : 0;
    struct tb_interval *block = blocks_of(e, b);
    for (uint32_t i = lo / BLOCK; i <= (hi - 1) / BLOCK; i++) {
        uint32_t start = i * BLOCK, from = most(lo, start), to = least(hi, start + BLOCK);
        int rc = fill_gap(b, start + block[i].valid_lo, start + block[i].valid_hi, from, to, fill, arg);
        if (rc)
            return rc;
    }
    return 0;
}

bool tb_interval_bridges(const tb_engine *e, const struct tb_buffer *b, uint32_t lo, uint32_t hi)
{
    for (uint32_t i = lo / BLOCK; i <= (hi - 1) / BLOCK; i++) {
        struct tb_interval whole, *block = b->fragment == TB_NONE ? &whole : &blocks_of(e, b)[i];
        uint16_t from, to;
        if (b->fragment == TB_NONE)
            inside(i, b->dirty_lo, b->dirty_hi, &whole.dirty_lo, &whole.dirty_hi);
        inside(i, lo, hi, &from, &to);
        if (!touches(block->dirty_lo, block->dirty_hi, from, to))
            return true;
    }
    return false;
}

/* If killed between the two stores of an interval that was empty, low is above high: tb_interval_mend empties it. */
static void widen(uint32_t *a_lo, uint32_t *a_hi, uint32_t lo, uint32_t hi)
{
    bool empty = *a_lo == *a_hi;
    *a_lo = empty ? lo : least(*a_lo, lo);
    TB_STEP("widen");
    *a_hi = empty ? hi : most(*a_hi, hi);
}

static void widen_block(uint16_t *a_lo, uint16_t *a_hi, uint32_t lo, uint32_t hi)
{
    uint32_t l = *a_lo, h = *a_hi;
    widen(&l, &h, lo, hi);
    *a_lo = (uint16_t)l;
    *a_hi = (uint16_t)h;
}

/*
 * Dirty bytes of the blocks that [lo, hi) touches; of the whole buffer if it is not fragmented. A repair asks also about a buffer
 * that another client is about to fill.
 */
static TB_UNLOCKED uint64_t dirty_bytes_near(const tb_engine *e, const struct tb_buffer *b, uint32_t lo, uint32_t hi)
{
    if (b->fragment == TB_NONE)
        return b->dirty_hi - b->dirty_lo;
    uint64_t bytes = 0;
    const struct tb_interval *block = blocks_of(e, b);
    for (uint32_t i = lo / BLOCK; i <= (hi - 1) / BLOCK; i++)
        bytes += (uint64_t)(block[i].dirty_hi - block[i].dirty_lo);
    return bytes;
}

/* Is there no gap in what is valid, and none in what is dirty, between the bounds? Only bytes [lo, hi) are looked at. */
static bool is_single(const tb_engine *e, const struct tb_buffer *b, uint32_t lo, uint32_t hi)
{
    uint32_t v_lo = most(lo, b->valid_lo), v_hi = least(hi, b->valid_hi), d_lo = most(lo, b->dirty_lo), d_hi = least(hi, b->dirty_hi);
    uint32_t from, to;
    return (v_lo >= v_hi || (tb_interval_valid(e, b, v_lo, v_hi, &from, &to) && from == v_lo && to == v_hi)) &&
           (d_lo >= d_hi || (tb_interval_dirty(e, b, d_lo, d_hi, &from, &to) && from == d_lo && to == d_hi));
}

/*
 * [lo, hi) has become valid or dirty. Where valid and dirty bytes are one interval each again, the bounds are those and the
 * fragment goes: fragments are few, and reads of a buffer with one take the lock. A gap beside the new bytes, as there is nearly
 * always until the buffer is full, ends the look. One store: if killed before it, the buffer keeps its fragment.
 */
static void join(tb_engine *e, struct tb_buffer *b, uint32_t lo, uint32_t hi)
{
    uint32_t near = lo < BLOCK ? 0 : lo - BLOCK;
    if (b->fragment != TB_NONE && is_single(e, b, near, hi + BLOCK) && is_single(e, b, 0, (uint32_t)tb_buffer_size(e, b)))
        give_fragment(e, b);
}

/*
 * Locked by the chunk. Dirty is stored before valid: if killed between, tb_interval_mend
 * makes the dirty bytes valid too. In the other order, valid bytes that the PFS lacks
 * would count as clean and be lost.
 */
void tb_interval_note(tb_engine *e, struct tb_buffer *b, uint32_t lo, uint32_t hi, bool dirty)
{
    assert(lo < hi && hi <= tb_buffer_size(e, b));
    uint64_t before = dirty_bytes_near(e, b, lo, hi), after;
    if (b->fragment != TB_NONE)
        for (uint32_t i = lo / BLOCK; i <= (hi - 1) / BLOCK; i++) {
            struct tb_interval *block = &blocks_of(e, b)[i];
            uint16_t from, to;
            inside(i, lo, hi, &from, &to);
            if (dirty)
                widen_block(&block->dirty_lo, &block->dirty_hi, from, to);
            TB_STEP("note block");
            widen_block(&block->valid_lo, &block->valid_hi, from, to);
        }
    if (dirty)
        widen(&b->dirty_lo, &b->dirty_hi, lo, hi);
    TB_STEP("note valid");
    atomic_signal_fence(memory_order_seq_cst); /* the compiler keeps the order of the stores; a kill may come between any two */
    widen(&b->valid_lo, &b->valid_hi, lo, hi);
    b->version++;
    TB_ASSERT_WHOLE(tb_interval_is_whole(e, b));
    if ((after = dirty_bytes_near(e, b, lo, hi)) != before) /* overwriting dirty bytes touches no shared counter */
        tb_count_dirty(e, tb_slab_layout(e, b)->tier, after - before);
    if (after != before || !dirty)
        join(e, b, lo, hi);
}

void tb_interval_set(const tb_engine *e, struct tb_buffer *b, uint32_t lo, uint32_t hi)
{
    assert(lo < hi && hi <= tb_buffer_size(e, b) && b->fragment == TB_NONE && b->valid_lo == b->valid_hi);
    (void)e;
    b->dirty_lo = b->valid_lo = lo;
    b->dirty_hi = b->valid_hi = hi;
    b->version++;
}

int tb_interval_add(tb_engine *e, struct tb_buffer *b, uint32_t lo, uint32_t hi, bool dirty)
{
    bool one = touches(b->valid_lo, b->valid_hi, lo, hi) && (!dirty || touches(b->dirty_lo, b->dirty_hi, lo, hi));
    if (b->fragment == TB_NONE && !one && !split(e, b))
        return -ENOBUFS;
    tb_interval_note(e, b, lo, hi, dirty);
    return 0;
}

static bool clip(uint32_t a_lo, uint32_t a_hi, uint32_t lo, uint32_t hi, uint32_t *from, uint32_t *to)
{
    *from = most(a_lo, lo);
    *to = least(a_hi, hi);
    return *from < *to;
}

/* The first interval inside [lo, hi). Intervals of adjacent blocks that meet are one. */
static bool first_of(const tb_engine *e, const struct tb_buffer *b, uint32_t lo, uint32_t hi, bool dirty, uint32_t *from, uint32_t *to)
{
    const struct tb_interval *block = blocks_of(e, b);
    bool found = false;
    for (uint32_t i = lo / BLOCK; i * BLOCK < hi; i++) {
        uint32_t f, t, s = i * BLOCK;
        uint32_t a = s + (dirty ? block[i].dirty_lo : block[i].valid_lo), z = s + (dirty ? block[i].dirty_hi : block[i].valid_hi);
        if (!clip(a, z, lo, hi, &f, &t)) {
            if (found)
                break;
            continue;
        }
        if (found && f != *to)
            break;
        if (!found)
            *from = f;
        *to = t;
        found = true;
        if (t != least(hi, s + BLOCK))
            break;
    }
    return found;
}

bool tb_interval_valid(const tb_engine *e, const struct tb_buffer *b, uint32_t lo, uint32_t hi, uint32_t *from, uint32_t *to)
{
    if (b->fragment == TB_NONE)
        return clip(b->valid_lo, b->valid_hi, lo, hi, from, to);
    return first_of(e, b, lo, hi, false, from, to);
}

bool tb_interval_dirty(const tb_engine *e, const struct tb_buffer *b, uint32_t lo, uint32_t hi, uint32_t *from, uint32_t *to)
{
    if (b->fragment == TB_NONE)
        return clip(b->dirty_lo, b->dirty_hi, lo, hi, from, to);
    return first_of(e, b, lo, hi, true, from, to);
}

TB_UNLOCKED uint64_t tb_interval_dirty_bytes(const tb_engine *e, const struct tb_buffer *b)
{
    return tb_buffer_is_dirty(b) ? dirty_bytes_near(e, b, b->dirty_lo, b->dirty_hi) : 0;
}

void tb_interval_clean(tb_engine *e, struct tb_buffer *b)
{
    tb_count_dirty(e, tb_slab_layout(e, b)->tier, -tb_interval_dirty_bytes(e, b));
    if (b->fragment != TB_NONE)
        for (uint32_t i = 0, n = (uint32_t)(tb_buffer_size(e, b) / BLOCK); i < n; i++)
            blocks_of(e, b)[i].dirty_lo = blocks_of(e, b)[i].dirty_hi = 0;
    b->dirty_lo = b->dirty_hi = 0;
    b->version++; /* a flush that copied the dirty intervals earlier must see that they changed */
    join(e, b, 0, (uint32_t)tb_buffer_size(e, b));
}

static void cut16(uint16_t *lo, uint16_t *hi, uint32_t at)
{
    if (*hi > at)
        *hi = (uint16_t)at;
    if (*lo >= *hi)
        *lo = *hi = 0;
}

static void cut32(uint32_t *lo, uint32_t *hi, uint32_t at)
{
    *hi = least(*hi, at);
    if (*lo >= *hi)
        *lo = *hi = 0;
}

/* Dirty is cut before valid, so that dirty bytes are always valid bytes. */
void tb_interval_cut(tb_engine *e, struct tb_buffer *b, uint32_t at)
{
    tb_count_dirty(e, tb_slab_layout(e, b)->tier, -tb_interval_dirty_bytes(e, b));
    if (b->fragment != TB_NONE)
        for (uint32_t i = at / BLOCK, n = (uint32_t)(tb_buffer_size(e, b) / BLOCK); i < n; i++) {
            struct tb_interval *block = &blocks_of(e, b)[i];
            uint32_t rest = at > i * BLOCK ? at - i * BLOCK : 0;
            cut16(&block->dirty_lo, &block->dirty_hi, rest);
            cut16(&block->valid_lo, &block->valid_hi, rest);
        }
    cut32(&b->dirty_lo, &b->dirty_hi, at);
    TB_STEP("cut");
    cut32(&b->valid_lo, &b->valid_hi, at);
    b->version++;
    if (b->valid_lo == b->valid_hi)
        give_fragment(e, b);
    tb_count_dirty(e, tb_slab_layout(e, b)->tier, tb_interval_dirty_bytes(e, b));
}

/* Never dirty bytes: nothing else has them. */
static bool is_apart(const struct tb_interval *block, uint32_t lo, uint32_t hi)
{
    return block->dirty_lo == block->dirty_hi && !touches(block->valid_lo, block->valid_hi, lo, hi);
}

/* The two intervals of a buffer with a fragment stay as they are: they are bounds, and may be too wide. */
void tb_interval_forget_apart(tb_engine *e, struct tb_buffer *b, uint32_t lo, uint32_t hi)
{
    assert(lo < hi && hi <= tb_buffer_size(e, b));
    if (is_one_block(e, b) && b->dirty_lo == b->dirty_hi && !touches(b->valid_lo, b->valid_hi, lo, hi)) {
        cut32(&b->valid_lo, &b->valid_hi, 0);
        b->version++;
    }
    for (uint32_t i = lo / BLOCK; b->fragment != TB_NONE && i <= (hi - 1) / BLOCK; i++) {
        struct tb_interval *block = &blocks_of(e, b)[i];
        uint32_t start = i * BLOCK;
        if (!is_apart(block, most(lo, start) - start, least(hi, start + BLOCK) - start))
            continue;
        cut16(&block->valid_lo, &block->valid_hi, 0);
        b->version++;
    }
}

void tb_interval_empty(tb_engine *e, struct tb_buffer *b)
{
    tb_interval_cut(e, b, 0);
}

/*
 * Take [lo, hi) out of one valid and one dirty interval. Clean bytes on one side of it go too where that leaves one interval.
 * False: there are dirty bytes on both sides.
 */
static bool take_out(struct tb_interval *i, uint32_t lo, uint32_t hi)
{
    if (hi <= i->valid_lo || lo >= i->valid_hi)
        return true;
    bool before = i->dirty_lo < i->dirty_hi && i->dirty_lo < lo, after = i->dirty_lo < i->dirty_hi && i->dirty_hi > hi;
    if (before && after)
        return false;
    struct tb_interval old = *i;
    bool front = before || (!after && lo > old.valid_lo);
    uint32_t from = front ? old.valid_lo : most(hi, old.valid_lo), to = front ? least(lo, old.valid_hi) : old.valid_hi;
    i->valid_lo = i->valid_hi = i->dirty_lo = i->dirty_hi = 0;
    if (from < to) {
        i->valid_lo = (uint16_t)from;
        i->valid_hi = (uint16_t)to;
    }
    from = most(from, old.dirty_lo);
    to = least(to, old.dirty_hi);
    if (from < to) {
        i->dirty_lo = (uint16_t)from;
        i->dirty_hi = (uint16_t)to;
    }
    return true;
}

/* What block i of a buffer holds, also of one without a fragment. */
static struct tb_interval block_at(const tb_engine *e, const struct tb_buffer *b, uint32_t i)
{
    struct tb_interval block;
    if (b->fragment != TB_NONE)
        return blocks_of(e, b)[i];
    inside(i, b->valid_lo, b->valid_hi, &block.valid_lo, &block.valid_hi);
    inside(i, b->dirty_lo, b->dirty_hi, &block.dirty_lo, &block.dirty_hi);
    return block;
}

bool tb_interval_may_remove(const tb_engine *e, const struct tb_buffer *b, uint32_t lo, uint32_t hi)
{
    for (uint32_t i = lo / BLOCK; i <= (hi - 1) / BLOCK; i++) {
        struct tb_interval block = block_at(e, b, i);
        if (!take_out(&block, most(lo, i * BLOCK) - i * BLOCK, least(hi, (i + 1) * BLOCK) - i * BLOCK))
            return false;
    }
    return true;
}

/* The bounds of what the blocks say; where that is nothing, the fragment goes. */
static void bound(tb_engine *e, struct tb_buffer *b)
{
    const struct tb_interval *block = blocks_of(e, b);
    b->valid_lo = b->valid_hi = b->dirty_lo = b->dirty_hi = 0;
    for (uint32_t i = 0, n = (uint32_t)(tb_buffer_size(e, b) / BLOCK); i < n; i++) {
        if (block[i].dirty_lo < block[i].dirty_hi)
            widen(&b->dirty_lo, &b->dirty_hi, i * BLOCK + block[i].dirty_lo, i * BLOCK + block[i].dirty_hi);
        if (block[i].valid_lo < block[i].valid_hi)
            widen(&b->valid_lo, &b->valid_hi, i * BLOCK + block[i].valid_lo, i * BLOCK + block[i].valid_hi);
    }
    if (b->valid_lo == b->valid_hi)
        give_fragment(e, b);
}

static void remove_from_blocks(tb_engine *e, struct tb_buffer *b, uint32_t lo, uint32_t hi)
{
    for (uint32_t i = lo / BLOCK; i <= (hi - 1) / BLOCK; i++)
        take_out(&blocks_of(e, b)[i], most(lo, i * BLOCK) - i * BLOCK, least(hi, (i + 1) * BLOCK) - i * BLOCK);
    bound(e, b);
}

/* In a buffer of one block the two intervals are those of the block. */
static void remove_from_one(struct tb_buffer *b, uint32_t lo, uint32_t hi)
{
    struct tb_interval i = {(uint16_t)b->valid_lo, (uint16_t)b->valid_hi, (uint16_t)b->dirty_lo, (uint16_t)b->dirty_hi};
    take_out(&i, lo, hi);
    b->dirty_lo = i.dirty_lo;
    b->dirty_hi = i.dirty_hi;
    b->valid_lo = i.valid_lo;
    b->valid_hi = i.valid_hi;
}

int tb_interval_remove(tb_engine *e, struct tb_buffer *b, uint32_t lo, uint32_t hi)
{
    assert(lo < hi && hi <= tb_buffer_size(e, b) && tb_interval_may_remove(e, b, lo, hi));
    uint64_t before = tb_interval_dirty_bytes(e, b);
    if (b->fragment == TB_NONE && !is_one_block(e, b) && !split(e, b))
        return -ENOBUFS;
    if (b->fragment != TB_NONE)
        remove_from_blocks(e, b, lo, hi);
    else
        remove_from_one(b, lo, hi);
    b->version++;
    TB_ASSERT_WHOLE(tb_interval_is_whole(e, b));
    tb_count_dirty(e, tb_slab_layout(e, b)->tier, tb_interval_dirty_bytes(e, b) - before);
    return 0;
}

void tb_interval_forget_clean(tb_engine *e, struct tb_buffer *b)
{
    b->valid_lo = b->dirty_lo;
    b->valid_hi = b->dirty_hi;
    for (uint32_t i = 0, n = b->fragment == TB_NONE ? 0 : (uint32_t)(tb_buffer_size(e, b) / BLOCK); i < n; i++) {
        struct tb_interval *block = &blocks_of(e, b)[i];
        block->valid_lo = block->dirty_lo;
        block->valid_hi = block->dirty_hi;
    }
    b->version++;
    TB_ASSERT_WHOLE(tb_interval_is_whole(e, b));
}

static void mend(uint32_t *lo, uint32_t *hi)
{
    if (*hi < *lo)
        *lo = *hi = 0;
}

static void mend16(uint16_t *lo, uint16_t *hi)
{
    if (*hi < *lo)
        *lo = *hi = 0;
}

/* For repair, with the chunk locked: nothing else changes the buffer. */
void tb_interval_mend(tb_engine *e, struct tb_buffer *b)
{
    mend(&b->valid_lo, &b->valid_hi);
    mend(&b->dirty_lo, &b->dirty_hi);
    if (b->dirty_lo < b->dirty_hi)
        widen(&b->valid_lo, &b->valid_hi, b->dirty_lo, b->dirty_hi);
    if (b->fragment != TB_NONE)
        for (uint32_t i = 0, n = (uint32_t)(tb_buffer_size(e, b) / BLOCK); i < n; i++) {
            struct tb_interval *block = &blocks_of(e, b)[i];
            mend16(&block->valid_lo, &block->valid_hi);
            mend16(&block->dirty_lo, &block->dirty_hi);
            if (block->dirty_lo < block->dirty_hi)
                widen_block(&block->valid_lo, &block->valid_hi, block->dirty_lo, block->dirty_hi);
        }
}

int tb_interval_copy(tb_engine *e, struct tb_buffer *to, const struct tb_buffer *from)
{
    assert(to->fragment == TB_NONE && tb_buffer_size(e, to) == tb_buffer_size(e, from));
    if (from->fragment != TB_NONE) {
        if (!split(e, to))
            return -ENOBUFS;
        memcpy(blocks_of(e, to), blocks_of(e, from), e->header->layout.fragment_bytes);
    }
    to->valid_lo = from->valid_lo;
    to->valid_hi = from->valid_hi;
    to->dirty_lo = from->dirty_lo;
    to->dirty_hi = from->dirty_hi;
    tb_count_dirty(e, tb_slab_layout(e, to)->tier, tb_interval_dirty_bytes(e, to));
    to->version++;
    return 0;
}

bool tb_interval_is_valid(const tb_engine *e, const struct tb_buffer *b)
{
    return b->valid_lo <= b->valid_hi && b->valid_hi <= tb_buffer_size(e, b) && b->dirty_lo <= b->dirty_hi &&
           (b->dirty_lo == b->dirty_hi || (b->dirty_lo >= b->valid_lo && b->dirty_hi <= b->valid_hi));
}

static bool block_is_valid(const struct tb_interval *b)
{
    return b->valid_lo <= b->valid_hi && b->valid_hi <= BLOCK && b->dirty_lo <= b->dirty_hi &&
           (b->dirty_lo == b->dirty_hi || (b->dirty_lo >= b->valid_lo && b->dirty_hi <= b->valid_hi));
}

/* The buffer's own intervals are bounds of what its blocks say. */
bool tb_interval_is_whole(const tb_engine *e, const struct tb_buffer *b)
{
    if (!tb_interval_is_valid(e, b))
        return false;
    for (uint32_t i = 0, n = b->fragment == TB_NONE ? 0 : (uint32_t)(tb_buffer_size(e, b) / BLOCK); i < n; i++) {
        const struct tb_interval *block = &blocks_of(e, b)[i];
        uint32_t lo = i * BLOCK + block->valid_lo, hi = i * BLOCK + block->valid_hi;
        if (!block_is_valid(block) || (lo < hi && (lo < b->valid_lo || hi > b->valid_hi)))
            return false;
    }
    return true;
}
