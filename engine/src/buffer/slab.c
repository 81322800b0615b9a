/*
 * Buffers of one size in one tier: taken from the free list, many at once, given back, and
 * reclaimed from clean ones. The client is noted in the buffer before its state changes, so repair
 * finds a buffer that a killed client took or was giving back.
 */
#include "buffer/slab.h"

#include "base/kill_point.h"
#include "base/valid.h"
#include "buffer/heat.h"
#include "buffer/map.h"
#include "buffer/medium.h"

#define RECLAIM_LOOKS 4096u /* records looked at before a slab counts as full */
#define RECLAIM_CHOICE 8u   /* of so many clean buffers the coldest goes */

/* The holder was killed: the first of the list may be marked as taken, and the count may be off by as many. */
static void repair_free_list(tb_engine *e, struct tb_lane *lane)
{
    uint32_t n = 0;
    for (uint32_t i = lane->free; i != TB_NONE; i = e->region.buffers[i].next, n++)
        e->region.buffers[i].state = TB_BUFFER_FREE;
    lane->n_free = n;
}

static struct tb_lane *lane_of(const tb_engine *e, const struct tb_buffer *b)
{
    uint32_t number = tb_buffer_number(e, b) - tb_slab_layout(e, b)->first_buffer;
    return &e->region.slabs[b->slab].lane[number / TB_LANE_RUN % TB_LANES];
}

static bool is_of(const tb_engine *e, const struct tb_lane *lane, const struct tb_buffer *b)
{
    return b->state == TB_BUFFER_FREE && lane_of(e, b) == lane;
}

/* Under the lane's lock: the list and its count agree, by a look at the head. */
static bool lane_is_valid(const tb_engine *e, const struct tb_lane *lane)
{
    return lane->free == TB_NONE ? lane->n_free == 0 : lane->n_free > 0 && is_of(e, lane, &e->region.buffers[lane->free]);
}

static bool lane_is_whole(const tb_engine *e, const struct tb_lane *lane)
{
    uint32_t n = 0;
    for (uint32_t i = lane->free; i != TB_NONE; i = e->region.buffers[i].next)
        if (!is_of(e, lane, &e->region.buffers[i]) || ++n > lane->n_free)
            return false;
    return n == lane->n_free;
}

bool tb_slab_is_whole(const tb_engine *e, uint32_t s)
{
    for (uint32_t i = 0; i < TB_LANES; i++)
        if (!lane_is_whole(e, &e->region.slabs[s].lane[i]))
            return false;
    return true;
}

static void lock_lane(tb_engine *e, struct tb_lane *lane)
{
    if (tb_lock_take(&lane->lock) == TB_LOCK_ORPHANED)
        repair_free_list(e, lane);
}

void tb_slabs_mend(tb_engine *e)
{
    for (uint32_t i = 0; i < e->header->layout.n_slabs * TB_LANES; i++) {
        struct tb_lane *lane = &e->region.slabs[i / TB_LANES].lane[i % TB_LANES];
        lock_lane(e, lane);
        TB_ASSERT_WHOLE(lane_is_whole(e, lane));
        tb_lock_drop(&lane->lock);
    }
}

/*
 * Up to `n` buffers from the front of the list: how many there were. One store moves the head
 * past all of them; if killed before it, the next holder of the lock marks them as free again.
 */
static uint32_t take_from(tb_engine *e, struct tb_lane *lane, uint32_t n, struct tb_buffer **row)
{
    uint32_t got = 0;
    if (lane->free == TB_NONE)
        return 0;
    lock_lane(e, lane);
    uint32_t i = lane->free;
    assert(lane_is_valid(e, lane));
    for (; i != TB_NONE && got < n; i = row[got++]->next) {
        row[got] = &e->region.buffers[i];
        row[got]->client = (uint16_t)e->slot;
        TB_STEP("take");
        atomic_store_explicit(&row[got]->state, TB_BUFFER_ALLOCATED, memory_order_release);
    }
    TB_STEP("taken");
    atomic_store_explicit(&lane->free, i, memory_order_release);
    TB_STEP("free list");
    atomic_store_explicit(&lane->n_free, lane->n_free - got, memory_order_release);
    tb_lock_drop(&lane->lock);
    return got;
}

/* From this client's lane, else from the next one that has some. */
static uint32_t take_free(tb_engine *e, uint32_t s, uint32_t n, struct tb_buffer **row)
{
    uint32_t got = 0;
    for (uint32_t i = 0; i < TB_LANES && !got; i++)
        got = take_from(e, &e->region.slabs[s].lane[(e->slot + i) % TB_LANES], n, row);
    return got;
}

static TB_UNLOCKED bool is_reclaimable(const struct tb_buffer *b)
{
    return b->state == TB_BUFFER_LIVE && tb_buffer_is_clean(b);
}

/*
 * The coldest of the next few clean buffers; NULL if none is colder than `limit`. Read
 * without a lock: dropping it checks again.
 */
static struct tb_buffer *choose(tb_engine *e, uint32_t s, uint32_t limit, uint32_t *looks)
{
    struct tb_slab *slab = &e->region.slabs[s];
    const struct tb_layout_slab *l = &e->header->layout.slab[s];
    struct tb_buffer *best = NULL;
    uint32_t coldest = limit;
    for (uint32_t met = 0; met < RECLAIM_CHOICE && *looks && coldest; --*looks) {
        struct tb_buffer *b = &e->region.buffers[l->first_buffer + slab->hand++ % l->n_buffers];
        if (!is_reclaimable(b))
            continue;
        met++;
        uint32_t heat = tb_heat_seen(e, b);
        if (heat >= coldest)
            continue;
        coldest = heat;
        best = b;
    }
    return best;
}

/*
 * Drop one clean buffer, the coldest of a few. The hand moves on, so later calls look at
 * other buffers. Locks are only tried, because the caller may hold a chunk.
 */
static bool reclaim(tb_engine *e, uint32_t s, uint32_t limit)
{
    struct tb_slab *slab = &e->region.slabs[s];
    uint32_t n = e->header->layout.slab[s].n_buffers, looks = n < RECLAIM_LOOKS ? n : RECLAIM_LOOKS;
    while (slab->n_clean && looks) {
        struct tb_buffer *b = choose(e, s, limit, &looks);
        if (b && tb_map_drop_clean(e, b))
            return true;
        if (!b && limit != TB_HEAT_ANY)
            return false; /* the hand has moved: the next call looks at other buffers */
    }
    return false;
}

static void make_empty(const tb_engine *e, struct tb_buffer *b)
{
    assert(b->state == TB_BUFFER_ALLOCATED && b->client == e->slot);
    (void)e;
    b->file = TB_NONE;
    b->valid_lo = b->valid_hi = b->dirty_lo = b->dirty_hi = 0;
    b->fragment = b->prev = TB_NONE;
    b->flags = 0;
    atomic_store_explicit(&b->heat, 0, memory_order_relaxed);
}

/* The buffers are this client's alone until they are published. If killed here, repair frees them. */
static uint32_t take(tb_engine *e, uint32_t s, uint32_t limit, uint32_t n, struct tb_buffer **row)
{
    uint32_t got = take_free(e, s, n, row);
    while (!got && limit && reclaim(e, s, limit))
        got = take_free(e, s, n, row);
    for (uint32_t i = 0; i < got; i++) {
        assert(row[i]->slab == s);
        make_empty(e, row[i]);
    }
    return got;
}

struct tb_buffer *tb_slab_take(tb_engine *e, uint32_t s, uint32_t limit)
{
    struct tb_buffer *b;
    return take(e, s, limit, 1, &b) ? b : NULL;
}

/* Without the lane's lock: if another thread takes that buffer first, the processor fetched some lines in vain. */
void tb_slab_ask_ahead(tb_engine *e, uint32_t s, uint64_t n)
{
    uint32_t next = e->region.slabs[s].lane[e->slot % TB_LANES].free;
    if (next == TB_NONE)
        return;
    const struct tb_buffer *b = &e->region.buffers[next];
    __builtin_prefetch(b, 1);
    if (tb_tier_is_memory(e, e->header->layout.slab[s].tier))
        tb_medium_will_come(e, b, 0, n);
}

void tb_slab_give(tb_engine *e, struct tb_buffer *b)
{
    struct tb_lane *lane = lane_of(e, b);
    assert(b->state != TB_BUFFER_FREE && b->fragment == TB_NONE && b->prev == TB_NONE && !tb_buffer_is_dirty(b));
    b->version++;
    lock_lane(e, lane);
    b->next = lane->free;
    b->client = (uint16_t)e->slot;
    /* if killed here, repair finds it by b->client; after the next store, by the orphaned lock of the lane */
    b->state = TB_BUFFER_ALLOCATED;
    TB_STEP("give back");
    lane->free = tb_buffer_number(e, b);
    TB_STEP("given back");
    b->state = TB_BUFFER_FREE;
    lane->n_free++;
    assert(lane_is_valid(e, lane));
    tb_lock_drop(&lane->lock);
}

/* Bytes of the tier's buffers that are in `lane` counted from this client's own one. */
static uint64_t free_bytes(const tb_engine *e, uint32_t tier, uint32_t lane)
{
    const struct tb_layout *l = &e->header->layout;
    uint64_t bytes = 0;
    for (uint32_t s = l->tier_first_slab[tier]; tb_is_slab_of(l, s, tier); s++)
        bytes += e->region.slabs[s].lane[(e->slot + lane) % TB_LANES].n_free * l->slab[s].buffer_size;
    return bytes;
}

/* A client that was killed before it counted a clean one may have left the number below 0, until repair. */
static uint64_t clean_bytes(const tb_engine *e, uint32_t tier)
{
    const struct tb_layout *l = &e->header->layout;
    uint64_t bytes = 0;
    for (uint32_t s = l->tier_first_slab[tier]; tb_is_slab_of(l, s, tier); s++) {
        uint32_t n = e->region.slabs[s].n_clean;
        bytes += n <= l->slab[s].n_buffers ? n * l->slab[s].buffer_size : 0;
    }
    return bytes;
}

uint64_t tb_tier_room(const tb_engine *e, uint32_t tier, uint64_t enough)
{
    uint64_t room = 0;
    for (uint32_t i = 0; i < TB_LANES && room < enough; i++)
        room += free_bytes(e, tier, i);
    return room < enough ? room + clean_bytes(e, tier) : room;
}

uint64_t tb_tier_used(const tb_engine *e, uint32_t tier)
{
    uint64_t used = tb_layout_tier_bytes(&e->header->layout, tier);
    for (uint32_t i = 0; i < TB_LANES; i++)
        used -= free_bytes(e, tier, i);
    return used;
}

struct tb_buffer *tb_tier_take_class(tb_engine *e, uint32_t tier, uint32_t class_index, uint32_t limit)
{
    const struct tb_layout *l = &e->header->layout;
    struct tb_buffer *b = NULL;
    for (uint32_t s = l->tier_first_slab[tier]; tb_is_slab_of(l, s, tier) && !b; s++)
        if (l->slab[s].class_index == class_index)
            b = tb_slab_take(e, s, limit);
    return b;
}

/*
 * Of the tier's slabs that were not tried: the one with the largest buffers that the bytes
 * fill, else with the smallest that holds all of them. TB_NONE: all were tried.
 */
static uint32_t best_slab(const tb_engine *e, uint32_t tier, uint64_t bytes, const bool *tried)
{
    const struct tb_layout *l = &e->header->layout;
    uint32_t first = l->tier_first_slab[tier], best = TB_NONE;
    for (uint32_t s = first; tb_is_slab_of(l, s, tier); s++) {
        if (tried[s - first])
            continue;
        uint64_t size = l->slab[s].buffer_size, b = best == TB_NONE ? 0 : l->slab[best].buffer_size;
        bool fills = size <= bytes, best_fills = best != TB_NONE && b <= bytes;
        if (best == TB_NONE || (fills ? !best_fills || size > b : !best_fills && size < b))
            best = s;
    }
    return best;
}

/* How many of the next cells of a transfer that begins at `offset` are best held by buffers of slab `s`: at most TB_ROW. */
static uint32_t row_of(const tb_engine *e, uint32_t tier, uint32_t s, uint64_t offset, uint64_t bytes)
{
    static const bool untried[TB_MAX_SLABS];
    uint64_t size = e->header->layout.slab[s].buffer_size, take = size - offset % size;
    uint32_t n = 1;
    for (; n < TB_ROW && take < bytes; n++, take = size) {
        bytes -= take;
        if (bytes < size && best_slab(e, tier, bytes, untried) != s)
            break;
    }
    return n;
}

/* Slab by slab, the best first. */
static uint32_t take_best(tb_engine *e, uint32_t tier, uint64_t offset, uint64_t bytes, uint32_t limit, uint32_t most,
                          struct tb_buffer **row)
{
    bool tried[TB_MAX_SLABS] = {false};
    for (uint32_t s; (s = best_slab(e, tier, bytes, tried)) != TB_NONE;) {
        uint32_t got = take(e, s, limit, most > 1 ? row_of(e, tier, s, offset, bytes) : 1, row);
        if (got)
            return got;
        tried[s - e->header->layout.tier_first_slab[tier]] = true;
    }
    if (limit == TB_HEAT_ANY)
        e->header->tier[tier].waits++;
    return 0;
}

struct tb_buffer *tb_tier_take(tb_engine *e, uint32_t tier, uint64_t bytes, uint32_t limit)
{
    struct tb_buffer *b;
    return take_best(e, tier, 0, bytes, limit, 1, &b) ? b : NULL;
}

uint32_t tb_tier_take_row(tb_engine *e, uint32_t tier, uint64_t offset, uint64_t bytes, struct tb_buffer **row)
{
    return take_best(e, tier, offset, bytes, TB_HEAT_ANY, TB_ROW, row);
}
