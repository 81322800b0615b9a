/*
 * minimize-io-time (after the linear program of Hermes' 0.1 beta): the fractions
 * of a write that finish at the same time on all tiers, so that the slowest takes
 * as little as it can, within the room each has.  No solver: the time is the
 * level to which the write, poured over the tiers, fills what is queued there.
 *
 * Buffers are whole, so the write is divided into units of the grain, and the
 * last units go one by one to the tier that finishes them first: no other division
 * into such units is faster.  A write of one unit can't be divided; writers block
 * in their writes, and a tier that idles while they queue elsewhere is bandwidth
 * lost for all, so such a write takes a free tier before it queues after others.
 * Tiers slow beyond use (the slowest that make up less than 1/32 of all bandwidth)
 * wait until a queue is long enough to make them the faster choice.
 *
 * Cost: n looks and n^2 additions for n tiers, n at most 8; no loop over units.
 */
#include <math.h>

#include "placement/policy.h"

#define USEFUL_SHARE (1.0 / 32)

/* A tier as the write sees it: `k` units finish after start + k * each seconds. */
struct lane {
    uint32_t tier;
    double start, each;
    uint64_t room, units; /* at most; given */
    bool is_free;
    double bandwidth;
};

static uint32_t look(const struct tb_hierarchy *h, struct lane *lane)
{
    uint64_t grain = h->tiers->grain;
    uint32_t n = 0;
    for (uint32_t t = 0; t < h->tiers->n; t++) {
        const struct tb_tier_figures f = h->tiers->tier[t].figures;
        uint64_t room = h->tier[t].room / grain;
        double queue = h->tier[t].queue, busy = f.latency / f.channels;
        if (room)
            lane[n++] = (struct lane){.tier = t,
                                      .start = queue + f.latency - busy,
                                      .each = busy + (double)grain / f.bandwidth,
                                      .room = room,
                                      .is_free = queue == 0,
                                      .bandwidth = f.bandwidth};
    }
    return n;
}

static bool is_useful(const struct lane *lane, uint32_t n, uint32_t i)
{
    double all = 0, slower = 0;
    for (uint32_t k = 0; k < n; k++) {
        all += lane[k].bandwidth;
        slower += lane[k].bandwidth <= lane[i].bandwidth ? lane[k].bandwidth : 0;
    }
    return slower >= all * USEFUL_SHARE;
}

/* Keep the lanes that are free and useful, or all where there are none. */
static uint32_t keep_free(struct lane *lane, uint32_t n)
{
    struct lane kept[TB_MAX_TIERS];
    uint32_t n_kept = 0;
    for (uint32_t i = 0; i < n; i++)
        if (lane[i].is_free && is_useful(lane, n, i))
            kept[n_kept++] = lane[i];
    for (uint32_t i = 0; i < n_kept; i++)
        lane[i] = kept[i];
    return n_kept ? n_kept : n;
}

/* Units that all lanes take until `time`. */
static double poured(const struct lane *lane, uint32_t n, double time)
{
    double units = 0;
    for (uint32_t i = 0; i < n; i++)
        units += fmin(fmax(0, (time - lane[i].start) / lane[i].each), (double)lane[i].room);
    return units;
}

/* The time at which `units` are poured: between the lanes' starts and ends, what is poured grows evenly. */
static double level(const struct lane *lane, uint32_t n, double units)
{
    double low = 0, high = INFINITY;
    for (uint32_t i = 0; i < 2 * n; i++) {
        const struct lane *l = &lane[i / 2];
        double time = i % 2 ? l->start + l->each * (double)l->room : l->start;
        if (poured(lane, n, time) <= units)
            low = fmax(low, time);
        else
            high = fmin(high, time);
    }
    if (!(high < INFINITY))
        return low;
    double at_low = poured(lane, n, low), at_high = poured(lane, n, high);
    return low + (high - low) * (units - at_low) / (at_high - at_low);
}

static struct lane *first_to_finish(struct lane *lane, uint32_t n)
{
    struct lane *best = NULL;
    for (struct lane *l = lane; l < lane + n; l++)
        if (l->units < l->room &&
            (!best || l->start + l->each * (double)(l->units + 1) < best->start + best->each * (double)(best->units + 1)))
            best = l;
    return best;
}

/* Whole units below the level, the rest one by one (at most one a lane); returns what no lane had room for. */
static uint64_t divide(struct lane *lane, uint32_t n, uint64_t units)
{
    double time = level(lane, n, (double)units);
    for (uint32_t i = 0; i < n; i++) {
        double whole = floor((time - lane[i].start) / lane[i].each);
        lane[i].units = whole > 0 ? whole < (double)lane[i].room ? (uint64_t)whole : lane[i].room : 0;
        lane[i].units = lane[i].units < units ? lane[i].units : units;
        units -= lane[i].units;
    }
    for (struct lane *l; units && (l = first_to_finish(lane, n)); units--)
        l->units++;
    return units;
}

static void place(const struct tb_hierarchy *h, const struct tb_placed_write *w, struct tb_policy_state *state, struct tb_placement *out)
{
    (void)state;
    struct lane lane[TB_MAX_TIERS];
    uint64_t grain = h->tiers->grain, at = w->offset, end = at + w->bytes;
    uint64_t units = (end + grain - 1) / grain - at / grain;
    uint32_t n = look(h, lane);
    if (units == 1)
        n = keep_free(lane, n);
    if (n)
        divide(lane, n, units);
    for (uint32_t i = 0; i < n; i++) {
        uint64_t cut = (at / grain + lane[i].units) * grain;
        if (!lane[i].units)
            continue;
        tb_placement_add(out, lane[i].tier, (cut < end ? cut : end) - at, lane[i].each * (double)lane[i].units);
        at = cut < end ? cut : end;
    }
}

const struct tb_placement_ops tb_placement_minimize_io_time = {.needs = TB_KNOW_ROOMS | TB_KNOW_QUEUES, .place = place, .together = true};
