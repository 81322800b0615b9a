/*
 * `tierctl run --trace`: a folder for the processes' records, and logs of them after the
 * command. OUT.darshan is the application side, OUT.storage.darshan the storage side.
 */
#ifndef TB_CTL_TRACE_H
#define TB_CTL_TRACE_H

#include "darshan/job.h"

void ctl_trace_program_ended(struct ctl_trace *trace);
/* After everything else: writes the logs, says so, removes the folder. 0 or the exit status. */
int ctl_trace_finish(struct ctl_trace *trace, char *const *command, const struct tb_config *config, uint64_t config_digest);
/* One log of what the processes left of a side; 0 or the exit status. */
int trace_write_side(const struct ctl_trace *trace, enum tb_trace_side side, char *const *command, const struct tb_config *config,
                     uint64_t config_digest);
/* Nothing ran: the folder goes. */
void ctl_trace_forget(struct ctl_trace *trace);

#endif
