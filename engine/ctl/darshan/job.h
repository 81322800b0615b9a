/*
 * The folder of a trace, and what it tells the processes.
 */
#ifndef TB_CTL_DARSHAN_JOB_H
#define TB_CTL_DARSHAN_JOB_H

#include <limits.h>
#include <time.h>

#include "common/ctl.h"
#include "trace/clock.h"
#include "trace/file.h"

struct ctl_trace {
    const char *out;      /* NULL: nothing is traced */
    const char *site_lib; /* the site's libdarshan.so, which then writes the application side; NULL: ours */
    char folder[128], storage_out[PATH_MAX];
    struct tb_trace_job *job;
    struct timespec start;        /* CLOCK_REALTIME of second 0 */
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

/* Of the trace of that instance's run. */
void ctl_trace_folder(const char *instance, char *out, size_t size);

#endif
