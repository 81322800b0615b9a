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
#include "placement/policy.h"

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

static uint32_t note_access(struct tb_policy_state *state, const struct tb_placed_file *f)
{
    uint32_t heat = heat_add(f->memory, f->epoch);
    if (heat_at(heat, f->epoch) > heat_at(f->hottest_memory, f->epoch) && state->hottest != f->number)
        state->hottest = f->number;
    return heat;
}

static void place(const struct tb_hierarchy *h, const struct tb_placed_write *w, struct tb_policy_state *state, struct tb_placement *out)
{
    (void)state;
    uint32_t n = h->tiers->n, target = 0, order[TB_MAX_TIERS];
    uint32_t most = heat_at(w->file.hottest_memory, w->file.epoch), heat = heat_at(w->file.memory, w->file.epoch);
    for (; target + 1 < n && heat < most; most /= 2)
        target += heat <= most / 2;
    for (uint32_t i = 0; i < n; i++)
        order[i] = target + i < n ? target + i : n - 1 - i;
    tb_placement_in_order(h, order, n, w->bytes, out);
}

const struct tb_placement_ops tb_placement_hot_data = {.needs = TB_KNOW_ROOMS | TB_KNOW_HEAT, .place = place, .note_access = note_access};
