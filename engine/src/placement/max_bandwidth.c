/*
 * max-bandwidth (HPDC'18, Hermes' default): from the top tier down, place the
 * bytes here if they fit; if not, take the fastest of three ways, by predicted
 * time:
 *   split  as much as fits here, the rest by the same rule from the next tier on;
 *   skip   all by the same rule from the next tier on;
 *   flush  first what must go from here to make room, then place all here.
 * Below the last tier lies the PFS.  A flush writes runs of RUN bytes, so a small
 * write that would cost the PFS a whole operation shares one with what follows.
 *
 * Cost: one look where the top tier has room, which is the common case; else one
 * look and three sums at each tier.  A tier with room for a part doubles the sums
 * below it, and while tiers are filled from the top at most one of them has.
 */
#include <math.h>

#include "buffer/slab.h"
#include "placement/placement.h"

#define RUN (1u << 20)

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

static uint64_t capacity_of(const tb_engine *e, uint32_t tier)
{
    const struct tb_layout *l = &e->header->layout;
    uint64_t bytes = 0;
    for (uint32_t s = l->tier_first_slab[tier], end = s + e->header->config.tiers[tier].n_slabs; s < end; s++)
        bytes += l->slab[s].n_buffers * l->slab[s].buffer_size;
    return bytes;
}

static void look(tb_engine *e, struct place *place, uint32_t n, uint64_t now, bool may_flush)
{
    struct tb_tier_figures pfs = tb_tier_figures(e, TB_NONE);
    double pfs_queue = tb_tier_queue(e, TB_NONE, now);
    place[n] = (struct place){.overhead = pfs_queue + pfs.latency, .per_byte = 1 / pfs.bandwidth, .room = UINT64_MAX};
    for (uint32_t t = 0; t < n; t++) {
        struct tb_tier_figures f = tb_tier_figures(e, t);
        double queue = tb_tier_queue(e, t, now);
        place[t] = (struct place){
            .queue = queue,
            .overhead = queue + f.latency,
            .per_byte = 1 / f.bandwidth,
            .flush_overhead = pfs_queue,
            .flush_per_byte = (f.read_latency + pfs.latency) / RUN + 1 / f.read_bandwidth + 1 / pfs.bandwidth,
            .room = tb_tier_room(e, t),
            .flushable = may_flush ? (uint64_t)e->header->tier[t].dirty : 0,
            .capacity = capacity_of(e, t),
        };
    }
}

static void give(tb_engine *e, struct tb_placement *out, uint32_t tier, const struct place *p, uint64_t now, uint64_t bytes)
{
    tb_placement_add(out, tier, bytes);
    tb_tier_reserve(e, tier, now, take(p, bytes) - p->queue);
}

static void place(tb_engine *e, const struct tb_place_request *request, struct tb_placement *out)
{
    struct place places[TB_MAX_TIERS + 1];
    uint32_t n = e->header->config.n_tiers;
    uint64_t left = request->bytes;
    if (tb_tier_room(e, 0) >= left) {
        tb_placement_add(out, 0, left);
        return;
    }
    uint64_t now = tb_model_now();
    look(e, places, n, now, request->may_flush);
    struct way best = best_from(places, 0, left);
    for (uint32_t t = 0; t < best.last; t++)
        left -= best.filled & 1u << t ? places[t].room : 0;
    if (best.flush) {
        *out = (struct tb_placement){.flush_tier = best.last, .flush_first = left - places[best.last].room};
        return;
    }
    for (uint32_t t = 0; t < best.last; t++)
        if (best.filled & 1u << t)
            give(e, out, t, &places[t], now, places[t].room);
    if (best.last < n)
        give(e, out, best.last, &places[best.last], now, left);
}

const struct tb_placement_ops tb_placement_max_bandwidth = {.name = "max-bandwidth", .place = place};
