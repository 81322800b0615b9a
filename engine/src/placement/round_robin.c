/*
 * round-robin (Hermes 0.1 beta): each write goes to the next tier with room, in
 * turn for all processes of the instance, so that concurrent writers use all
 * tiers side by side.  Where no tier has room for all, what room there is is
 * filled in the same order.  Cost: one look at each tier at most.
 */
#include "buffer/slab.h"
#include "placement/placement.h"

static void place(tb_engine *e, const struct tb_place_request *request, struct tb_placement *out)
{
    uint32_t n = e->header->config.n_tiers, start = (uint32_t)(e->header->placed++ % n), order[TB_MAX_TIERS];
    for (uint32_t i = 0; i < n; i++) {
        order[i] = (start + i) % n;
        if (tb_tier_room(e, order[i]) >= request->bytes) {
            tb_placement_add(out, order[i], request->bytes);
            return;
        }
    }
    tb_placement_in_order(e, order, n, request->bytes, out);
}

const struct tb_placement_ops tb_placement_round_robin = {.name = "round-robin", .place = place};
