/*
 * Placement: which tiers take the bytes of one write.  A policy is one file with
 * one table; adding a policy is adding a file, a name in the configuration and a
 * line in placement.c.  Cost: in the order of the number of tiers.
 */
#ifndef TB_PLACEMENT_H
#define TB_PLACEMENT_H

#include "client.h"

struct tb_placement {
    uint32_t n;
    struct {
        uint32_t tier;
        uint64_t bytes;
    } part[TB_MAX_TIERS]; /* in the order of the file's bytes; what they don't cover goes to the PFS */
};

struct tb_placement_ops {
    const char *name;
    void (*place)(tb_engine *e, uint64_t bytes, struct tb_placement *out);
};

extern const struct tb_placement_ops tb_placement_max_bandwidth;
extern const struct tb_placement_ops tb_placement_round_robin;

void tb_place(tb_engine *e, uint64_t bytes, struct tb_placement *out);

/* Seconds to write `bytes` to a tier, or to the PFS where `tier` is TB_NONE, by its model or a nominal rate. */
double tb_predict_write(tb_engine *e, uint32_t tier, uint64_t bytes);

#endif
