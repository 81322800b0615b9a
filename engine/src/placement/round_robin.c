/*
 * round-robin (Hermes 0.1 beta): each write goes to the next tier with room, in
 * turn for all processes of the instance, so that concurrent writers use all
 * tiers side by side.  Where no tier has room for all, what room there is is
 * filled in the same order.  Cost: one look at each tier at most.
 */
#include "placement/policy.h"

static void place(const struct tb_hierarchy *h, const struct tb_placed_write *w, struct tb_policy_state *state, struct tb_placement *out)
{
    uint32_t n = h->tiers->n, start = (uint32_t)(state->placed++ % n), order[TB_MAX_TIERS];
    for (uint32_t i = 0; i < n; i++) {
        order[i] = (start + i) % n;
        if (h->tier[order[i]].room >= w->bytes) {
            tb_placement_add(out, order[i], w->bytes, 0);
            return;
        }
    }
    tb_placement_in_order(h, order, n, w->bytes, out);
}

const struct tb_placement_ops tb_placement_round_robin = {.needs = TB_KNOW_ROOMS, .place = place};
