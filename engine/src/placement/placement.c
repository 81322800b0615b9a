/*
 * The engine describes itself to its policy. What never changes of the tiers is kept from
 * attach on; of the rest, only what the policy reads is looked up.  No lock is taken: a
 * policy may see room that another process is about to take.
 */
#include "placement/placement.h"

#include <math.h>
#include <stdlib.h>

#include "base/valid.h"
#include "buffer/map.h"
#include "buffer/slab.h"
#include "placement/queue.h"
#include "region/counters.h"

#define DECLARE(number, code, name, hermes) extern const struct tb_placement_ops tb_placement_##code;
#define ENTRY(number, code, name, hermes) [TB_POLICY_##number] = &tb_placement_##code,
TB_POLICIES(DECLARE)
static const struct tb_placement_ops *const policies[TB_N_POLICIES] = {TB_POLICIES(ENTRY)};

const struct tb_placement_ops *tb_placement_ops_of(enum tb_policy policy)
{
    return policies[policy];
}

struct tb_placer *tb_placer_new(const struct tb_config *c, const struct tb_layout *l, const struct tb_unit_range *units)
{
    struct tb_placer *p = malloc(sizeof(*p));
    if (!p)
        return NULL;
    p->policy = tb_placement_ops_of(c->placement.policy);
    tb_tiers_of(c, l, units, &p->tiers);
    assert(tb_tiers_is_valid(&p->tiers));
    return p;
}

static double queue_of(tb_engine *e, uint32_t tier, uint64_t now)
{
    double placed = tb_queue_seconds(e->header->placement.until, tier, now);
    return e->header->config.tiers[tier].modelled ? fmax(placed, tb_model_queue(&e->header->clocks.tier[tier], now)) : placed;
}

static void look_at_tiers(tb_engine *e, unsigned parts, uint64_t bytes, uint64_t now, struct tb_hierarchy *h)
{
    uint32_t n = h->tiers->n;
    if (parts & TB_KNOW_TOP)
        h->tier[0].room = tb_tier_room(e, 0, bytes);
    for (uint32_t t = 0; parts & TB_KNOW_ROOMS && t < n; t++)
        h->tier[t].room = tb_tier_room(e, t, TB_ROOM_ALL);
    for (uint32_t t = 0; parts & TB_KNOW_DIRTY && t < n; t++)
        h->tier[t].dirty = tb_tier_dirty(e->header, t);
    for (uint32_t t = 0; parts & TB_KNOW_QUEUES && t < n; t++)
        h->tier[t].queue = queue_of(e, t, now);
    if (parts & TB_KNOW_QUEUES)
        h->pfs_queue = e->header->config.pfs.modelled ? tb_model_queue(&e->header->clocks.pfs, now) : 0;
}

/* The buffer that has the byte at `offset`. The caller has locked the chunk. */
static struct tb_neighbour neighbour_at(tb_engine *e, uint32_t file, uint64_t offset)
{
    uint64_t end;
    assert(file < e->region.n_file_buckets);
    const struct tb_buffer *b = tb_map_owner(e, file, offset, offset + 1, &end);
    if (!b)
        return (struct tb_neighbour){.tier = TB_NONE};
    uint64_t start = tb_buffer_start(e, b);
    return (struct tb_neighbour){tb_slab_layout(e, b)->tier, start, start + tb_buffer_size(e, b)};
}

static void look_at_file(tb_engine *e, unsigned parts, struct tb_placed_write *w)
{
    uint64_t chunk = e->header->chunk.bytes, end = w->offset + w->bytes;
    if (parts & TB_KNOW_BEFORE)
        w->before = w->offset % chunk ? neighbour_at(e, w->file.number, w->offset - 1) : (struct tb_neighbour){.tier = TB_NONE};
    if (parts & TB_KNOW_AFTER)
        w->after = end % chunk ? neighbour_at(e, w->file.number, end) : (struct tb_neighbour){.tier = TB_NONE};
    if (parts & TB_KNOW_HEAT) {
        uint32_t hottest = e->header->placement.policy.hottest; /* gcc loads an index itself as if it were not atomic */
        w->file.hottest_memory = e->region.files[hottest].placement;
        w->file.epoch = e->header->movement.heat_epoch;
    }
}

void tb_place(tb_engine *e, const struct tb_place_request *request, struct tb_placement *out)
{
    const struct tb_placer *p = e->placement;
    const struct tb_file *f = &e->region.files[request->file];
    struct tb_hierarchy h;
    struct tb_placed_write w;
    uint64_t now = 0;
    assert(request->bytes);
    h.tiers = &p->tiers;
    h.known = 0;
    w.file = (struct tb_placed_file){.number = request->file, .memory = f->placement, .size = f->size};
    w.offset = request->offset;
    w.bytes = request->bytes;
    w.may_flush = request->may_flush;
    for (unsigned wants = p->policy->needs;; wants = out->wants) {
        if (wants & TB_KNOW_QUEUES)
            now = tb_model_now();
        look_at_tiers(e, wants, w.bytes, now, &h);
        look_at_file(e, wants, &w);
        h.known |= wants;
        tb_placement_clear(out);
        p->policy->place(&h, &w, &e->header->placement.policy, out);
        if (!out->wants)
            break;
        assert(out->wants & ~h.known);
    }
    assert(tb_placement_is_valid(&h, &w, out));
    TB_ASSERT_WHOLE(tb_placement_is_whole(&h, &w, out));
    for (uint32_t i = 0; i < out->n; i++)
        if (out->part[i].seconds > 0)
            tb_queue_reserve(e->header->placement.until, out->part[i].tier, now, out->part[i].seconds);
}

void tb_place_count_access(tb_engine *e, uint32_t file)
{
    struct tb_file *f = &e->region.files[file];
    struct tb_placed_write w = {.file = {.number = file, .memory = f->placement, .size = f->size}};
    look_at_file(e, TB_KNOW_HEAT, &w);
    f->placement = e->placement->policy->note_access(&e->header->placement.policy, &w.file);
}

void tb_place_note_name(tb_engine *e, struct tb_file *f, const char *path)
{
    const struct tb_config_placement *settings = &e->header->config.placement;
    const struct tb_placement_ops *policy = tb_placement_ops_of(settings->policy);
    if (policy->note_name)
        f->placement = policy->note_name(settings, path);
}
