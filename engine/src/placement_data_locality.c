/*
 * data-locality (HPDC'18): bytes that belong together lie together.  A file is
 * cut into dispersion units, whole chunks of it or all of it; the bytes of a unit
 * go to one tier, and the units are spread over the tiers in the ratio of the
 * tiers' bandwidths, so that a reader of many units finds all tiers at work.
 *
 * Which tier is a unit's own is a matter of its number alone, so no memory is
 * needed and all processes agree: unit numbers times the golden ratio fall evenly
 * into an interval, of which each tier owns a share.  Bytes beside some that were
 * placed already go where those are; where a tier has no room the next one takes
 * the rest.  Cost: two passes over the tiers.
 */
#include "filemap.h"
#include "placement.h"
#include "slab.h"

#define GOLDEN 0x9e3779b97f4a7c15ull /* 2^64 / the golden ratio */
#define SILVER 0x6a09e667f3bcc909ull /* 2^64 * (sqrt(2) - 1): files one by one must not fall together with units */

static uint64_t unit_of(const tb_engine *e, uint64_t offset)
{
    struct tb_size chunk = e->header->chunk;
    uint64_t unit = e->header->config.placement.unit, chunks = unit ? (unit - 1) / chunk.bytes + 1 : 1;
    return tb_size_divide(offset, chunk) / chunks;
}

/* The tier that owns the unit's point of the interval. */
static uint32_t own_tier(const tb_engine *e, const struct tb_place_request *request)
{
    uint32_t n = e->header->config.n_tiers;
    double bandwidth[TB_MAX_TIERS], sum = 0, at = 0;
    for (uint32_t t = 0; t < n; t++)
        sum += bandwidth[t] = tb_tier_figures(e, t).bandwidth;
    uint64_t point = (unit_of(e, request->offset) * GOLDEN) + (request->file + 1) * SILVER;
    double share = (double)(point >> 11) * 0x1p-53 * sum;
    for (uint32_t t = 0; t + 1 < n; t++)
        if (share < (at += bandwidth[t]))
            return t;
    return n - 1;
}

/* The tier of the byte at `offset`, or TB_NONE. */
static uint32_t tier_at(tb_engine *e, uint32_t file, uint64_t offset)
{
    uint64_t end;
    const struct tb_buffer *b = tb_map_owner(e, file, offset, offset + 1, &end);
    return b ? tb_slab_layout(e, b)->tier : TB_NONE;
}

/* Where the bytes just before or behind lie, if in the same chunk (which is locked). */
static uint32_t neighbour(tb_engine *e, const struct tb_place_request *request)
{
    uint64_t chunk = e->header->chunk.bytes, end = request->offset + request->bytes;
    uint32_t tier = request->offset % chunk ? tier_at(e, request->file, request->offset - 1) : TB_NONE;
    return tier == TB_NONE && end % chunk ? tier_at(e, request->file, end) : tier;
}

static void place(tb_engine *e, const struct tb_place_request *request, struct tb_placement *out)
{
    uint32_t n = e->header->config.n_tiers, order[TB_MAX_TIERS + 2] = {neighbour(e, request), own_tier(e, request)};
    const uint32_t *first = order[0] == TB_NONE ? order + 1 : order;
    for (uint32_t i = 0; i < n; i++)
        order[2 + i] = (order[1] + 1 + i) % n;
    tb_placement_in_order(e, first, (uint32_t)(order + 2 + n - first), request->bytes, out);
}

const struct tb_placement_ops tb_placement_data_locality = {.name = "data-locality", .place = place};
