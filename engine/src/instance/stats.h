/* Samples of the tiers over time, taken by the background work. */
#ifndef TB_STATS_H
#define TB_STATS_H

#include "region/handle.h"

void tb_sample_take(tb_engine *e);

#endif
