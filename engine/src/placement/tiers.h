/*
 * What placement knows of the tiers before any byte is written: it follows from the
 * configuration and the layout, and never changes while an instance lives.
 */
#ifndef TB_PLACEMENT_TIERS_H
#define TB_PLACEMENT_TIERS_H

#include "config/byte_ranges.h"
#include "config/config.h"
#include "region/layout.h"

/* Seconds, bytes per second. */
struct tb_tier_figures {
    double latency, bandwidth; /* of a write */
    double read_latency, read_bandwidth;
    uint32_t channels;
};

struct tb_tiers {
    uint32_t n;
    struct {
        enum tb_medium medium;
        uint64_t capacity; /* bytes of its buffers */
        struct tb_tier_figures figures;
    } tier[TB_MAX_TIERS];
    struct tb_tier_figures pfs;
    uint64_t grain; /* bytes; multiples of this are ends of buffers in every tier */
    struct tb_size chunk;
    const struct tb_config_placement *settings;
    const struct tb_unit_range *units; /* that settings name; NULL: none */
};

/* The tiers of a configuration, which must outlive them as `units` must. */
void tb_tiers_of(const struct tb_config *config, const struct tb_layout *layout, const struct tb_unit_range *units, struct tb_tiers *out);
/* What policies divide by is above 0, and buffers of every tier end at the ends of chunks. */
bool tb_tiers_is_valid(const struct tb_tiers *tiers);

#endif
