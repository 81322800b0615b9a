/*
 * hot-data (HPDC'18): the higher tiers hold the hotter data.  A file's heat is
 * how often it was read or written, halved with every epoch (buffer/heat.h says what one
 * is; a buffer's own heat, by which it is moved later, is another matter).  The
 * hottest file's bytes go to the top tier, those of a file half as hot to the
 * second, a quarter to the third, and so on.  Where a tier has no room, colder
 * tiers take the rest before hotter ones do.
 *
 * A word per file holds both its count and when that was true; it is written
 * without a lock, and an access lost in a race does not matter.  The region
 * remembers which file was hottest, and finds another by its accesses when that
 * one cools.  Cost: one look at each tier.
 */
#include "buffer/slab.h"
#include "placement/placement.h"

#define COUNT_BITS 22u /* of accesses, in sixteenths; the rest is the epoch, modulo 1024 */
#define COUNT_MAX ((1u << COUNT_BITS) - 1)
#define EPOCH_MAX (UINT32_MAX >> COUNT_BITS)
#define ACCESS 16u

static uint32_t heat_at(uint32_t heat, uint32_t epoch)
{
    uint32_t age = (epoch - (heat >> COUNT_BITS)) & EPOCH_MAX, count = heat & COUNT_MAX;
    return age < COUNT_BITS ? count >> age : 0;
}

static uint32_t heat_add(uint32_t heat, uint32_t epoch)
{
    uint32_t count = heat_at(heat, epoch);
    return epoch << COUNT_BITS | (count < COUNT_MAX - ACCESS ? count + ACCESS : COUNT_MAX);
}

void tb_place_count_access(tb_engine *e, uint32_t file)
{
    struct tb_file *files = e->region.files;
    uint32_t now = e->header->heat_epoch, hottest = e->header->hottest;
    files[file].placement = heat_add(files[file].placement, now);
    if (heat_at(files[file].placement, now) > heat_at(files[hottest].placement, now))
        e->header->hottest = file;
}

static void place(tb_engine *e, const struct tb_place_request *request, struct tb_placement *out)
{
    const struct tb_file *files = e->region.files;
    uint32_t n = e->header->config.n_tiers, now = e->header->heat_epoch, target = 0, order[TB_MAX_TIERS];
    uint32_t hottest = e->header->hottest; /* gcc loads an index itself as if it were not atomic */
    uint32_t most = heat_at(files[hottest].placement, now), heat = heat_at(files[request->file].placement, now);
    for (; target + 1 < n && heat < most; most /= 2)
        target += heat <= most / 2;
    for (uint32_t i = 0; i < n; i++)
        order[i] = target + i < n ? target + i : n - 1 - i;
    tb_placement_in_order(e, order, n, request->bytes, out);
}

const struct tb_placement_ops tb_placement_hot_data = {.name = "hot-data", .place = place};
