#include "placement.h"

static const struct tb_placement_ops *const policies[] = {
    [TB_POLICY_MAX_BANDWIDTH] = &tb_placement_max_bandwidth,
    [TB_POLICY_ROUND_ROBIN] = &tb_placement_round_robin,
};

/* Where nothing is modelled or measured only the order of the places matters: bytes per second. */
#define NOMINAL_MEMORY 10e9
#define NOMINAL_DIRECTORY 2e9
#define NOMINAL_PFS 0.5e9

void tb_place(tb_engine *e, uint64_t bytes, struct tb_placement *out)
{
    out->n = 0;
    policies[e->header->config.placement]->place(e, bytes, out);
}

static double nominal(const tb_engine *e, uint32_t tier)
{
    if (tier == TB_NONE)
        return NOMINAL_PFS;
    return tb_tier_is_memory(e, tier) ? NOMINAL_MEMORY : NOMINAL_DIRECTORY;
}

double tb_predict_write(tb_engine *e, uint32_t tier, uint64_t bytes)
{
    const struct tb_config *c = &e->header->config;
    bool modelled = tier == TB_NONE ? c->pfs.modelled : c->tiers[tier].modelled;
    const struct tb_device *d = tier == TB_NONE ? &c->pfs.model : &c->tiers[tier].model;
    if (!modelled || d->write_bandwidth <= 0)
        return (double)bytes / nominal(e, tier);
    return d->write_latency + (double)bytes / d->write_bandwidth;
}
