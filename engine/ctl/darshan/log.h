/*
 * A Darshan log in the making (format 3.41): header, then one zlib stream each for
 * the job, the names and every module, in that order.
 */
#ifndef TB_CTL_TRACE_LOG_H
#define TB_CTL_TRACE_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum log_region {
    LOG_JOB = -2,
    LOG_NAMES,
    /* from here on modules' own numbers */ LOG_POSIX = 1,
    LOG_MPIIO = 2,
    LOG_STDIO = 9,
    LOG_DXT_POSIX = 10,
    LOG_DXT_MPIIO = 11
};

/* As it is in the log; the command and "\nTYPE\tPATH" of each mount follow. */
struct log_job {
    int64_t uid, start_s, start_ns, end_s, end_ns, nprocs, id;
    char metadata[1024];
};

struct log;

/* To PATH.RANDOM.part until log_close.  NULL with errno. */
struct log *log_create(const char *path);
/* A region is begun, written in pieces and ended before the next one; a module's only where it has records. */
void log_begin(struct log *log, enum log_region region);
void log_write(struct log *log, const void *bytes, size_t n);
void log_end(struct log *log);
/* Records of the module are missing. */
void log_set_partial(struct log *log, enum log_region module);
/* Writes the header and gives the log its name; 0, or -errno of the first failure and nothing is left. */
int log_close(struct log *log);

#endif
