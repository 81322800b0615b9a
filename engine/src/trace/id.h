#ifndef TB_TRACE_ID_H
#define TB_TRACE_ID_H

#include <stdint.h>

/* The id of a name: Bob Jenkins' 64-bit hash, as Darshan has it, so that logs of both can be compared. */
uint64_t tb_trace_id(const char *name);

#endif
