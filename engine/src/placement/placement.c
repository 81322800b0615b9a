#include "placement/placement.h"

#include <math.h>

#include "buffer/slab.h"

static const struct tb_placement_ops *const policies[TB_N_POLICIES] = {
    [TB_POLICY_MAX_BANDWIDTH] = &tb_placement_max_bandwidth,
    [TB_POLICY_DATA_LOCALITY] = &tb_placement_data_locality,
    [TB_POLICY_HOT_DATA] = &tb_placement_hot_data,
    [TB_POLICY_USER_DEFINED] = &tb_placement_user_defined,
    [TB_POLICY_RANDOM] = &tb_placement_random,
    [TB_POLICY_ROUND_ROBIN] = &tb_placement_round_robin,
    [TB_POLICY_MINIMIZE_IO_TIME] = &tb_placement_minimize_io_time,
};

/* Where nothing is modelled or measured only the order of the places matters: bytes per second. */
#define NOMINAL_MEMORY 10e9
#define NOMINAL_DIRECTORY 2e9
#define NOMINAL_PFS 0.5e9
/* A real tier that is faster than its figures must not look ever busier. */
#define QUEUE_MAX_NS UINT64_C(1000000000)

void tb_place(tb_engine *e, const struct tb_place_request *request, struct tb_placement *out)
{
    *out = (struct tb_placement){0};
    policies[e->header->config.placement.policy]->place(e, request, out);
}

void tb_place_note_name(tb_engine *e, struct tb_file *f, const char *path)
{
    const struct tb_placement_ops *policy = policies[e->header->config.placement.policy];
    if (policy->note_name)
        policy->note_name(e, f, path);
}

bool tb_place_together(const tb_engine *e)
{
    return policies[e->header->config.placement.policy]->together;
}

void tb_placement_add(struct tb_placement *p, uint32_t tier, uint64_t bytes)
{
    if (p->n && p->part[p->n - 1].tier == tier) {
        p->part[p->n - 1].bytes += bytes;
    } else if (bytes) {
        assert(p->n < TB_MAX_PARTS);
        p->part[p->n].tier = tier;
        p->part[p->n++].bytes = bytes;
    }
}

static uint64_t given_to(const struct tb_placement *p, uint32_t tier)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < p->n; i++)
        bytes += p->part[i].tier == tier ? p->part[i].bytes : 0;
    return bytes;
}

void tb_placement_in_order(tb_engine *e, const uint32_t *order, uint32_t n, uint64_t bytes, struct tb_placement *out)
{
    for (uint32_t i = 0; i < n && bytes && out->n < TB_MAX_PARTS; i++) {
        uint64_t room = tb_tier_room(e, order[i]), given = given_to(out, order[i]), left = room > given ? room - given : 0;
        uint64_t take = left < bytes ? left : bytes;
        tb_placement_add(out, order[i], take);
        bytes -= take;
    }
}

uint64_t tb_placement_grain(const tb_engine *e)
{
    const struct tb_layout *l = &e->header->layout;
    uint64_t grain = 1;
    for (uint32_t t = 0; t < e->header->config.n_tiers; t++) {
        uint64_t smallest = 0;
        for (uint32_t s = l->tier_first_slab[t], end = s + e->header->config.tiers[t].n_slabs; s < end; s++)
            if (l->slab[s].n_buffers && (!smallest || l->slab[s].buffer_size < smallest))
                smallest = l->slab[s].buffer_size;
        grain = smallest > grain ? smallest : grain; /* sizes nest: the larger is a multiple */
    }
    return grain;
}

static double or_nominal(const tb_engine *e, uint32_t tier, double bandwidth)
{
    if (bandwidth > 0)
        return bandwidth;
    if (tier == TB_NONE)
        return NOMINAL_PFS;
    return tb_tier_is_memory(e, tier) ? NOMINAL_MEMORY : NOMINAL_DIRECTORY;
}

struct tb_tier_figures tb_tier_figures(const tb_engine *e, uint32_t tier)
{
    static const struct tb_device nothing_known = {.channels = 1};
    const struct tb_config *c = &e->header->config;
    const struct tb_config_tier *t = tier == TB_NONE ? NULL : &c->tiers[tier];
    const struct tb_device *d = &nothing_known;
    if (t ? t->modelled : c->pfs.modelled)
        d = t ? &t->model : &c->pfs.model;
    else if (t ? t->profiled : c->pfs.profiled)
        d = t ? &t->profile : &c->pfs.profile;
    return (struct tb_tier_figures){
        .latency = d->write_latency,
        .bandwidth = or_nominal(e, tier, d->write_bandwidth),
        .read_latency = d->read_latency,
        .read_bandwidth = or_nominal(e, tier, d->read_bandwidth),
        .channels = d->channels ? d->channels : 1,
    };
}

/*
 * Until when what was placed in a tier lasts, in the header: a model's clock learns
 * it only when the bytes are copied, and real tiers have no other.  What this
 * thread placed before is over when it places again, or in a clock.  Of two that
 * reserve at once one is not seen, which the next look mends.
 */
static _Thread_local uint64_t reserved_by_me[TB_MAX_TIERS];

static uint64_t busy_until(const tb_engine *e, uint32_t tier, uint64_t now)
{
    uint64_t until = e->header->placed_until[tier];
    return until > now && until != reserved_by_me[tier] ? until : now;
}

double tb_tier_queue(tb_engine *e, uint32_t tier, uint64_t now)
{
    const struct tb_config *c = &e->header->config;
    if (tier == TB_NONE)
        return c->pfs.modelled ? tb_model_queue(&e->header->pfs_clock, now) : 0;
    double placed = (double)(busy_until(e, tier, now) - now) * 1e-9;
    return c->tiers[tier].modelled ? fmax(placed, tb_model_queue(&e->header->tier_clock[tier], now)) : placed;
}

void tb_tier_reserve(tb_engine *e, uint32_t tier, uint64_t now, double seconds)
{
    uint64_t end = busy_until(e, tier, now) + (uint64_t)(seconds * 1e9);
    if (end > now + QUEUE_MAX_NS)
        end = now + QUEUE_MAX_NS;
    e->header->placed_until[tier] = reserved_by_me[tier] = end;
}
