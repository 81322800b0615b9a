#ifndef TB_CTL_DARSHAN_RECORDS_H
#define TB_CTL_DARSHAN_RECORDS_H

#include "darshan/files.h"
#include "darshan/log.h"

/* Write the names, and the records and segments of every module. */
void trace_write_records(struct log *log, const struct job *job, enum tb_trace_side side);

#endif
