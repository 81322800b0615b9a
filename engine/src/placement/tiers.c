/*
 * Tiers as placement predicts them.  Figures come from a tier's model, else from its
 * measured profile, else they are nominal, and then only the order of media counts.
 */
#include "placement/tiers.h"

/* Bytes per second. */
#define NOMINAL_MEMORY 10e9
#define NOMINAL_REMOTE 4e9
#define NOMINAL_DIRECTORY 2e9
#define NOMINAL_PFS 0.5e9

static const double nominal_of[] = {
    [TB_MEDIUM_MEMORY] = NOMINAL_MEMORY, [TB_MEDIUM_DIRECTORY] = NOMINAL_DIRECTORY, [TB_MEDIUM_REMOTE] = NOMINAL_REMOTE};

static struct tb_tier_figures figures_of(const struct tb_device *model, const struct tb_device *profile, double nominal)
{
    static const struct tb_device nothing_known = {.channels = 1};
    const struct tb_device *d = model ? model : profile ? profile : &nothing_known;
    return (struct tb_tier_figures){
        .latency = d->write_latency,
        .bandwidth = d->write_bandwidth > 0 ? d->write_bandwidth : nominal,
        .read_latency = d->read_latency,
        .read_bandwidth = d->read_bandwidth > 0 ? d->read_bandwidth : nominal,
        .channels = d->channels ? d->channels : 1,
    };
}

/* The largest of the tiers' smallest buffers: sizes nest, so the larger is a multiple.  A slab without buffers sets none. */
static uint64_t grain_of(const struct tb_config *c, const struct tb_layout *l)
{
    uint64_t grain = 1;
    for (uint32_t t = 0; t < c->n_tiers; t++) {
        uint64_t smallest = 0;
        for (uint32_t s = l->tier_first_slab[t]; tb_is_slab_of(l, s, t); s++)
            if (l->slab[s].n_buffers && (!smallest || l->slab[s].buffer_size < smallest))
                smallest = l->slab[s].buffer_size;
        grain = smallest > grain ? smallest : grain;
    }
    return grain;
}

/* Times are divided by bandwidths and bytes by the grain. */
bool tb_tiers_is_valid(const struct tb_tiers *tiers)
{
    bool valid = tiers->n > 0 && tiers->n <= TB_MAX_TIERS && tiers->grain > 0 && tiers->chunk.bytes % tiers->grain == 0;
    for (uint32_t t = 0; t < tiers->n; t++)
        valid &= tiers->tier[t].figures.bandwidth > 0 && tiers->tier[t].figures.read_bandwidth > 0 && tiers->tier[t].figures.channels > 0;
    return valid && tiers->pfs.bandwidth > 0;
}

void tb_tiers_of(const struct tb_config *c, const struct tb_layout *l, const struct tb_unit_range *units, struct tb_tiers *out)
{
    *out = (struct tb_tiers){.n = c->n_tiers, .grain = grain_of(c, l), .settings = &c->placement, .units = units};
    out->chunk = tb_size_of(tb_layout_chunk(l));
    out->pfs = figures_of(c->pfs.modelled ? &c->pfs.model : NULL, c->pfs.profiled ? &c->pfs.profile : NULL, NOMINAL_PFS);
    for (uint32_t t = 0; t < c->n_tiers; t++) {
        const struct tb_config_tier *tier = &c->tiers[t];
        double nominal = nominal_of[tier->medium];
        out->tier[t].medium = tier->medium;
        out->tier[t].capacity = tb_layout_tier_bytes(l, t);
        out->tier[t].figures = figures_of(tier->modelled ? &tier->model : NULL, tier->profiled ? &tier->profile : NULL, nominal);
    }
}
