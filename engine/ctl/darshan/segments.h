#ifndef TB_CTL_DARSHAN_SEGMENTS_H
#define TB_CTL_DARSHAN_SEGMENTS_H

#include "darshan/files.h"
#include "darshan/log.h"

void trace_write_segments(struct log *log, const struct job *job);

#endif
