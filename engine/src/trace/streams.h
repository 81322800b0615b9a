#ifndef TB_TRACE_STREAMS_H
#define TB_TRACE_STREAMS_H

#include "trace/records.h"

int tb_trace_stream_number(const struct tb_trace *t, const void *stream);

#endif
