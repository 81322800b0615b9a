/*
 * A server program of another project, started for one measurement and stopped after it.
 * It gets SIGKILL from the kernel when this process ends in any way, so none is left over.
 */
#ifndef TB_COMPONENTS_SERVER_H
#define TB_COMPONENTS_SERVER_H

#include <stdbool.h>
#include <sys/types.h>

#include "job.h"

struct tb_server {
    pid_t pid; /* 0: not running */
};

/*
 * Run argv[0] of PATH or of /usr/sbin, its output into FOLDER/server.log, and wait until `is_ready` says so.
 * 0; TB_JOB_SKIPPED: there is no such program; 1: it ended or was not ready in time. Both are said.
 */
int tb_server_start(struct tb_job *job, struct tb_server *server, char *const argv[], bool (*is_ready)(const struct tb_job *job));
void tb_server_stop(struct tb_server *server);

/* The path of a Unix socket in the job's folder.  NULL: it is longer than such a path may be, which is said. */
const char *tb_server_socket(const struct tb_job *job);
/* It takes connections. */
bool tb_server_takes(const struct tb_job *job);

#endif
