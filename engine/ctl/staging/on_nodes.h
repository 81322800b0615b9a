/*
 * Movers of a run on several nodes: each node moves the files of its own folders. They are
 * started by the launcher, as the nodes' daemons are; a process that waits for them asks through the log.
 */
#ifndef TB_CTL_STAGING_ON_NODES_H
#define TB_CTL_STAGING_ON_NODES_H

#include <limits.h>
#include <sys/types.h>

#include "common/ctl.h"
#include "config/stage.h"

struct ctl_node_movers {
    const char *launch;
    const struct ctl_daemon *daemon; /* its configuration */
    const struct tb_config_stage *out;
    pid_t pid;             /* the launcher of the movers; 0: there are none */
    char config[PATH_MAX]; /* as all nodes find it */
};

/* Stage in on each node where `in` is set, then a mover on each where `out` has a folder. 0, or the exit status, said. */
int ctl_node_movers_start(struct ctl_node_movers *movers, bool in);
/* All that was closed on all nodes is moved, with progress. 0 or EXIT_DRAIN_FAILED, said. */
int ctl_node_movers_finish(struct ctl_node_movers *movers);

/* What the launcher starts on a node: WORD is watch, ready (wait until the node's mover works) or in. The exit status. */
int ctl_node_stage(const char *word, const char *config, const char *fragment);

#endif
