/*
 * In the place of a site's Darshan where there is none: it asks the same variables, and
 * leaves a log for the same processes under the same name.  The logs hold the job only.
 */
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "darshan/log.h"

static struct log_job job;
static bool traced; /* from now on, until the log is written */

static void begin(int nprocs)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    job = (struct log_job){.uid = getuid(), .start_s = now.tv_sec, .start_ns = now.tv_nsec, .nprocs = nprocs, .id = getpid()};
    traced = true;
}

/* The process writes it itself at its end: one that is killed leaves no log, as with Darshan. */
static void leave_log(void)
{
    char path[PATH_MAX], text[PATH_MAX + 16];
    struct timespec now;
    struct tm date;
    time_t started = job.start_s;
    const char *folder = getenv("DARSHAN_LOGPATH");
    if (!traced || !folder)
        return;
    traced = false;
    clock_gettime(CLOCK_REALTIME, &now);
    job.end_s = now.tv_sec;
    job.end_ns = now.tv_nsec;
    localtime_r(&started, &date);
    snprintf(path, sizeof(path), "%s/%d/%d/%d/user_%s_id%d-%d_%d-%d-1-1.darshan", folder, date.tm_year + 1900, date.tm_mon + 1,
             date.tm_mday, program_invocation_short_name, (int)job.id, (int)getpid(), date.tm_mon + 1, date.tm_mday);
    struct log *log = log_create(path);
    if (!log)
        return;
    log_begin(log, LOG_JOB);
    log_write(log, &job, sizeof(job));
    log_write(log, text, (size_t)snprintf(text, sizeof(text), "%s\next4\t/", program_invocation_name) + 1);
    log_end(log);
    log_close(log);
}

static __attribute__((constructor)) void program_begins(void)
{
    if (getenv("DARSHAN_ENABLE_NONMPI"))
        begin(1);
}

static __attribute__((destructor)) void program_ends(void)
{
    if (getenv("DARSHAN_ENABLE_NONMPI"))
        leave_log();
}

/* No destructor runs after _exit, so the log is written here. */
__attribute__((visibility("default"))) void _exit(int status)
{
    void (*next)(int) = (void (*)(int))dlsym(RTLD_NEXT, "_exit");
    program_ends();
    next(status);
    __builtin_unreachable();
}

__attribute__((visibility("default"))) int MPI_Init(int *argc, char ***argv)
{
    int rc = PMPI_Init(argc, argv), ranks;
    PMPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (!traced)
        begin(ranks);
    return rc;
}

/* One log for a job of several ranks: rank 0 writes it, when all ranks have come here. */
__attribute__((visibility("default"))) int MPI_Finalize(void)
{
    int rank;
    PMPI_Barrier(MPI_COMM_WORLD);
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0 || job.nprocs == 1)
        leave_log();
    traced = false;
    return PMPI_Finalize();
}
