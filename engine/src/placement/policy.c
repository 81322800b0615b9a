/*
 * What policies share. A placement is put together part by part, in the order of the file's bytes, and neighbours of one
 * tier become one part. Its validity is checked at two levels: cheaply in every build; against each tier's room in builds
 * that check whole structures (base/valid.h).
 */
#include "placement/policy.h"

#include <assert.h>

void tb_placement_add(struct tb_placement *p, uint32_t tier, uint64_t bytes, double seconds)
{
    if (p->n && p->part[p->n - 1].tier == tier) {
        p->part[p->n - 1].bytes += bytes;
        p->part[p->n - 1].seconds += seconds;
    } else if (bytes) {
        assert(p->n < TB_MAX_PARTS);
        p->part[p->n++] = (struct tb_part){tier, bytes, seconds};
    }
}

static uint64_t given_to(const struct tb_placement *p, uint32_t tier)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < p->n; i++)
        bytes += p->part[i].tier == tier ? p->part[i].bytes : 0;
    return bytes;
}

bool tb_placement_is_valid(const struct tb_hierarchy *h, const struct tb_placed_write *w, const struct tb_placement *p)
{
    uint64_t bytes = 0, most = p->bytes ? p->bytes : w->bytes;
    for (uint32_t i = 0; i < p->n; i++) {
        if (p->part[i].tier >= h->tiers->n || !p->part[i].bytes || p->part[i].seconds < 0)
            return false;
        bytes += p->part[i].bytes;
    }
    return p->n <= TB_MAX_PARTS && bytes <= most && most <= w->bytes &&
           (!p->flush_first || (w->may_flush && p->flush_tier < h->tiers->n && !p->n));
}

bool tb_placement_is_whole(const struct tb_hierarchy *h, const struct tb_placed_write *w, const struct tb_placement *p)
{
    bool fits = true;
    for (uint32_t t = 0; t < h->tiers->n && h->known & TB_KNOW_ROOMS; t++)
        fits &= given_to(p, t) <= h->tier[t].room;
    return fits && tb_placement_is_valid(h, w, p);
}

void tb_placement_in_order(const struct tb_hierarchy *h, const uint32_t *order, uint32_t n, uint64_t bytes, struct tb_placement *out)
{
    assert(h->known & TB_KNOW_ROOMS && out->n <= TB_MAX_PARTS);
    for (uint32_t i = 0; i < n && bytes && out->n < TB_MAX_PARTS; i++) {
        uint64_t room = h->tier[order[i]].room, given = given_to(out, order[i]), left = room > given ? room - given : 0;
        uint64_t take = left < bytes ? left : bytes;
        tb_placement_add(out, order[i], take, 0);
        bytes -= take;
    }
}
