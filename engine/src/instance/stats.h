/* Samples of the tiers over time, taken by the background work. */
#ifndef TB_STATS_H
#define TB_STATS_H

#include "region/handle.h"

double tb_seconds_since_start(const tb_engine *e);
/* Bytes that were moved into a tier from others. */
uint64_t tb_moved_in(const tb_engine *e, uint32_t tier);
/* Bytes written into buffers of any tier since start. */
uint64_t tb_bytes_in(const tb_engine *e);
/* The same and bytes read from them. */
uint64_t tb_bytes_moved(const tb_engine *e);
void tb_sample_take(tb_engine *e);

#endif
