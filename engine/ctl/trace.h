/*
 * `tierctl run --trace`: a folder for the processes' records, and logs of them
 * behind the command.  OUT.darshan is the application side, OUT.storage.darshan
 * the storage side.
 */
#ifndef TB_CTL_TRACE_H
#define TB_CTL_TRACE_H

#include <limits.h>
#include <time.h>

#include "common/ctl.h"
#include "trace/clock.h"
#include "trace/file.h"

struct ctl_trace {
    const char *out;       /* NULL: nothing is traced */
    const char *site_lib;  /* the site's libdarshan.so, which then writes the application side; NULL: ours */
    char folder[128], storage_out[PATH_MAX];
    struct tb_trace_job *job;
    struct timespec start; /* CLOCK_REALTIME of second 0 */
    struct tb_trace_moment began; /* the same */
    double program_end;
};

/* Looks at what was asked for before anything is done; 0 or the exit status. */
int ctl_trace_check(struct ctl_trace *trace);
/* Makes the folder and names it to every process from now on: before the daemon starts. */
int ctl_trace_begin(struct ctl_trace *trace, const char *instance);
/* What only a running instance knows: before the program starts. */
void ctl_trace_tell(struct ctl_trace *trace, const struct tb_config *config);
/* The libraries that trace, to be loaded before the adapter's; "" where there are none.  In the program's process. */
void ctl_trace_environment(const struct ctl_trace *trace, char *const *command, char *libraries, size_t size);
void ctl_trace_program_ended(struct ctl_trace *trace);
/* Behind everything: writes the logs, says so, removes the folder.  0 or the exit status. */
int ctl_trace_finish(struct ctl_trace *trace, char *const *command, const struct tb_config *config, uint64_t config_digest);
/* Nothing ran: the folder goes. */
void ctl_trace_forget(struct ctl_trace *trace);

/* The parts of it. */
struct log;
struct process {
    const struct tb_trace_file *file;
    int64_t rank;      /* in the log */
    bool is_mpi, complete, left_out;
};
struct job {
    struct process *process; /* of one side, by rank, then by start */
    size_t n;
    int64_t ranks;           /* of MPI; 0: none */
    int64_t nprocs;          /* in the log */
    bool incomplete;
};

/* Map the files of a side and number their processes; false: no memory. */
bool trace_load(const struct ctl_trace *trace, enum tb_trace_side side, struct job *out);
void trace_unload(struct job *job);
/* Write the names, and the records and segments of every module. */
void trace_write_records(struct log *log, const struct job *job, enum tb_trace_side side);
void trace_write_segments(struct log *log, const struct job *job);

/* The site's runtime: where it shall leave its logs, and fetching them. */
void trace_site_environment(const struct ctl_trace *trace, char *const *command);
bool trace_site_fetch(const struct ctl_trace *trace, int *rc); /* false: it left none */

#endif
