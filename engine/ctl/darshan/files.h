/*
 * The files that a job's processes left.
 */
#ifndef TB_CTL_DARSHAN_FILES_H
#define TB_CTL_DARSHAN_FILES_H

#include "darshan/job.h"

struct process {
    const struct tb_trace_file *file;
    int64_t rank; /* in the log */
    bool is_mpi, complete, left_out;
};
struct job {
    struct process *process; /* of one side, by rank, then by start */
    size_t n;
    int64_t ranks;  /* of MPI; 0: none */
    int64_t nprocs; /* in the log */
    bool incomplete;
};

/* Map the files of a side and number their processes; false: no memory. */
bool trace_load(const struct ctl_trace *trace, enum tb_trace_side side, struct job *out);
void trace_unload(struct job *job);

/* A name below the configuration's places. */
bool trace_is_ours(const struct ctl_trace *trace, const char *name);
/* The process used such a file. */
bool trace_touched_ours(const struct ctl_trace *trace, const struct tb_trace_file *file);

#endif
