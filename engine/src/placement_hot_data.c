/*
 * hot-data (HPDC'18): the higher tiers hold the hotter data.  A file's heat is
 * how often it was read or written, halved every HALF_LIFE; the hottest file's
 * bytes go to the top tier, those of a file half as hot to the second, a quarter
 * to the third, and so on.  Where a tier has no room, colder tiers take the rest
 * before hotter ones do.
 *
 * A word per file holds both its count and when that was true; it is written
 * without a lock, and an access lost in a race does not matter.  The region
 * remembers which file was hottest, and finds another by its accesses when that
 * one cools.  Cost: one look at each tier.
 */
#include <time.h>

#include "placement.h"
#include "slab.h"

#define HALF_LIFE_NS 4000000000ull
#define COUNT_BITS 22u /* of accesses, in sixteenths; the rest are half-lives, modulo 1024 */
#define COUNT_MAX ((1u << COUNT_BITS) - 1)
#define ACCESS 16u

static uint32_t half_lives_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
    return (uint32_t)(((uint64_t)t.tv_sec * 1000000000ull + (uint64_t)t.tv_nsec) / HALF_LIFE_NS) & (UINT32_MAX >> COUNT_BITS);
}

uint32_t tb_heat_at(uint32_t heat, uint32_t half_lives)
{
    uint32_t age = (half_lives - (heat >> COUNT_BITS)) & (UINT32_MAX >> COUNT_BITS), count = heat & COUNT_MAX;
    return age < COUNT_BITS ? count >> age : 0;
}

uint32_t tb_heat_add(uint32_t heat, uint32_t half_lives)
{
    uint32_t count = tb_heat_at(heat, half_lives);
    return half_lives << COUNT_BITS | (count < COUNT_MAX - ACCESS ? count + ACCESS : COUNT_MAX);
}

void tb_place_note_access(tb_engine *e, uint32_t file)
{
    if (e->header->config.placement.policy != TB_POLICY_HOT_DATA)
        return;
    struct tb_file *files = e->region.files;
    uint32_t now = half_lives_now(), hottest = e->header->hottest;
    files[file].placement = tb_heat_add(files[file].placement, now);
    if (tb_heat_at(files[file].placement, now) > tb_heat_at(files[hottest].placement, now))
        e->header->hottest = file;
}

static void place(tb_engine *e, const struct tb_place_request *request, struct tb_placement *out)
{
    const struct tb_file *files = e->region.files;
    uint32_t n = e->header->config.n_tiers, now = half_lives_now(), target = 0, order[TB_MAX_TIERS];
    uint32_t most = tb_heat_at(files[e->header->hottest].placement, now), heat = tb_heat_at(files[request->file].placement, now);
    for (; target + 1 < n && heat < most; most /= 2)
        target += heat <= most / 2;
    for (uint32_t i = 0; i < n; i++)
        order[i] = target + i < n ? target + i : n - 1 - i;
    tb_placement_in_order(e, order, n, request->bytes, out);
}

const struct tb_placement_ops tb_placement_hot_data = {.name = "hot-data", .place = place};
