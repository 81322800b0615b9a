/*
 * `tierctl run --per-node LAUNCH`: an instance of one name on every node of a
 * job.  LAUNCH is the words before a command that the site's launcher runs once
 * on each node (`srun --overlap --nodes=4 --ntasks=4 --ntasks-per-node=1 ...`).
 */
#ifndef TB_CTL_NODES_H
#define TB_CTL_NODES_H

#include <stdbool.h>
#include <sys/types.h>

#include "common/ctl.h"
#include "nodes/folder.h"

struct ctl_nodes {
    const char *launch;
    unsigned n;                     /* how many LAUNCH starts, where they share their tiers; 0: they don't */
    struct ctl_nodes_folder folder; /* then where they find each other */
    const char *trace;              /* the folder of the run's trace; NULL: none */
    struct ctl_daemon *daemon;      /* which instance */
    pid_t daemons;                  /* the launcher of the daemons: it lasts as long as they do */
    int ended;                      /* its exit status */
};

/* A name for the run's instance, with this host in it. */
void ctl_nodes_name(struct ctl_nodes *nodes);

/* For `nodes: shared`: how many nodes there are, and the folder with their secret. 0, or the exit status. */
int ctl_nodes_prepare(struct ctl_nodes *nodes, const struct tb_config *config);
/* The folder goes again. */
void ctl_nodes_forget(struct ctl_nodes *nodes);

/*
 * Start a daemon on each node, wait until all instances are ready. 0,
 * or the exit status with none left.
 */
int ctl_nodes_start(struct ctl_nodes *nodes);

/* Of --stats, before anything is started: 0, or EXIT_BAD_INPUT with what is in the way said. */
int ctl_nodes_check_stats(const char *stats_path);
/*
 * Drain and remove the instance of each node.  `stats` may be NULL; else it is the nodes' numbers, summed, with each
 * node's own under "nodes"; times are the slowest node's. Where they cannot be had that is said, and it stays as it is. 0, or
 * EXIT_DRAIN_FAILED with what to do said.
 */
int ctl_nodes_stop(struct ctl_nodes *nodes, const char *stats_path, json_t **stats);

/* These words, the last one NULL, by the launcher once on each node, in a process group of its own; -1, said. */
pid_t ctl_nodes_spawn(const char *launch, const char *const *words);
/* Its exit status, as a shell says it. */
int ctl_nodes_reap(pid_t pid);

#endif
