/*
 * data-locality (HPDC'18): bytes that belong together lie together.  A file is
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
#include "buffer/map.h"
#include "buffer/slab.h"
#include "placement/placement.h"

#define GOLDEN 0x9e3779b97f4a7c15ull /* 2^64 / the golden ratio */
#define SILVER 0x6a09e667f3bcc909ull /* 2^64 * (sqrt(2) - 1): files one by one must not fall together with units */

struct unit {
    uint64_t number, start, end; /* the range around an offset; a unit may have others */
};

static struct unit unit_at(const tb_engine *e, uint32_t file, uint64_t offset)
{
    struct tb_size chunk = e->header->chunk;
    uint64_t bytes = e->header->config.placement.unit, chunks = bytes ? (bytes - 1) / chunk.bytes + 1 : 1;
    struct unit u = {.number = tb_size_divide(offset, chunk) / chunks};
    const struct tb_unit_range *range = tb_units_find(&e->header->config, e->region.units, e->region.files[file].placement, offset,
                                                      &u.start, &u.end);
    return range ? (struct unit){range->unit, range->start, range->end} : u;
}

/* The tier that owns the unit's point of the interval. */
static uint32_t own_tier(const tb_engine *e, uint32_t file, uint64_t unit)
{
    uint32_t n = e->header->config.n_tiers;
    double bandwidth[TB_MAX_TIERS], sum = 0, at = 0;
    for (uint32_t t = 0; t < n; t++)
        sum += bandwidth[t] = tb_tier_figures(e, t).bandwidth;
    uint64_t point = (unit * GOLDEN) + (file + 1) * SILVER;
    double share = (double)(point >> 11) * 0x1p-53 * sum;
    for (uint32_t t = 0; t + 1 < n; t++)
        if (share < (at += bandwidth[t]))
            return t;
    return n - 1;
}

/* The tier of the byte at `offset`, TB_NONE where no buffer has it; one across the unit's ends may be its neighbour's. */
static uint32_t tier_at(tb_engine *e, uint32_t file, const struct unit *u, uint64_t offset)
{
    uint64_t end;
    const struct tb_buffer *b = tb_map_owner(e, file, offset, offset + 1, &end);
    bool is_its_own = b && tb_buffer_start(e, b) >= u->start && tb_buffer_start(e, b) + tb_buffer_size(e, b) <= u->end;
    return is_its_own ? tb_slab_layout(e, b)->tier : TB_NONE;
}

/* Where the unit's bytes just before `at` or behind `end` lie, if in the same chunk (which is locked). */
static uint32_t neighbour(tb_engine *e, uint32_t file, const struct unit *u, uint64_t at, uint64_t end)
{
    uint64_t chunk = e->header->chunk.bytes;
    uint32_t tier = at % chunk && at > u->start ? tier_at(e, file, u, at - 1) : TB_NONE;
    return tier == TB_NONE && end % chunk && end < u->end ? tier_at(e, file, u, end) : tier;
}

/* The first unit's bytes: beside its others, else in its own tier, else in the next that has room. */
static void place(tb_engine *e, const struct tb_place_request *request, struct tb_placement *out)
{
    uint64_t at = request->offset, end = at + request->bytes;
    struct unit u = unit_at(e, request->file, at);
    if (u.end < end)
        out->bytes = (end = u.end) - at;
    uint32_t n = e->header->config.n_tiers;
    uint32_t order[TB_MAX_TIERS + 2] = {neighbour(e, request->file, &u, at, end), own_tier(e, request->file, u.number)};
    const uint32_t *first = order[0] == TB_NONE ? order + 1 : order;
    for (uint32_t i = 0; i < n; i++)
        order[2 + i] = (order[1] + 1 + i) % n;
    tb_placement_in_order(e, first, (uint32_t)(order + 2 + n - first), end - at, out);
}

static void note_name(tb_engine *e, struct tb_file *f, const char *path)
{
    f->placement = tb_units_of_path(&e->header->config, path);
}

const struct tb_placement_ops tb_placement_data_locality = {.name = "data-locality", .place = place, .note_name = note_name};
