/*
 * max-bandwidth (HPDC'18, Hermes' default): from the top tier down, place the
 * bytes here if they fit; if not, take the fastest of three ways, by predicted
 * time:
 *   split  as much as fits here, the rest by the same rule from the next tier on;
 *   skip   all by the same rule from the next tier on;
 *   flush  first what must go from here to make room, then place all here.
 * Below the last tier is the PFS.  A flush writes runs of RUN bytes, so a small
 * write that would cost the PFS a whole operation shares one with what follows.
 *
 * Cost: one look where the top tier has room, which is the common case; else one
 * look and three sums at each tier.  A tier with room for a part doubles the sums
 * below it, and while tiers are filled from the top at most one of them has.
 */
#include <assert.h>

#include "placement/policy.h"

#define RUN (1u << 20)
#define ALL_TIERS (TB_KNOW_ROOMS | TB_KNOW_DIRTY | TB_KNOW_QUEUES)

/* What a place is to this write; the PFS is the last and takes all. */
struct place {
    double queue, overhead, per_byte; /* of a write: seconds, of which overhead is queue and latency; seconds per byte */
    double flush_overhead, flush_per_byte;
    uint64_t room, flushable, capacity;
};

/* Which tiers are filled, and where the rest goes. */
struct way {
    uint32_t filled; /* a bit for each tier */
    uint32_t last;
    bool flush;
    double time;
};

static double take(const struct place *p, uint64_t bytes)
{
    return p->overhead + p->per_byte * (double)bytes;
}

static double flush(const struct place *p, uint64_t bytes)
{
    return p->flush_overhead + p->flush_per_byte * (double)bytes;
}

static struct way best_from(const struct place *place, uint32_t tier, uint64_t bytes)
{
    const struct place *here = &place[tier];
    struct way all_here = {.last = tier, .time = bytes ? take(here, bytes) : 0};
    if (bytes <= here->room)
        return all_here;
    struct way best = best_from(place, tier + 1, bytes);
    if (here->room) {
        struct way split = best_from(place, tier + 1, bytes - here->room);
        split.filled |= 1u << tier;
        split.time += take(here, here->room);
        best = split.time <= best.time ? split : best;
    }
    if (bytes <= here->capacity && bytes - here->room <= here->flushable) {
        struct way after = all_here;
        after.flush = true;
        after.time += flush(here, bytes - here->room);
        best = after.time < best.time ? after : best;
    }
    return best;
}

static void look(const struct tb_hierarchy *h, struct place *place, bool may_flush)
{
    const struct tb_tier_figures pfs = h->tiers->pfs;
    double pfs_queue = h->pfs_queue;
    uint32_t n = h->tiers->n;
    place[n] = (struct place){.overhead = pfs_queue + pfs.latency, .per_byte = 1 / pfs.bandwidth, .room = UINT64_MAX};
    for (uint32_t t = 0; t < n; t++) {
        const struct tb_tier_figures f = h->tiers->tier[t].figures;
        double queue = h->tier[t].queue;
        place[t] = (struct place){
            .queue = queue,
            .overhead = queue + f.latency,
            .per_byte = 1 / f.bandwidth,
            .flush_overhead = pfs_queue,
            .flush_per_byte = (f.read_latency + pfs.latency) / RUN + 1 / f.read_bandwidth + 1 / pfs.bandwidth,
            .room = h->tier[t].room,
            .flushable = may_flush ? h->tier[t].dirty : 0,
            .capacity = h->tiers->tier[t].capacity,
        };
    }
}

static void give(struct tb_placement *out, uint32_t tier, const struct place *p, uint64_t bytes)
{
    tb_placement_add(out, tier, bytes, take(p, bytes) - p->queue);
}

static void place(const struct tb_hierarchy *h, const struct tb_placed_write *w, struct tb_policy_state *state, struct tb_placement *out)
{
    (void)state;
    struct place places[TB_MAX_TIERS + 1];
    uint32_t n = h->tiers->n;
    uint64_t left = w->bytes;
    if (h->tier[0].room >= left) {
        tb_placement_add(out, 0, left, 0);
        return;
    }
    out->wants = ALL_TIERS & ~h->known;
    if (out->wants)
        return;
    look(h, places, w->may_flush);
    struct way best = best_from(places, 0, left);
    assert(best.last <= n && !(best.filled >> best.last) && !(best.flush && best.last == n));
    for (uint32_t t = 0; t < best.last; t++)
        left -= best.filled & 1u << t ? places[t].room : 0;
    if (best.flush) {
        out->flush_tier = best.last;
        assert(left > places[best.last].room);
        out->flush_first = left - places[best.last].room;
        return;
    }
    for (uint32_t t = 0; t < best.last; t++)
        if (best.filled & 1u << t)
            give(out, t, &places[t], places[t].room);
    if (best.last < n)
        give(out, best.last, &places[best.last], left);
}

const struct tb_placement_ops tb_placement_max_bandwidth = {.needs = TB_KNOW_TOP, .place = place};
