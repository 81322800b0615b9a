/*
 * start, stop, status, drain, recover and gc: the life of an instance from the command line.
 * All of them can be given again after a failure: what is not on the PFS stays buffered or in
 * the journal, and the message names the command that goes on.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/huge_place.h"
#include "base/process.h"
#include "base/remove_tree.h"
#include "base/report.h"
#include "commands.h"
#include "common/copies.h"
#include "common/ctl.h"
#include "common/ending.h"
#include "common/openmetrics.h"
#include "common/show.h"
#include "config/placement.h"
#include "darshan/job.h"
#include "darshan/node.h"
#include "instance/make.h"
#include "nodes/folder.h"
#include "recovery/recover.h"
#include "region/lease.h"
#include "staging/orphans.h"
#include "text/sizes.h"
#include <tierbench/trace.h>
#include "others.h"
#include "watch.h"

struct options {
    const char *config, *fragment, *name, *mode, *stats, *output;
    bool force, json, watch, wait, openmetrics;
    double watch_seconds;
};

/* In seconds; without a number once a second. */
static int parse_watch(const char *text, struct options *o)
{
    char *end;
    o->watch = true;
    o->watch_seconds = text ? strtod(text, &end) : 1.0;
    if (text && (*end || !(o->watch_seconds >= 0.01 && o->watch_seconds <= 86400)))
        return ctl_fail("--watch: %s: allowed is a number of seconds from 0.01 to 86400", text);
    return 0;
}

/* -c twice: the second one is a fragment that is merged into the first. */
static int take(void *into, char key, const char *value)
{
    struct options *o = into;
    switch (key) {
    case 'c': *(o->config ? &o->fragment : &o->config) = value; return 0;
    case 'i': o->name = value; return 0;
    case 'M': o->mode = value; return 0;
    case 'F': o->force = true; return 0;
    case 'J': o->json = true; return 0;
    case 'W': return parse_watch(value, o);
    case 'A': o->wait = true; return 0;
    case 'o': o->output = value; return ctl_check_output("-o", value);
    case 'O': o->openmetrics = true; return 0;
    default: o->stats = value; return ctl_check_output("--stats", value);
    }
}

static int parse(const struct ctl_command *self, int argc, char **argv, struct options *o)
{
    memset(o, 0, sizeof(*o));
    return ctl_parse(self, argc, argv, take, o);
}

static int parse_with_config(const struct ctl_command *self, int argc, char **argv, struct options *o)
{
    int rc = parse(self, argc, argv, o);
    return rc || o->config ? rc : ctl_misused(self, "needs -c CONFIG");
}

/*
 * The daemon goes on after this command; only its readiness, or its one message of why not, is
 * waited for.
 */
int tb_start_command(const struct ctl_command *self, int argc, char **argv)
{
    struct options o;
    struct tb_error err;
    struct ctl_daemon d = {0};
    int rc = parse_with_config(self, argc, argv, &o);
    if (rc)
        return rc;
    if (o.name && tb_instance_check_name(o.name, &err))
        return ctl_fail("%s", err.text);
    d.config = o.config;
    d.fragment = o.fragment;
    d.mode = o.mode;
    if (o.name)
        snprintf(d.name, sizeof(d.name), "%s", o.name);
    else
        ctl_default_name(o.config, d.name, sizeof(d.name));
    rc = ctl_start_daemon(&d);
    if (rc)
        return rc;
    printf("instance %s runs (tierd %ld); programs use it with TIERBENCH_INSTANCE=%s\n", d.name, d.pid, d.name);
    ctl_name_others(d.name);
    return 0;
}

/* The nodes of a job write to one folder: `%h` in the path is the host's name. */
static int write_stats(const char *path, tb_engine *e, const struct ctl_ending *end)
{
    char host[64] = "", full[PATH_MAX];
    const char *mark = strstr(path, "%h");
    gethostname(host, sizeof(host) - 1);
    snprintf(full, sizeof(full), "%.*s%s%s", (int)(mark ? mark - path : (long)strlen(path)), path, mark ? host : "", mark ? mark + 2 : "");
    json_t *stats = ctl_stats_json(e, end);
    int rc = ctl_stats_write(full, stats);
    json_decref(stats);
    return rc;
}

/*
 * Order: no new program is let in, what is dirty is drained, the statistics are written while
 * the region still has them, the daemon ends, and the instance is removed last. If any step
 * fails, programs are let in again and the instance goes on. --force of a dead instance needs
 * no attaching: it is discarded by its name.
 */
int tb_stop_command(const struct ctl_command *self, int argc, char **argv)
{
    struct options o;
    tb_engine *e;
    char retry[256];
    int rc = parse(self, argc, argv, &o);
    trace_is_no_rank();
    if (rc || (o.force && o.name && tb_instance_discard(o.name) == 0) || (rc = ctl_attach(o.name, &e)))
        return rc;
    struct tb_instance_info info;
    struct ctl_ending end = {0};
    tb_instance_info(e, &info);
    snprintf(retry, sizeof(retry), "tierctl stop -i %s", info.name);
    if ((rc = tb_instance_retire(e, true))) {
        tb_engine_detach(e);
        return ctl_fail("instance %s: another process is ending it", info.name);
    }
    if (!o.force)
        end = ctl_drain_measured(e, retry);
    if (o.stats)
        rc = write_stats(o.stats, e, &end);
    tb_trace_ends(tb_trace_of(TB_TRACE_STORAGE), TB_TRACE_EXITS); /* a node's records are handed on when its daemon ends */
    if (!end.rc)
        end.rc = ctl_stop_daemon(e, retry);
    if (end.rc) {
        tb_instance_retire(e, false);
        tb_engine_detach(e);
        return end.rc;
    }
    int removed = tb_instance_destroy(e);
    return removed ? ctl_fail("instance %s: cannot be removed: %s", info.name, strerror(-removed)) : rc;
}

/* Files with a failed last flush: their bytes are still in the tiers. */
static void print_error(void *arg, const struct tb_file_report *r)
{
    fprintf(arg, "error: %s: %s\n", r->path, strerror(-r->error));
}

static void print_status(tb_engine *e)
{
    const struct tb_config *c = tb_instance_config(e);
    struct tb_instance_info info;
    tb_instance_info(e, &info);
    printf("instance %s  config %s\n", info.name, info.config_file);
    printf("daemon %s (pid %d)  clients %u  fsync %s  placement %s  %s  region %.1f MiB, huge pages %s\n",
           info.daemon_alive ? "alive" : "dead", (int)info.daemon_pid, info.n_clients, tb_fsync_name(c->fsync),
           tb_policy_name(c->placement.policy), ctl_is_modelled(c) ? "modelled" : "real", (double)info.region_bytes / TB_MIB,
           tb_huge_pages_name(info.huge_pages));
    if (info.huge_pages == TB_HUGE_NONE)
        printf("  huge pages for the next start, as root: %s\n", TB_HUGE_ENABLE);
    ctl_print_copy(&e->header->copy, stdout);
    ctl_print_tiers(e, stdout);
    ctl_print_waits(e, stdout);
    ctl_print_nodes(e, stdout);
    tb_instance_errors(e, print_error, stdout);
}

/* Options that do not fit together are refused before anything is looked at. */
int tb_status_command(const struct ctl_command *self, int argc, char **argv)
{
    struct options o;
    tb_engine *e;
    int rc = parse(self, argc, argv, &o);
    trace_is_no_rank();
    if (rc)
        return rc;
    if (o.output && !o.openmetrics)
        return ctl_fail("status: -o needs --openmetrics");
    if (o.openmetrics && (o.json || o.watch || o.wait))
        return ctl_fail("status: --openmetrics: allowed with it are -i and -o");
    if (o.openmetrics)
        return ctl_openmetrics(o.name, o.output);
    if (o.wait)
        return o.name ? ctl_await(o.name) : ctl_misused(self, "--wait needs -i NAME");
    if ((rc = ctl_look(o.name, &e)))
        return rc;
    if (o.watch) {
        rc = ctl_watch(e, o.watch_seconds, o.json);
    } else if (o.json) {
        json_t *j = ctl_instance_json(e, false);
        json_dumpf(j, stdout, JSON_INDENT(2));
        puts("");
        json_decref(j);
    } else {
        print_status(e);
    }
    tb_engine_detach(e);
    return rc || o.watch ? rc : ctl_output_ends();
}

/* The instance goes on; a later write is dirty again. */
int tb_drain_command(const struct ctl_command *self, int argc, char **argv)
{
    struct options o;
    tb_engine *e;
    char retry[256];
    int rc = parse(self, argc, argv, &o);
    if (rc || (rc = ctl_attach(o.name, &e)))
        return rc;
    struct tb_instance_info info;
    tb_instance_info(e, &info);
    snprintf(retry, sizeof(retry), "tierctl drain -i %s", info.name);
    rc = ctl_drain(e, retry);
    tb_engine_detach(e);
    return rc;
}

/* `arg`: NULL, or a bool that is set where something is named that is not recovered. */
static void print_recovered(void *arg, const struct tb_file_report *r)
{
    if (arg && r->error)
        *(bool *)arg = true;
    if (r->why[0])
        fprintf(stderr, "tierctl: %s: %s\n", r->path, r->why);
    else if (r->error)
        fprintf(stderr, "tierctl: %s: not recovered: %s\n", r->path, strerror(-r->error));
    else
        printf("%s: %llu bytes recovered\n", r->path, (unsigned long long)r->bytes);
}

/*
 * Of one configuration, because the tiers of a dead instance are found by it. 3 where
 * something is kept, for a script must not remove the tiers then.
 */
int tb_recover_command(const struct ctl_command *self, int argc, char **argv)
{
    struct options o;
    struct tb_error err = {""};
    int rc = parse_with_config(self, argc, argv, &o);
    if (rc)
        return rc;
    struct tb_config *config = calloc(1, sizeof(*config));
    if (!config)
        return ctl_fail("no memory");
    rc = tb_config_read_for_instance(o.config, o.fragment, o.mode, config, &err);
    if (rc)
        return free(config), ctl_fail("%s", err.text);
    tb_process_writes_any_size();
    int n = tb_instance_recover(config, tb_io_libc(), NULL, print_recovered, NULL, &err);
    ctl_nodes_folders_clear(config);
    if (n >= 0)
        printf("%d instance%s recovered\n", n, n == 1 ? "" : "s");
    else
        ctl_fail("recovery is not complete: %s; %s", err.text[0] ? err.text : strerror(-n),
                 n == -ENODATA ? "all else is on the PFS" : "what is not on the PFS is kept");
    free(config);
    return n >= 0 ? 0 : EXIT_DRAIN_FAILED;
}

/* Remove what is left of a trace that will get no log. A process that still makes one holds a lock (darshan/job.c). */
static void forget_trace(const char *instance)
{
    char folder[128], job[136];
    ctl_trace_folder(instance, folder, sizeof(folder));
    snprintf(job, sizeof(job), "%s/job", folder);
    int fd = open(job, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || tb_lease_lock(fd, TB_LEASE_USED) == 0)
        tb_remove_tree(folder, NULL);
    if (fd >= 0)
        close(fd);
}

/* Only if nothing is left by which the instance could be recovered later. */
static bool is_cleared(const struct tb_instance_info *dead, struct tb_config *room)
{
    bool cleared = tb_instance_config_of(dead->name, room) == -ENOENT;
    if (cleared)
        forget_trace(dead->name);
    return cleared;
}

/* All that is dead of one configuration: 0, or an error, which is said. */
static int recover_all(const struct tb_instance_info *dead, struct tb_config *config)
{
    struct tb_error err = {""};
    bool named = false;
    int rc = tb_instance_config_of(dead->name, config);
    if (!rc)
        ctl_nodes_folders_clear(config);
    rc = rc ? rc : tb_instance_recover(config, tb_io_libc(), NULL, print_recovered, &named, &err);
    if (rc >= 0 || rc == -ENOENT) /* a tier without its path holds nothing more, and what had a region is named */
        return named && rc < 0 ? EXIT_DRAIN_FAILED : 0;
    if (!named)
        ctl_fail("instance %s is kept: %s", dead->name, err.text[0] ? err.text : strerror(-rc));
    return EXIT_DRAIN_FAILED;
}

/*
 * A recovery takes all dead instances of a configuration at once, so the others would find
 * nothing.
 */
static bool is_first_of_its_configuration(const struct tb_instance_info *all, int i)
{
    for (int k = 0; k < i; k++)
        if (all[k].is_left && all[k].config_digest == all[i].config_digest)
            return false;
    return true;
}

/*
 * Three passes: all are named first, so that a recovery that fails in the middle has told what
 * there is; then each configuration is recovered once; then what is gone is counted. The first
 * error is the exit status.
 */
static int clear(const struct tb_instance_info *all, int found, int *n)
{
    struct tb_config *config = calloc(1, sizeof(*config));
    int rc = config ? 0 : EXIT_DRAIN_FAILED;
    for (int i = 0; i < found && config; i++)
        if (all[i].is_left)
            printf("instance %s  config %s: its daemon is gone\n", all[i].name, all[i].config_file);
    for (int i = 0; i < found && config; i++)
        if (all[i].is_left && is_first_of_its_configuration(all, i)) {
            int kept = recover_all(&all[i], config);
            rc = rc ? rc : kept;
        }
    for (int i = 0; i < found && config; i++)
        *n += all[i].is_left && is_cleared(&all[i], config);
    free(config);
    return rc;
}

static void print_swept(const char *name)
{
    printf("instance %s: its start was killed; what it made in directories, tierctl recover removes\n", name);
}

/* What lives, or is just being made or ended, is left alone. */
int tb_gc_command(const struct ctl_command *self, int argc, char **argv)
{
    struct options o;
    struct tb_instance_info *all;
    int rc = parse(self, argc, argv, &o), n = 0;
    if (rc)
        return rc;
    int found = tb_instance_list(&all);
    if (found < 0)
        return ctl_fail("no memory");
    tb_process_writes_any_size();
    rc = clear(all, found, &n);
    n += tb_instance_sweep_unready(print_swept);
    ctl_movers_name_orphans();
    printf("%d instance%s cleared\n", n, n == 1 ? "" : "s");
    free(all);
    return rc;
}
