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

/*
 * Make and touch the region, make the tiers' directories and slab files.
 * -EEXIST an instance of that name is there, alive or dead; -ENOTEMPTY a directory is, of one that was not recovered
 * or of which the region is not made yet.  Removes what it made itself when it fails, and nothing else.
 */
int tb_instance_create(const struct tb_config *config, const char *name, struct tb_io *base, tb_progress *progress,
                       void *arg, tb_engine **out, struct tb_error *err);

/*
 * Remove region, tier directories and shadow.  What is still dirty is lost: drain first.  Frees the handle.
 * -EBUSY another process is doing it; -ENOENT one has done it.
 */
int tb_instance_destroy(tb_engine *engine);

/* As tb_engine_attach, for the engine's own programs: works when no other program could attach any more. */
int tb_instance_attach(const char *name, struct tb_io *base, tb_engine **out);

struct tb_instance_info {
    char name[64];
    char config_file[TB_PATH_MAX];
    uint64_t config_digest;
    pid_t daemon_pid;    /* 0: it never ran */
    bool daemon_alive;
    uint32_t n_clients;  /* attached processes that live, but for the daemon and whoever asks through a handle */
    bool ends;           /* it is being stopped, or tb_instance_is_idle */
    uint64_t region_bytes;
    enum tb_huge_pages huge_pages;
};

/* This user's instances with a region, alive or dead; returns how many were written (at most `max`). */
int tb_instance_list(struct tb_instance_info *out, int max);
int tb_instance_info(tb_engine *engine, struct tb_instance_info *out);
/* The configuration that the region of that name was made with; -ENOENT, or what tb_engine_attach says of a region. */
int tb_instance_config_of(const char *name, struct tb_config *out);
/* Does the name still stand for this region?  No longer after a stop. */
bool tb_instance_is_there(tb_engine *engine);
/* Seconds since the region was made. */
double tb_instance_age(tb_engine *engine);

/*
 * What its lease in a tier says of an instance, wherever its region is: 1 somebody uses it; 0 nobody does, and it may hold
 * bytes that are not on the PFS; -ENOENT there is none, or all of it is; -EPERM its directory is another user's; else -errno.
 */
int tb_instance_is_used(const struct tb_config *config, const char *name);
/* The command that recovers what it left in its tiers, with the configuration and the mode that it had. */
void tb_instance_recovery(const struct tb_config *config, const char *name, char *out, size_t size);

/* The configuration the region was made with. */
const struct tb_config *tb_instance_config(tb_engine *engine);

/* Called by the daemon's main thread once; -EBUSY another one lives. */
int tb_instance_become_daemon(tb_engine *engine);

/* A client that wants the daemon to end behind it (HERMES_STOP_DAEMON) was here, and no client is left. */
bool tb_instance_is_idle(tb_engine *engine);
/* As if such a client had been here. */
void tb_instance_end_with_clients(tb_engine *engine);
/*
 * Before an instance is drained and destroyed: nobody attaches, and what clients that live
 * write from now on is written through.  `false` takes the first back.
 * -EBUSY: another process is ending it already.
 */
int tb_instance_retire(tb_engine *engine, bool retired);

/* Background work, run by the daemon: flush threads, repair of dead clients, statistics samples. */
int tb_background_start(tb_engine *engine);
void tb_background_stop(tb_engine *engine);

/* Copies at most `max` samples in order of time, the last taken now; returns how many. */
int tb_instance_samples(tb_engine *engine, struct tb_sample *out, int max);

/*
 * Flush every dirty file with `threads` threads; reports failures only.  0, or the first error.
 * What waits for another process is gone round, and is waited for at the end: -ETIMEDOUT where that
 * process has been stopped (SIGSTOP) for 30 s.  Then threads still wait, and the handle stays until this
 * process ends: a detach does nothing.
 */
int tb_instance_drain(tb_engine *engine, int threads, tb_progress *progress, tb_file_reporter *report, void *arg);

/* Processes of the instance that have waited for another one for over a second; returns how many were written. */
struct tb_waiting_process {
    int pid, for_pid;
    double seconds;
};
int tb_instance_waits(tb_engine *engine, struct tb_waiting_process *out, int max);

/* Files whose last flush failed, and why. */
void tb_instance_errors(tb_engine *engine, tb_file_reporter *report, void *arg);

/*
 * Put what a dead instance of `config` promised on the PFS: attach a region that
 * survived, else replay the journals found in the directory tiers.  Removes each
 * instance that is then wholly on the PFS.  Reports every file, every torn or
 * flipped record with error -EBADMSG, and every instance that somebody still uses
 * (region/lease.h), which it leaves as it is.  Returns the number of instances
 * recovered (0: there was nothing), or the first error.
 */
int tb_instance_recover(const struct tb_config *config, struct tb_io *base, tb_progress *progress,
                        tb_file_reporter *report, void *arg, struct tb_error *err);

#endif
