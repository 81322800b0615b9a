/*
 * An instance: a region with its directories, made by the daemon, found by name.
 *
 * The region is /dev/shm/tierbench.<uid>.<name>, mode 0600, or a link of that name
 * (region/region_file.h); each directory tier
 * holds tierbench.<uid>.<name>/ with one file per slab, the journal where the
 * tier is persistent, and the shadow directory of scratch prefixes on the top
 * directory tier.  Private to the engine's own programs (tierd, tierctl).
 */
#ifndef TB_INSTANCE_H
#define TB_INSTANCE_H

#include <sys/types.h>

#include "base/report.h"
#include "config/config.h"
#include "region/layout.h"
#include "region/region_file.h"
#include "region/sample.h"

struct tb_instance_info {
    char name[64];
    char config_file[TB_PATH_MAX];
    uint64_t config_digest;
    pid_t daemon_pid; /* 0: it never ran */
    bool daemon_alive;
    bool daemon_gave_up; /* it ended because it waited in vain for a process that was stopped */
    uint32_t n_clients;  /* attached processes that live, without the daemon and without the process that asks through a handle */
    bool ends;           /* it is being stopped, or tb_instance_is_idle */
    bool is_left;        /* its daemon is gone, and no living process makes or ends it */
    uint64_t region_bytes;
    enum tb_huge_pages huge_pages;
};

/* This user's instances with a region, alive or dead: how many, or -errno. The caller frees *out, which is NULL where there are none. */
int tb_instance_list(struct tb_instance_info **out);
int tb_instance_info(tb_engine *engine, struct tb_instance_info *out);
/* The configuration that the region of that name was made with; -ENOENT, or what tb_engine_attach says of a region. */
int tb_instance_config_of(const char *name, struct tb_config *out);
/* Does the name still lead to this region? Not after a stop. */
bool tb_instance_is_there(tb_engine *engine);

/* The configuration the region was made with. */
const struct tb_config *tb_instance_config(tb_engine *engine);

/* Called by the daemon's main thread once; -EBUSY another one lives. */
int tb_instance_become_daemon(tb_engine *engine);
/* Called before the daemon ends with work left undone, because a process is stopped: `tierctl stop` will report it. */
void tb_instance_give_up(tb_engine *engine);

/* A client asked the daemon to end after it (HERMES_STOP_DAEMON), and no client is left. */
bool tb_instance_is_idle(tb_engine *engine);
/* As if such a client had been here. */
void tb_instance_end_with_clients(tb_engine *engine);
/*
 * Before an instance is drained and destroyed: no new client can attach, and what living
 * clients write from now on is written through. `false` takes the first back. -EBUSY:
 * another process is ending it already.
 */
int tb_instance_retire(tb_engine *engine, bool retired);

/*
 * Processes of the instance that have waited for another one for over a second; returns how many were written.  This
 * one is among them where a lock that others need to attach, or to name a file, is not free within a second.
 */
struct tb_waiting_process {
    int pid, for_pid;
    double seconds;
};
int tb_instance_waits(tb_engine *engine, struct tb_waiting_process *out, int max);

/* Files with a failed last flush, and why. */
void tb_instance_errors(tb_engine *engine, tb_file_reporter *report, void *arg);

#endif
