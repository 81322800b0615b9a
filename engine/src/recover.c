/*
 * Recovery: every dead instance of a configuration.  A region that survived
 * (processes died, the node did not) knows all that was written and is drained;
 * where it is gone, the journal knows all that was fsynced and is replayed.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "chain.h"
#include "client.h"
#include "instance.h"
#include "journal.h"
#include "remove_tree.h"
#include "replay.h"
#include "waiting.h"

#define MAX_INSTANCES 64

static int recover_region(const struct tb_instance_info *info, struct tb_io *base, tb_progress *progress,
                          tb_file_reporter *report, void *arg)
{
    tb_engine *e;
    int rc = tb_instance_attach(info->name, base, &e);
    if (rc)
        return rc;
    rc = tb_instance_drain(e, 2, progress, report, arg);
    if (rc)
        tb_engine_detach(e);
    else
        rc = tb_instance_destroy(e);
    return rc;
}

static bool has_region(const char *name)
{
    int fd = tb_region_file_open(name);
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

static void remove_instance_directories(const struct tb_config *c, const char *host, const char *name)
{
    char directory[TB_PATH_MAX + 256];
    for (uint32_t t = 0; t < c->n_tiers; t++)
        if (c->tiers[t].medium == TB_MEDIUM_DIRECTORY) {
            tb_tier_directory(&c->tiers[t], host, name, directory, sizeof(directory));
            tb_journal_remove(directory);
            tb_remove_tree(directory);
        }
}

/* One directory "tierbench.UID.HOST.NAME" without a region; 1 where it was recovered, 0 where it is not ours to. */
static int recover_journal(const struct tb_config *c, const struct tb_layout *l, const char *name, const char *host,
                           struct tb_io *pfs, tb_file_reporter *report, void *arg)
{
    if (has_region(name))
        return 0;
    struct tb_replay replay = {.config = c, .layout = l, .host = host, .name = name, .io = pfs, .report = report, .arg = arg};
    int rc = tb_replay(&replay);
    if (rc)
        return rc == -ESTALE ? 0 : rc;
    remove_instance_directories(c, host, name);
    return 1;
}

static int recover_journals(const struct tb_config *c, struct tb_io *pfs, tb_file_reporter *report, void *arg,
                            struct tb_error *err)
{
    struct tb_layout layout;
    char host[64] = "", prefix[128];
    uint32_t t = tb_journal_tier(c);
    int n = 0, error = tb_layout_compute(c, &layout, err);
    if (error || t == TB_NONE)
        return error;
    gethostname(host, sizeof(host) - 1);
    size_t length = (size_t)snprintf(prefix, sizeof(prefix), "tierbench.%u.%s.", (unsigned)getuid(), host);
    DIR *tier = opendir(c->tiers[t].path);
    if (!tier)
        return -errno;
    for (struct dirent *d; (d = readdir(tier));) {
        if (strncmp(d->d_name, prefix, length) != 0)
            continue;
        int rc = recover_journal(c, &layout, d->d_name + length, host, pfs, report, arg);
        n += rc > 0;
        error = rc < 0 && !error ? rc : error;
    }
    closedir(tier);
    return error ? error : n;
}

/* Names that wait of instances that are gone, their journals replayed. */
static int recover_waiting(const struct tb_config *c, struct tb_io *pfs, tb_file_reporter *report, void *arg)
{
    char host[64] = "", prefix[128];
    int n = 0, error = 0;
    gethostname(host, sizeof(host) - 1);
    size_t length = (size_t)snprintf(prefix, sizeof(prefix), ".tierbench.%u.%s.", (unsigned)getuid(), host);
    DIR *directory = c->deferred ? opendir(c->pfs.path) : NULL;
    for (struct dirent *d; directory && (d = readdir(directory));) {
        if (strncmp(d->d_name, prefix, length) != 0 || has_region(d->d_name + length))
            continue;
        int rc = tb_waiting_recover(c, host, d->d_name + length, pfs, report, arg);
        n += rc == 0;
        error = rc && !error ? rc : error;
    }
    if (directory)
        closedir(directory);
    return error ? error : n;
}

int tb_instance_recover(const struct tb_config *config, struct tb_io *base, tb_progress *progress,
                        tb_file_reporter *report, void *arg, struct tb_error *err)
{
    struct tb_instance_info *all = malloc(MAX_INSTANCES * sizeof(*all));
    struct tb_device_clock *clock = calloc(1, sizeof(*clock));
    struct tb_io *pfs = clock ? tb_chain_new(config->pfs.modelled ? &config->pfs.model : NULL, clock, base) : NULL;
    uint64_t digest = tb_config_digest(config);
    int n = 0, error = all && pfs ? 0 : -ENOMEM;
    tb_region_file_relink(config);
    for (int i = 0, found = error ? 0 : tb_instance_list(all, MAX_INSTANCES); i < found; i++) {
        if (all[i].config_digest != digest || all[i].daemon_alive)
            continue;
        int rc = recover_region(&all[i], base, progress, report, arg);
        n += rc == 0;
        error = rc && !error ? rc : error;
    }
    int journals = error ? 0 : recover_journals(config, pfs, report, arg, err);
    int waiting = error || journals < 0 ? 0 : recover_waiting(config, pfs, report, arg);
    if (pfs)
        tb_chain_free(pfs);
    free(clock);
    free(all);
    return error ? error : journals < 0 ? journals : waiting < 0 ? waiting : n + journals + waiting;
}
