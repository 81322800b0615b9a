/* Samples of the tiers over time, taken by the background work. */
#ifndef TB_STATS_H
#define TB_STATS_H

#include "region/handle.h"

void tb_sample_take(tb_engine *e);

/* Seconds since the region was made. */
double tb_instance_age(tb_engine *engine);

/* Copies at most `max` samples in order of time, the last taken now; returns how many. */
int tb_instance_samples(tb_engine *engine, struct tb_sample *out, int max);

#endif
