/*
 * random (Hermes 0.1 beta): uniform among the tiers with room.  A write of more
 * than 64 KiB is split with probability 1/2, into 2, 4, 8 or 16 equal portions
 * that are placed each on its own.  Portions are cut where buffers of every tier
 * end, so that none shares a buffer with the next.  A portion that no tier holds
 * fills what room there is.  The sequence of numbers is the same in every instance.  Cost: one look at each tier for each portion.
 */
#include <assert.h>

#include "placement/policy.h"
#include "region/mix.h"

#define SPLIT_ABOVE (64u << 10)
#define MORE_CHOICES_ABOVE (256u << 10) /* up to here a split is into 2, above into 2 to 16 */

/* One of the tiers that hold `bytes` more, or TB_NONE. */
static uint32_t choose(const uint64_t *room, uint32_t n, uint64_t bytes, uint64_t random)
{
    uint32_t fit[TB_MAX_TIERS], n_fit = 0;
    for (uint32_t t = 0; t < n; t++)
        if (room[t] >= bytes)
            fit[n_fit++] = t;
    return n_fit ? fit[random % n_fit] : TB_NONE;
}

static uint64_t n_portions(uint64_t bytes, uint64_t random)
{
    if (bytes <= SPLIT_ABOVE || random & 1)
        return 1;
    return bytes <= MORE_CHOICES_ABOVE ? 2 : 2u << (random >> 1) % 4;
}

static void place(const struct tb_hierarchy *h, const struct tb_placed_write *w, struct tb_policy_state *state, struct tb_placement *out)
{
    uint32_t n = h->tiers->n, order[TB_MAX_TIERS];
    uint64_t random = tb_mix64(state->placed++), room[TB_MAX_TIERS], at = w->offset, end = at + w->bytes;
    uint64_t grain = h->tiers->grain, portion = w->bytes / n_portions(w->bytes, random >> 32);
    for (uint32_t t = 0; t < n; t++) {
        room[t] = h->tier[t].room;
        order[t] = (uint32_t)((t + random) % n);
    }
    while (at < end && out->n < TB_MAX_PARTS) {
        uint64_t cut = (at + portion + grain - 1) / grain * grain, bytes = (cut < end ? cut : end) - at;
        uint32_t t = choose(room, n, bytes, random = tb_mix64(random));
        if (t == TB_NONE)
            break;
        tb_placement_add(out, t, bytes, 0);
        assert(bytes > 0 && bytes <= room[t]);
        room[t] -= bytes;
        at += bytes;
    }
    tb_placement_in_order(h, order, n, end - at, out);
}

const struct tb_placement_ops tb_placement_random = {.needs = TB_KNOW_ROOMS, .place = place};
