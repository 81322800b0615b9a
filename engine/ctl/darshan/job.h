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
    bool of_nodes;        /* `folder` has one of each node in it, which all nodes see */
    char folder[PATH_MAX], storage_out[PATH_MAX];
    struct tb_trace_job *job;
    struct timespec start;        /* CLOCK_REALTIME of second 0 */
    bool lacks_a_node;            /* what one of them recorded did not come */
    struct tb_trace_moment began; /* the same */
    double program_end;
};

/* Looks at what was asked for before anything is done; 0 or the exit status. */
int ctl_trace_check(struct ctl_trace *trace);
/* Makes the folder and names it to every process from now on: before the daemon starts. */
int ctl_trace_begin(struct ctl_trace *trace, const char *instance);
/* The same for several nodes: each makes a folder of its own (darshan/node.h), and what it held comes into this one. */
int ctl_trace_begin_nodes(struct ctl_trace *trace, const char *instance, const struct tb_config *config);
/* What only a running instance knows: before the program starts. */
void ctl_trace_tell(struct ctl_trace *trace, const struct tb_config *config);
/* The libraries that trace, to be loaded before the adapter's; "" where there are none.  In the program's process. */
void ctl_trace_environment(const struct ctl_trace *trace, char *const *command, char *libraries, size_t size);

/* 16 looks at both clocks, at least 10 ms after `began`: seconds of a tick. */
double ctl_trace_rate(struct tb_trace_moment began);
/* A job's file in `folder`, locked until this process ends; NULL where it cannot be made, said. */
struct tb_trace_job *ctl_trace_make_job(const char *folder);
/* Of the trace of that instance's run. */
void ctl_trace_folder(const char *instance, char *out, size_t size);

#endif
