#ifndef TB_REGION_SAMPLE_H
#define TB_REGION_SAMPLE_H

#include <tierbench/engine.h>

#include "config/config.h"

/* One sample of the tiers over time, taken by the background work. */
struct tb_tier_sample {
    uint64_t used, dirty;
    uint64_t bytes_in, bytes_out, flushed, moved_to[TB_MAX_TIERS]; /* since start, as in tb_tier_stats */
};
struct tb_sample {
    double seconds; /* since start */
    struct tb_tier_sample tier[TB_MAX_TIERS];
    uint64_t pfs_bytes_written, pfs_bytes_read, spilled, staged; /* since start */
};

#endif
