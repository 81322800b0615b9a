/*
 * Buffers of one size in one tier: taken from the free list, given back, and reclaimed
 * from clean ones. The client is noted in the buffer before its state changes, so repair
 * finds a buffer that a killed client took or was giving back.
 */
#include "buffer/slab.h"

#include "base/kill_point.h"
#include "base/valid.h"
#include "buffer/heat.h"
#include "buffer/map.h"

#define RECLAIM_LOOKS 4096u /* records looked at before a slab counts as full */
#define RECLAIM_CHOICE 8u   /* of so many clean buffers the coldest goes */

/* The holder was killed: the head of the list may be marked as taken, and the count may be off by one. */
static void repair_free_list(tb_engine *e, struct tb_slab *slab)
{
    uint32_t n = 0;
    if (slab->free != TB_NONE)
        e->region.buffers[slab->free].state = TB_BUFFER_FREE;
    for (uint32_t i = slab->free; i != TB_NONE; i = e->region.buffers[i].next)
        n++;
    slab->n_free = n;
}

bool tb_slab_is_valid(const tb_engine *e, uint32_t s)
{
    const struct tb_slab *slab = &e->header->slab[s];
    const struct tb_layout_slab *l = &e->header->layout.slab[s];
    const struct tb_buffer *head = slab->free == TB_NONE ? NULL : &e->region.buffers[slab->free];
    return (head == NULL) == (slab->n_free == 0) && slab->n_free <= l->n_buffers &&
           (!head || (head->slab == s && head->state == TB_BUFFER_FREE));
}

bool tb_slab_is_whole(const tb_engine *e, uint32_t s)
{
    uint32_t n = 0;
    for (uint32_t i = e->header->slab[s].free; i != TB_NONE; i = e->region.buffers[i].next)
        if (e->region.buffers[i].state != TB_BUFFER_FREE || e->region.buffers[i].slab != s || ++n > e->header->slab[s].n_free)
            return false;
    return tb_slab_is_valid(e, s) && n == e->header->slab[s].n_free;
}

static void lock_slab(tb_engine *e, struct tb_slab *slab)
{
    if (tb_lock_take(&slab->lock) == TB_LOCK_ORPHANED)
        repair_free_list(e, slab);
}

void tb_slabs_mend(tb_engine *e)
{
    for (uint32_t s = 0; s < e->header->layout.n_slabs; s++) {
        lock_slab(e, &e->header->slab[s]);
        TB_ASSERT_WHOLE(tb_slab_is_whole(e, s));
        tb_lock_drop(&e->header->slab[s].lock);
    }
}

/*
 * Locked by the slab. If killed after ALLOCATED and before the head moves, the next holder
 * of the lock marks the head as free again.
 */
static struct tb_buffer *take_free(tb_engine *e, uint32_t s)
{
    struct tb_slab *slab = &e->header->slab[s];
    struct tb_buffer *b = NULL;
    if (slab->free == TB_NONE)
        return NULL;
    lock_slab(e, slab);
    uint32_t i = slab->free;
    assert(tb_slab_is_valid(e, s));
    if (i != TB_NONE) {
        b = &e->region.buffers[i];
        b->client = (uint16_t)e->slot;
        TB_STEP("take");
        b->state = TB_BUFFER_ALLOCATED;
        TB_STEP("taken");
        slab->free = b->next;
        TB_STEP("free list");
        slab->n_free--;
    }
    tb_lock_drop(&slab->lock);
    return b;
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
    struct tb_slab *slab = &e->header->slab[s];
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
    struct tb_slab *slab = &e->header->slab[s];
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

/* The buffer is this client's alone until it is published. If killed here, repair frees it. */
struct tb_buffer *tb_slab_take(tb_engine *e, uint32_t s, uint32_t limit)
{
    struct tb_buffer *b = take_free(e, s);
    while (!b && limit && reclaim(e, s, limit))
        b = take_free(e, s);
    if (b) {
        assert(b->slab == s && b->state == TB_BUFFER_ALLOCATED && b->client == e->slot);
        b->file = TB_NONE;
        b->valid_lo = b->valid_hi = b->dirty_lo = b->dirty_hi = 0;
        b->fragment = b->prev = TB_NONE;
        b->flags = 0;
        b->heat = 0;
        e->header->tier[e->header->layout.slab[s].tier].used += e->header->layout.slab[s].buffer_size;
    }
    return b;
}

void tb_slab_give(tb_engine *e, struct tb_buffer *b)
{
    struct tb_slab *slab = &e->header->slab[b->slab];
    assert(b->state != TB_BUFFER_FREE && b->fragment == TB_NONE && b->prev == TB_NONE && !tb_buffer_is_dirty(b));
    tb_counters(e, b)->used -= tb_buffer_size(e, b);
    b->version++;
    lock_slab(e, slab);
    b->next = slab->free;
    b->client = (uint16_t)e->slot;
    /* if killed here, repair finds it by b->client; after the next store, by the orphaned slab lock */
    b->state = TB_BUFFER_ALLOCATED;
    TB_STEP("give back");
    slab->free = tb_buffer_number(e, b);
    TB_STEP("given back");
    b->state = TB_BUFFER_FREE;
    slab->n_free++;
    assert(tb_slab_is_valid(e, b->slab));
    tb_lock_drop(&slab->lock);
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

/* Try the slabs in this order: the largest buffers that the bytes fill, then the smallest that holds all of them. */
struct tb_buffer *tb_tier_take(tb_engine *e, uint32_t tier, uint64_t bytes, uint32_t limit)
{
    const struct tb_layout *l = &e->header->layout;
    uint32_t first = l->tier_first_slab[tier], n = e->header->config.tiers[tier].n_slabs;
    bool tried[TB_MAX_SLABS] = {false};
    for (uint32_t k = 0; k < n; k++) {
        int best = -1;
        for (uint32_t s = 0; s < n; s++) {
            if (tried[s])
                continue;
            uint64_t size = l->slab[first + s].buffer_size, b = best < 0 ? 0 : l->slab[first + (uint32_t)best].buffer_size;
            bool fills = size <= bytes, best_fills = best >= 0 && b <= bytes;
            if (best < 0 || (fills ? !best_fills || size > b : !best_fills && size < b))
                best = (int)s;
        }
        assert(best >= 0);
        tried[best] = true;
        struct tb_buffer *taken = tb_slab_take(e, first + (uint32_t)best, limit);
        if (taken)
            return taken;
    }
    if (limit == TB_HEAT_ANY)
        e->header->tier[tier].waits++;
    return NULL;
}
