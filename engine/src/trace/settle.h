#ifndef TB_TRACE_SETTLE_H
#define TB_TRACE_SETTLE_H

#include "trace/records.h"

/* The counters of some transfers; of all of a record's that have none yet: trace/settle.c.  With its lock. */
void tb_trace_count_transfers(struct tb_trace_posix *p, enum tb_trace_access access, const struct tb_dxt_segment *s, uint32_t n);
void tb_trace_settle(struct tb_trace_file *f, struct tb_trace_posix *p);
/* As it will be when all is counted. */
int64_t tb_trace_last_byte(struct tb_trace_file *f, const struct tb_trace_posix *p, enum tb_trace_access access);

#endif
