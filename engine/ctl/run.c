/*
 * run: a program under a private instance.  Start a daemon, run the program with
 * the adapter preloaded, drain, say what the tiers did, remove the instance.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "commands.h"
#include "common/ctl.h"
#include "common/ending.h"
#include "common/nodes.h"
#include "common/show.h"
#include "common/signals.h"
#include "darshan/trace.h"
#include "instance/make.h"
#include <tierbench/program.h>

static const char usage[] =
    "usage: tierctl run -c CONFIG [-c FRAGMENT] [--mode MODE] [--trace OUT.darshan] [--stats OUT.json] [--keep] -- CMD...\n"
    "       tierctl run -c CONFIG --per-node LAUNCH ... -- CMD...   (an instance on each node: LAUNCH runs a command once on each)\n"
    "exit status: CMD's; 3 where CMD succeeded and the drain failed (the instance stays)";

struct run {
    struct ctl_daemon daemon;
    struct ctl_trace trace;
    struct ctl_nodes nodes; /* launch NULL: this one */
    const char *stats;
    bool keep, help;
    char **command;
    tb_engine *engine;
    int status; /* of the program, as a shell would say it */
    double program_s;
};

static const struct option long_options[] = {
    {"config", required_argument, NULL, 'c'},   {"mode", required_argument, NULL, 'm'},
    {"stats", required_argument, NULL, 's'},    {"trace", required_argument, NULL, 't'},
    {"keep", no_argument, NULL, 'k'},           {"help", no_argument, NULL, 'h'},
    {"per-node", required_argument, NULL, 'n'}, {NULL, 0, NULL, 0},
};

static int parse(int argc, char **argv, struct run *r)
{
    optind = 1;
    opterr = 0;
    for (int c; (c = getopt_long(argc, argv, "+c:h", long_options, NULL)) != -1;)
        switch (c) {
        case 'c': *(r->daemon.config ? &r->daemon.fragment : &r->daemon.config) = optarg; break;
        case 'm': r->daemon.mode = optarg; break;
        case 's': r->stats = optarg; break;
        case 'k': r->keep = true; break;
        case 't': r->trace.out = optarg; break;
        case 'n': r->nodes.launch = optarg; break;
        case 'h': r->help = true; return puts(usage), 0;
        default: return ctl_fail("run: unknown option or missing value: %s\n%s", argv[optind - 1], usage);
        }
    if (!r->daemon.config)
        return ctl_fail("run: needs -c CONFIG\n%s", usage);
    if (r->nodes.launch && (r->keep || r->trace.out))
        return ctl_fail(
            "run: --per-node goes with neither --keep nor --trace: instances and records of other nodes end with their launcher\n%s",
            usage);
    if (optind >= argc)
        return ctl_fail("run: needs a command after --\n%s", usage);
    r->command = argv + optind;
    return 0;
}

static bool find_program(const char *name, char *out, size_t size)
{
    const char *path = getenv("PATH");
    if (strchr(name, '/'))
        return snprintf(out, size, "%s", name), access(name, X_OK) == 0;
    for (const char *p = path ? path : "/usr/bin:/bin"; *p;) {
        size_t n = strcspn(p, ":");
        snprintf(out, size, "%.*s/%s", (int)n, p, name);
        if (access(out, X_OK) == 0)
            return true;
        p += n + (p[n] == ':');
    }
    return false;
}

static void exec_program(const struct run *r)
{
    char library[PATH_MAX], mpi[PATH_MAX], preload[5 * PATH_MAX], config[PATH_MAX], tracers[2 * PATH_MAX];
    const char *given = getenv("TB_PRELOAD"), *others = getenv("LD_PRELOAD");
    ctl_sibling("../lib/libtierbench_preload.so", library, sizeof(library));
    ctl_sibling("../lib/libtierbench_mpi.so", mpi, sizeof(mpi));
    bool has_mpi = access(mpi, R_OK) == 0; /* it is built where there is an MPI library */
    ctl_trace_environment(&r->trace, r->command, tracers, sizeof(tracers));
    snprintf(preload, sizeof(preload), "%s%s%s%s%s%s", tracers, given ? given : library, has_mpi ? ":" : "", has_mpi ? mpi : "",
             others ? ":" : "", others ? others : "");
    setenv("TIERBENCH_INSTANCE", r->daemon.name, 1);
    setenv("TIERBENCH_CONFIG", realpath(r->daemon.config, config) ? config : r->daemon.config, 1);
    setenv("LD_PRELOAD", preload, 1);
    ctl_signals_give_back();
    execvp(r->command[0], r->command);
    fprintf(stderr, "tierctl: cannot run %s: %s\n", r->command[0], strerror(errno));
    _exit(127);
}

static int run_program(struct run *r)
{
    int status;
    double start = ctl_now();
    pid_t pid = fork();
    if (pid < 0)
        return ctl_fail("cannot fork: %s", strerror(errno));
    if (pid == 0)
        exec_program(r);
    ctl_tell_daemon(&r->daemon, "program %ld\n", (long)pid);
    ctl_signals_pass_to(pid);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    ctl_signals_program_ended();
    r->program_s = ctl_now() - start;
    ctl_trace_program_ended(&r->trace);
    r->status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return 0;
}

/* On stderr, and with --stats to its file. */
static int report(const struct run *r, json_t *stats, double drain_s)
{
    fprintf(stderr, "tierctl: program %.3f s, drain %.3f s, exit status %d\n", r->program_s, drain_s, r->status);
    if (!r->stats)
        return 0;
    json_object_set_new(stats, "exit_status", json_integer(r->status));
    json_object_set_new(stats, "program_s", json_real(r->program_s));
    int rc = ctl_stats_write(r->stats, stats);
    json_decref(stats);
    return rc;
}

/* Drain, report, and remove the instance unless something still needs it. */
static int finish(struct run *r)
{
    char retry[256];
    snprintf(retry, sizeof(retry), "tierctl stop -i %s", r->daemon.name);
    ctl_gives_up_with(r->status ? r->status : EXIT_DRAIN_FAILED);
    if (!r->keep && tb_instance_retire(r->engine, true)) { /* processes that outlive the program may go on */
        tb_engine_detach(r->engine);
        return ctl_fail("instance %s: another process is ending it", r->daemon.name), r->status ? r->status : EXIT_DRAIN_FAILED;
    }
    struct ctl_ending end = ctl_drain_measured(r->engine, retry);
    int drained = end.rc;
    ctl_print_tiers(r->engine, stderr);
    int rc = report(r, r->stats ? ctl_stats_json(r->engine, &end) : NULL, end.drain_s);
    struct tb_instance_info info;
    struct tb_config config = *tb_instance_config(r->engine);
    tb_instance_info(r->engine, &info);
    if (!drained && !r->keep)
        drained = ctl_stop_daemon(r->engine, retry);
    if (drained || r->keep) {
        ctl_tell_daemon(&r->daemon, "keep\n");
        if (r->keep && !drained)
            fprintf(stderr, "tierctl: instance %s stays; end it with: %s\n", r->daemon.name, retry);
        tb_instance_retire(r->engine, false);
        tb_engine_detach(r->engine);
    } else {
        tb_instance_destroy(r->engine);
    }
    int traced = ctl_trace_finish(&r->trace, r->command, &config, info.config_digest);
    rc = rc ? rc : traced;
    return r->status ? r->status : drained ? drained : rc;
}

/* Instances that believe to be alone with the PFS would show each other's bytes late or never. */
static int check_config(const struct run *r)
{
    struct tb_config *c = calloc(1, sizeof(*c));
    struct tb_error err = {""};
    const struct ctl_daemon *d = &r->daemon;
    int rc = !c ? -ENOMEM : d->fragment ? tb_config_read_merged(d->config, d->fragment, c, &err) : tb_config_read(d->config, c, &err);
    if (rc)
        rc = ctl_fail("%s", err.text[0] ? err.text : strerror(-rc));
    else if (!c->several_nodes)
        rc = ctl_fail("run: --per-node: %s: nodes: one; allowed: several", d->config);
    free(c);
    return rc;
}

/* The same on every node. */
static int run_on_nodes(struct run *r)
{
    char config[PATH_MAX];
    json_t *stats = NULL;
    if (!realpath(r->daemon.config, config))
        return ctl_fail("%s: %s", r->daemon.config, strerror(errno));
    r->daemon.config = config;
    r->nodes.daemon = &r->daemon;
    int rc = check_config(r);
    if (rc)
        return rc;
    rc = ctl_nodes_start(&r->nodes);
    if (rc)
        return rc;
    if ((rc = run_program(r)))
        r->status = rc;
    double start = ctl_now();
    int drained = ctl_nodes_stop(&r->nodes, r->stats, &stats);
    rc = report(r, stats, ctl_now() - start);
    return r->status ? r->status : drained ? drained : rc;
}

int tb_run_command(int argc, char **argv)
{
    struct run r = {0};
    char program[PATH_MAX];
    int rc = parse(argc, argv, &r);
    if (rc || r.help)
        return rc;
    if (!find_program(r.command[0], program, sizeof(program)))
        return ctl_fail("run: %s: no such program", r.command[0]), 127;
    if (tb_program_unserved(program))
        return ctl_fail("run: %s %s: the adapter cannot serve it", program, tb_program_unserved(program));
    ctl_run_name("", r.daemon.name, sizeof(r.daemon.name));
    if (r.nodes.launch)
        return ctl_signals_hold(r.daemon.name), run_on_nodes(&r);
    if ((rc = ctl_trace_check(&r.trace)) || (rc = ctl_trace_begin(&r.trace, r.daemon.name)))
        return rc;
    r.daemon.is_owned = true;
    ctl_signals_hold(r.daemon.name);
    if ((rc = ctl_start_daemon(&r.daemon)) || (rc = ctl_attach(r.daemon.name, &r.engine))) {
        ctl_trace_forget(&r.trace);
        return rc;
    }
    ctl_trace_tell(&r.trace, tb_instance_config(r.engine));
    rc = run_program(&r);
    return rc ? rc : finish(&r);
}
