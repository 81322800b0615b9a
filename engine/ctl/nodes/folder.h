/*
 * The folder in which the daemons of one run find each other: "NETWORK.FOLDER/.tierbench.INSTANCE", with the secret and the
 * record of each node. The run makes it and removes it.
 *
 * Problem: a run that is killed leaves it, with a secret in it, and no other start uses it again.
 *
 * Idea: `tierctl run` and every daemon that starts by the folder hold a lock on its lease (region/lease.h) as long as they
 * live. `gc` and `recover` remove the folder only if they get that lock alone. The lease is made first and removed last, so
 * what is left of a removal that was killed is found again.
 *
 * Limits: killed before the lease is made, a run leaves an empty folder, which holds no secret and is not removed. A folder
 * without a lease (its file system has no locks) is named and kept. If a file system hides the locks of other nodes, the
 * folder of a run that goes on there may be removed: this fails a start that is just going on, and nothing else, because
 * daemons that have found each other do not need the folder.
 */
#ifndef TB_CTL_NODES_FOLDER_H
#define TB_CTL_NODES_FOLDER_H

#include <limits.h>

#include "config/config.h"

struct ctl_nodes_folder {
    char path[PATH_MAX]; /* "": none */
    int lease;           /* -1: the file system has no locks */
};

/* A new one for that instance, with a secret, in use by this process. 0, or the exit status. */
int ctl_nodes_folder_make(struct ctl_nodes_folder *folder, const struct tb_config *c, const char *instance);
/* It goes, also while a process still has its lease. */
void ctl_nodes_folder_remove(struct ctl_nodes_folder *folder);

/* Remove what killed runs left in this configuration's network.folder; each folder is named, also where it is kept, and why. */
void ctl_nodes_folders_clear(const struct tb_config *c);

#endif
