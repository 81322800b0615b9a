/*
 * round-robin (Hermes 0.1 beta): each write goes to the next tier with room, in
 * turn for all processes of the instance, so that concurrent writers use all
 * tiers side by side.  Where no tier has room for all, what room there is is
 * filled in the same order.
 */
#include "placement.h"
#include "slab.h"

static void place(tb_engine *e, uint64_t bytes, struct tb_placement *out)
{
    uint32_t n = e->header->config.n_tiers;
    uint32_t start = (uint32_t)(e->header->round_robin++ % (n ? n : 1));
    for (uint32_t i = 0; i < n; i++)
        if (tb_tier_room(e, (start + i) % n) >= bytes) {
            out->part[0].tier = (start + i) % n;
            out->part[out->n++].bytes = bytes;
            return;
        }
    for (uint32_t i = 0; i < n && bytes; i++) {
        uint64_t room = tb_tier_room(e, (start + i) % n), take = room < bytes ? room : bytes;
        if (!take)
            continue;
        out->part[out->n].tier = (start + i) % n;
        out->part[out->n++].bytes = take;
        bytes -= take;
    }
}

const struct tb_placement_ops tb_placement_round_robin = {"round-robin", place};
