/* How an instance ends: drained, measured, told. */
#ifndef TB_CTL_ENDING_H
#define TB_CTL_ENDING_H

#include "common/ctl.h"

struct ctl_ending {
    double drain_s;
    uint64_t bytes; /* that were dirty before the drain */
    int rc;         /* of the drain: 0 or EXIT_DRAIN_FAILED */
};

/* Drain and measure it. */
struct ctl_ending ctl_drain_measured(tb_engine *engine, const char *retry);

/* What `--stats` says of an instance: its numbers, samples, and what its drain took. */
json_t *ctl_stats_json(tb_engine *engine, const struct ctl_ending *ending);

/* To the file `path`, whole or not at all; 0 or the exit status. */
int ctl_stats_write(const char *path, json_t *stats);

#endif
