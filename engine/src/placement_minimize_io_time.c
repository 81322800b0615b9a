/*
 * minimize-io-time (after the linear program of Hermes' 0.1 beta): the fractions
 * of a write that finish at the same time on all tiers, so that the slowest takes
 * as little as it can, within the room each has.  No solver: the time is the
 * level to which the write, poured over the tiers, fills what is queued there.
 *
 * Buffers are whole, so the write is divided into units of the grain, and the
 * last units go one by one to the tier that finishes them first: no other division
 * into such units is faster.  Writers block in their own writes, and a tier that
 * idles while they queue elsewhere is bandwidth lost for all: so a write takes
 * tiers that are free before it queues behind another writer.  Tiers that are slow
 * beyond use (the slowest that make up less than 1/32 of all bandwidth) wait until
 * a queue is long enough to make them the faster choice.
 *
 * The region keeps for each tier until when what was placed there lasts: what the
 * model's clock learns only when bytes are copied, and all there is for real tiers.
 * What this thread itself placed is over when it places again.
 *
 * Cost: n looks and n^2 additions for n tiers, n at most 8; no loop over units.
 */
#include <math.h>

#include "placement.h"
#include "slab.h"

#define USEFUL_SHARE (1.0 / 32)

/* A tier as the write sees it: `k` units finish after start + k * each seconds. */
struct lane {
    uint32_t tier;
    double start, each;
    uint64_t room, units; /* at most; given */
    bool is_free;
    double bandwidth;
};

static _Thread_local uint64_t placed_by_me[TB_MAX_TIERS];

static double queue_of(tb_engine *e, uint32_t tier)
{
    double modelled = tb_tier_queue(e, tier), placed = 0;
    uint64_t until = e->header->placed_until[tier];
    if (until && until != placed_by_me[tier]) {
        uint64_t now = tb_model_now();
        placed = until > now ? (double)(until - now) * 1e-9 : 0;
    }
    return placed > modelled ? placed : modelled;
}

static uint32_t look(tb_engine *e, uint64_t grain, struct lane *lane)
{
    uint32_t n = 0;
    for (uint32_t t = 0; t < e->header->config.n_tiers; t++) {
        struct tb_tier_figures f = tb_tier_figures(e, t);
        uint64_t room = tb_tier_room(e, t) / grain;
        double queue = room ? queue_of(e, t) : 0, busy = f.latency / f.channels;
        if (room)
            lane[n++] = (struct lane){.tier = t, .start = queue + f.latency - busy, .each = busy + (double)grain / f.bandwidth,
                                      .room = room, .is_free = queue == 0, .bandwidth = f.bandwidth};
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

/* Free and useful lanes first; returns how many to use: these if they can take all, else all lanes. */
static uint32_t prefer_free(struct lane *lane, uint32_t n, uint64_t units)
{
    struct lane sorted[TB_MAX_TIERS];
    uint32_t n_free = 0, n_rest = 0;
    uint64_t room = 0;
    bool wanted[TB_MAX_TIERS];
    for (uint32_t i = 0; i < n; i++) {
        wanted[i] = lane[i].is_free && is_useful(lane, n, i);
        n_free += wanted[i];
    }
    for (uint32_t i = 0, at = 0; i < n; i++) {
        room += wanted[i] ? lane[i].room : 0;
        sorted[wanted[i] ? at++ : n_free + n_rest++] = lane[i];
    }
    for (uint32_t i = 0; i < n; i++)
        lane[i] = sorted[i];
    return room >= units && n_free ? n_free : n;
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
        if (l->units < l->room && (!best || l->start + l->each * (double)(l->units + 1) < best->start + best->each * (double)(best->units + 1)))
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

/* Other writers queue behind what this one was given. */
static void reserve(tb_engine *e, const struct lane *l)
{
    _Atomic uint64_t *until = &e->header->placed_until[l->tier];
    uint64_t now = tb_model_now(), seen = *until, end;
    do {
        end = (seen > now && seen != placed_by_me[l->tier] ? seen : now) + (uint64_t)(l->each * (double)l->units * 1e9);
    } while (!atomic_compare_exchange_weak(until, &seen, end));
    placed_by_me[l->tier] = end;
}

static void place(tb_engine *e, const struct tb_place_request *request, struct tb_placement *out)
{
    struct lane lane[TB_MAX_TIERS];
    uint64_t grain = tb_placement_grain(e), at = request->offset, end = at + request->bytes;
    uint64_t units = (end + grain - 1) / grain - at / grain;
    uint32_t n = look(e, grain, lane);
    n = prefer_free(lane, n, units);
    if (n)
        divide(lane, n, units);
    for (uint32_t i = 0; i < n; i++) {
        uint64_t cut = (at / grain + lane[i].units) * grain;
        if (!lane[i].units)
            continue;
        reserve(e, &lane[i]);
        tb_placement_add(out, lane[i].tier, (cut < end ? cut : end) - at);
        at = cut < end ? cut : end;
    }
    out->together = out->n > 1;
}

const struct tb_placement_ops tb_placement_minimize_io_time = {"minimize-io-time", place};
