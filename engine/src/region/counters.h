/*
 * Sums of what clients and tiers count.
 */
#ifndef TB_REGION_COUNTERS_H
#define TB_REGION_COUNTERS_H

#include "region/handle.h"

/* Bytes that were moved into a tier from others. */
uint64_t tb_moved_in(const tb_engine *e, uint32_t tier);
/* Bytes written into buffers of any tier since start. */
uint64_t tb_bytes_in(const tb_engine *e);
/* The same and bytes read from them. */
uint64_t tb_bytes_moved(const tb_engine *e);
double tb_seconds_since_start(const tb_engine *e);

/* What was read from backing files before this call is not staged in after it (tiering/stage.h). */
static inline void tb_stage_void(tb_engine *e)
{
    e->header->movement.voided++;
}

#endif
