/*
 * max-bandwidth (HPDC'18, Hermes' default): from the top tier down, place the
 * bytes here if they fit; if not, take the faster of two ways, by predicted time:
 *   split  as much as fits here, the rest by the same rule from the next tier on;
 *   skip   all by the same rule from the next tier on.
 * The paper's third way, flushing here first, costs the PFS's time for bytes that
 * the tier below or the PFS itself takes in less: it never wins while writes
 * below the last tier go straight to the PFS, so it is not tried.
 */
#include "placement.h"
#include "slab.h"

static void append(struct tb_placement *p, uint32_t tier, uint64_t bytes)
{
    p->part[p->n].tier = tier;
    p->part[p->n++].bytes = bytes;
}

/* Both ways are tried only where a tier is full, and at most one tier has partial room: the cost stays near n. */
static double best_from(tb_engine *e, uint32_t tier, uint64_t bytes, struct tb_placement *out)
{
    if (bytes == 0)
        return 0;
    if (tier == e->header->config.n_tiers)
        return tb_predict_write(e, TB_NONE, bytes);
    uint64_t room = tb_tier_room(e, tier);
    if (room >= bytes) {
        append(out, tier, bytes);
        return tb_predict_write(e, tier, bytes);
    }
    struct tb_placement split = {0}, skip = {0};
    double skip_time = best_from(e, tier + 1, bytes, &skip), split_time = skip_time + 1;
    if (room) {
        append(&split, tier, room);
        split_time = tb_predict_write(e, tier, room) + best_from(e, tier + 1, bytes - room, &split);
    }
    const struct tb_placement *best = split_time <= skip_time ? &split : &skip;
    for (uint32_t i = 0; i < best->n; i++)
        append(out, best->part[i].tier, best->part[i].bytes);
    return split_time <= skip_time ? split_time : skip_time;
}

static void place(tb_engine *e, uint64_t bytes, struct tb_placement *out)
{
    best_from(e, 0, bytes, out);
}

const struct tb_placement_ops tb_placement_max_bandwidth = {"max-bandwidth", place};
