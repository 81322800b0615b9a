#ifndef TB_TRACE_SEGMENTS_H
#define TB_TRACE_SEGMENTS_H

#include "trace/records.h"

/* A new one, where that is full; NULL: no room, and a transfer that is counted as left out.  With the record's lock. */
struct tb_trace_chunk *tb_trace_chunk_more(struct tb_trace *t, enum tb_trace_module module, int number, enum tb_trace_access access);

#endif
