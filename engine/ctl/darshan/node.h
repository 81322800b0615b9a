/*
 * A node's part in the trace of a run on several: a folder in its own memory, of which all come to the run's folder.
 */
#ifndef TB_CTL_DARSHAN_NODE_H
#define TB_CTL_DARSHAN_NODE_H

#include "darshan/job.h"

/* A process that a launcher starts for the run itself is none of the program's ranks. */
void trace_is_no_rank(void);
/* Makes the node's folder, with the second 0 of the run in `shared`; 0 or the exit status. */
int trace_node_begin(struct ctl_trace *trace, const char *shared, const char *instance);
/* To SHARED/HOST, when all processes of the node have ended; the node's folder goes. 0 or the exit status. */
int trace_node_end(struct ctl_trace *trace, const char *shared);

#endif
