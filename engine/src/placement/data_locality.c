/*
 * data-locality (HPDC'18): bytes that belong together stay together.  A file is
 * cut into dispersion units: byte ranges that a table names (config/byte_ranges.h), else whole
 * chunks of it or all of it.  The bytes of a unit go to one tier, and the units are
 * spread over the tiers in the ratio of the tiers' bandwidths, so that a reader of
 * many units finds all tiers at work.
 *
 * Which tier is a unit's own is a matter of its number alone, so no memory is
 * needed and all processes agree: unit numbers times the golden ratio fall evenly
 * into an interval, of which each tier owns a share.  Bytes beside some that were
 * placed already go where those are; where a tier has no room the next one takes
 * the rest.  Cost: two passes over the tiers.
 */
#include <assert.h>

#include "placement/policy.h"

#define GOLDEN 0x9e3779b97f4a7c15ull /* 2^64 / the golden ratio */
#define SILVER 0x6a09e667f3bcc909ull /* 2^64 * (sqrt(2) - 1): files one by one must not fall together with units */

struct unit {
    uint64_t number, start, end; /* the range around an offset; a unit may have others */
};

static struct unit unit_at(const struct tb_tiers *tiers, const struct tb_placed_file *file, uint64_t offset)
{
    struct tb_size chunk = tiers->chunk;
    uint64_t bytes = tiers->settings->unit, chunks = bytes ? (bytes - 1) / chunk.bytes + 1 : 1;
    struct unit u = {.number = tb_size_divide(offset, chunk) / chunks};
    const struct tb_unit_range *range = tb_units_find(tiers->settings, tiers->units, file->memory, offset, &u.start, &u.end);
    return range ? (struct unit){range->unit, range->start, range->end} : u;
}

/* The tier that owns the unit's point of the interval. */
static uint32_t own_tier(const struct tb_tiers *tiers, uint32_t file, uint64_t unit)
{
    uint32_t n = tiers->n;
    double sum = 0, at = 0;
    for (uint32_t t = 0; t < n; t++)
        sum += tiers->tier[t].figures.bandwidth;
    uint64_t point = (unit * GOLDEN) + (file + 1) * SILVER;
    double share = (double)(point >> 11) * 0x1p-53 * sum;
    for (uint32_t t = 0; t + 1 < n; t++)
        if (share < (at += tiers->tier[t].figures.bandwidth))
            return t;
    return n - 1;
}

/* A buffer across the unit's ends may be its neighbour's. */
static bool is_of(const struct unit *u, const struct tb_neighbour *n)
{
    return n->tier != TB_NONE && n->start >= u->start && n->end <= u->end;
}

/* Where the unit's bytes just before the write or just after it are, if in the same chunk; else TB_NONE. */
static uint32_t neighbour(const struct tb_hierarchy *h, const struct tb_placed_write *w, const struct unit *u, unsigned *wants)
{
    uint64_t at = w->offset, end = at + w->bytes;
    if (at > u->start && is_of(u, &w->before))
        return w->before.tier;
    if (end >= u->end || end % h->tiers->chunk.bytes == 0)
        return TB_NONE;
    *wants = TB_KNOW_AFTER & ~h->known;
    return !*wants && is_of(u, &w->after) ? w->after.tier : TB_NONE;
}

/* The first unit's bytes: beside its others, else in its own tier, else in the next that has room. */
static void place(const struct tb_hierarchy *h, const struct tb_placed_write *w, struct tb_policy_state *state, struct tb_placement *out)
{
    (void)state;
    uint64_t at = w->offset, end = at + w->bytes;
    struct unit u = unit_at(h->tiers, &w->file, at);
    assert(u.start <= at && at < u.end);
    uint32_t n = h->tiers->n, beside = neighbour(h, w, &u, &out->wants);
    if (out->wants)
        return;
    uint32_t order[TB_MAX_TIERS + 2] = {beside, own_tier(h->tiers, w->file.number, u.number)};
    const uint32_t *first = beside == TB_NONE ? order + 1 : order;
    if (u.end < end)
        out->bytes = (end = u.end) - at;
    for (uint32_t i = 0; i < n; i++)
        order[2 + i] = (order[1] + 1 + i) % n;
    tb_placement_in_order(h, first, (uint32_t)(order + 2 + n - first), end - at, out);
}

static uint32_t note_name(const struct tb_config_placement *settings, const char *path)
{
    return tb_units_of_path(settings, path);
}

const struct tb_placement_ops tb_placement_data_locality = {
    .needs = TB_KNOW_ROOMS | TB_KNOW_BEFORE, .place = place, .note_name = note_name};
