/*
 * How a long operation reports its progress to its caller.
 */
#ifndef TB_BASE_REPORT_H
#define TB_BASE_REPORT_H

#include <stdbool.h>
#include <stdint.h>

#include <tierbench/engine.h>

/* Called during long work: what is done of what, in bytes or files. */
typedef void tb_progress(void *arg, const char *what, uint64_t done, uint64_t total);

/* One file of a drain or recovery, for reports. */
struct tb_file_report {
    char path[TB_PATH_MAX];
    uint64_t bytes; /* flushed or recovered */
    int error;      /* 0 or negative errno */
    bool is_over;   /* the error is told, and does not fail what is done */
    char why[512];  /* of an instance that is left as it is; "": the error says it */
};
typedef void tb_file_reporter(void *arg, const struct tb_file_report *report);

#endif
