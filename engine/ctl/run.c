/*
 * run: a program under a private instance.  Start a daemon, run the program with the adapter
 * preloaded, drain, say what the tiers did, remove the instance. If tierctl is killed, the
 * daemon sees the end of its pipe, and drains and removes the instance after the last client.
 * The exit status is the program's; where that is 0, the one of the drain or the report.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "commands.h"
#include "common/ctl.h"
#include "common/ending.h"
#include "config/check.h"
#include "nodes/nodes.h"
#include "others.h"
#include "common/show.h"
#include "common/signals.h"
#include "darshan/trace.h"
#include "instance/attach.h"
#include "instance/make.h"
#include "region/layout.h"
#include "stage/asked.h"
#include "staging/movers.h"
#include "staging/on_nodes.h"
#include <tierbench/program.h>

struct run {
    struct ctl_daemon daemon;
    struct ctl_trace trace;
    struct ctl_nodes nodes;                 /* launch NULL: this one */
    struct tb_config_stage stage, stage_in; /* `from` "": no files are staged out, or in */
    struct ctl_mover mover, bringer;        /* of stage_out; of stage_in with `when: open` */
    char asked[64 + TB_PATH_MAX];           /* TB_ASKED_VARIABLE for the program; "": it need not ask */
    struct ctl_node_movers movers;          /* with --per-node */
    const char *stats;
    bool keep;
    char **command;
    tb_engine *engine;
    int status; /* of the program, as a shell would say it */
    double program_s;
};

/* -c may come twice: first the configuration, then its fragment. */
static int take(void *into, char key, const char *value)
{
    struct run *r = into;
    switch (key) {
    case 'c': *(r->daemon.config ? &r->daemon.fragment : &r->daemon.config) = value; return 0;
    case 'M': r->daemon.mode = value; return 0;
    case 'S': r->stats = value; return ctl_check_output("--stats", value);
    case 'K': r->keep = true; return 0;
    case 'T': r->trace.out = value; return 0;
    default: r->nodes.launch = value; return 0;
    }
}

/* What cannot work is refused here, before a folder, a daemon or a mover is made. */
static int parse(const struct ctl_command *self, int argc, char **argv, struct run *r)
{
    int rc = ctl_parse(self, argc, argv, take, r);
    if (rc)
        return rc;
    const struct ctl_configured by = {r->daemon.config, r->daemon.fragment, r->daemon.mode};
    if ((rc = ctl_stage_settings(&by, !r->nodes.launch, &r->stage)) || (rc = ctl_stage_in_settings(&by, !r->nodes.launch, &r->stage_in)))
        return rc;
    if (!r->daemon.config && !r->stage.from[0])
        return ctl_misused(self, "needs -c CONFIG, or PERSIST_DIR and PFS_DIR in the environment");
    if (!r->daemon.config && (r->daemon.mode || r->stats || r->keep || r->trace.out || r->nodes.launch))
        return ctl_misused(self, "without -c CONFIG files are staged out and nothing else: no other option goes with it");
    if (r->nodes.launch && r->keep)
        return ctl_misused(self, "--per-node goes without --keep: what other nodes hold ends with their launcher");
    if (optind >= argc)
        return ctl_misused(self, "needs a command after --");
    r->command = argv + optind;
    return 0;
}

/* Anything but a directory, as execve takes it. */
static bool is_file(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && !S_ISDIR(st.st_mode);
}

/*
 * As a shell does: 0, 127 where there is none, 126 where there is one that cannot be
 * executed, with `out` its path.
 */
static int find_program(const char *name, char *out, size_t size)
{
    const char *path = getenv("PATH");
    char at[PATH_MAX];
    snprintf(out, size, "%s", name);
    if (strchr(name, '/'))
        return access(name, F_OK) ? 127 : is_file(name) && access(name, X_OK) == 0 ? 0 : 126;
    int rc = 127;
    for (const char *p = path ? path : "/usr/bin:/bin"; *p;) {
        size_t n = strcspn(p, ":");
        snprintf(at, sizeof(at), "%.*s/%s", (int)n, p, name);
        bool runs = is_file(at) && access(at, X_OK) == 0;
        if (runs || (rc == 127 && is_file(at))) {
            snprintf(out, size, "%s", at);
            rc = runs ? 0 : 126;
        }
        if (runs)
            break;
        p += n + (p[n] == ':');
    }
    return rc;
}

/* 0, or the exit status, said. */
static int check_program(const char *name)
{
    char program[PATH_MAX];
    int rc = find_program(name, program, sizeof(program));
    if (rc == 127)
        ctl_fail("run: %s: no such program", name);
    else if (rc)
        ctl_fail("run: %s: is not executable%s", program, is_file(program) ? " (chmod +x makes a program of it)" : ": it is a directory");
    else if (tb_program_unserved(program))
        rc = ctl_fail("run: %s %s: the adapter cannot serve it", program, tb_program_unserved(program));
    return rc;
}

/*
 * Order of LD_PRELOAD: tracers, our adapter, the MPI adapter, then what the user
 * had there, so that a tracer sees each call before the adapter does. TIERBENCH_CONFIG is an
 * absolute path, since the program may change its directory.
 */
static void preload(const struct run *r)
{
    char library[PATH_MAX], mpi[PATH_MAX], libraries[5 * PATH_MAX], config[PATH_MAX], tracers[2 * PATH_MAX];
    const char *given = getenv("TB_PRELOAD"), *others = getenv("LD_PRELOAD");
    ctl_sibling("../lib/libtierbench_preload.so", library, sizeof(library));
    ctl_sibling("../lib/libtierbench_mpi.so", mpi, sizeof(mpi));
    bool has_mpi = access(mpi, R_OK) == 0; /* it is built where there is an MPI library */
    ctl_trace_environment(&r->trace, r->command, tracers, sizeof(tracers));
    snprintf(libraries, sizeof(libraries), "%s%s%s%s%s%s", tracers, given ? given : library, has_mpi ? ":" : "", has_mpi ? mpi : "",
             others ? ":" : "", others ? others : "");
    setenv("TIERBENCH_INSTANCE", r->daemon.name, 1);
    setenv("TIERBENCH_CONFIG", realpath(r->daemon.config, config) ? config : r->daemon.config, 1);
    setenv("LD_PRELOAD", libraries, 1);
}

/* In the child. For stage-out alone a program needs no adapter. */
static void exec_program(const struct run *r)
{
    if (r->daemon.config)
        preload(r);
    if (r->asked[0]) {
        setenv(TB_ASKED_VARIABLE, r->asked, 1);
        setenv(TB_ASKED_FROM_VARIABLE, r->stage_in.from, 1);
    }
    ctl_signals_give_back();
    execvp(r->command[0], r->command);
    fprintf(stderr, "tierctl: cannot run %s: %s\n", r->command[0], strerror(errno));
    _exit(127);
}

/*
 * The daemon is told of the program, so that it can wait for it if tierctl is killed. Signals
 * are passed on as soon as there is a process for them.
 */
static int run_program(struct run *r)
{
    int status;
    double start = ctl_now();
    pid_t pid = fork();
    if (pid < 0)
        return ctl_fail("cannot fork: %s", strerror(errno));
    if (pid == 0)
        exec_program(r);
    if (r->daemon.config)
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
    if (!r->stats || !stats)
        return r->stats ? EXIT_BAD_INPUT : 0;
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
static int check_nodes(const struct run *r, const struct tb_config *c)
{
    if (r->nodes.launch && !c->several_nodes)
        return ctl_fail("run: --per-node: %s: nodes: one; allowed: several, shared", r->daemon.config);
    if (!r->nodes.launch && c->several_nodes == TB_NODES_SHARED)
        return ctl_fail("%s: nodes: shared needs the number of nodes: start it with tierctl run --per-node", r->daemon.config);
    return 0;
}

/* What a daemon would refuse. With --per-node the paths need not be here. */
static int read_config(const struct run *r, struct tb_config *c)
{
    struct tb_error err = {""};
    struct tb_layout layout;
    const struct ctl_daemon *d = &r->daemon;
    int rc = tb_config_read_for_instance(d->config, d->fragment, d->mode, c, &err);
    rc = rc ? rc : tb_layout_compute(c, &layout, &err);
    if (!rc && !r->nodes.launch)
        rc = tb_config_check_paths(c, layout.total_bytes, &err);
    return rc ? ctl_fail("%s", err.text[0] ? err.text : strerror(-rc)) : check_nodes(r, c);
}

static int check_config(const struct run *r)
{
    struct tb_config *c = calloc(1, sizeof(*c));
    int rc = c ? read_config(r, c) : ctl_fail("no memory");
    free(c);
    return rc || !r->nodes.launch ? rc : ctl_nodes_check_stats(r->stats);
}

/* Names the instance, begins the trace and starts the daemons; what was begun goes again where a node cannot start. */
static int start_nodes(struct run *r, const struct tb_config *c)
{
    ctl_nodes_name(&r->nodes);
    int rc = ctl_nodes_prepare(&r->nodes, c);
    if (rc)
        return rc;
    rc = ctl_trace_begin_nodes(&r->trace, r->daemon.name, c);
    r->nodes.trace = r->trace.out ? r->trace.folder : NULL;
    if (!rc && (rc = ctl_nodes_start(&r->nodes)))
        ctl_trace_forget(&r->trace);
    if (rc)
        ctl_nodes_forget(&r->nodes);
    return rc;
}

/* The logs are made when the last daemon has ended: then all nodes have handed on what they recorded. */
static int finish_nodes(struct run *r, const struct tb_config *c)
{
    json_t *stats = NULL;
    double start = ctl_now();
    int drained = ctl_nodes_stop(&r->nodes, r->stats, &stats);
    ctl_nodes_forget(&r->nodes);
    int rc = report(r, stats, ctl_now() - start);
    r->trace.lacks_a_node = r->nodes.ended != 0;
    int traced = ctl_trace_finish(&r->trace, r->command, c, tb_config_digest(c));
    rc = rc ? rc : traced;
    return r->status ? r->status : drained ? drained : rc;
}

/* The same on every node. */
static int run_on_nodes(struct run *r)
{
    char config[PATH_MAX];
    if (!realpath(r->daemon.config, config))
        return ctl_fail("%s: %s", r->daemon.config, strerror(errno));
    r->daemon.config = config;
    r->nodes.daemon = &r->daemon;
    struct tb_config *c = calloc(1, sizeof(*c));
    int rc = c ? read_config(r, c) : ctl_fail("no memory");
    if (!rc && !(rc = start_nodes(r, c))) {
        if ((rc = run_program(r)))
            r->status = rc;
        rc = finish_nodes(r, c);
    }
    free(c);
    return rc;
}

/* Files come while the program runs, those first that it asks for. */
static int start_bringer(struct run *r, const char *log_folder)
{
    char name[64];
    snprintf(name, sizeof(name), "tierbench-stage-in-%d-%llx", (int)getpid(), (unsigned long long)tb_now_ns());
    snprintf(r->asked, sizeof(r->asked), "%s:%s", name, r->stage_in.to);
    return ctl_stage_in_start(&r->stage_in, log_folder, name, &r->bringer);
}

/* Before the program, or beside it where files are brought when it opens them. The log is where a stage-out would have it. */
static int stage_in(struct run *r)
{
    const char *log_folder = r->stage.from[0] ? r->stage.to : ".";
    if (!r->stage_in.from[0])
        return 0;
    return r->stage_in.when == TB_STAGE_AT_OPEN ? start_bringer(r, log_folder) : ctl_stage_in(&r->stage_in, log_folder);
}

/* Files come in with the same log: so the mover that stages out knows them, and leaves them. */
static int start_mover(struct run *r)
{
    if (r->nodes.launch && r->stage_in.when == TB_STAGE_AT_OPEN)
        return ctl_fail("run: --per-node goes without stage_in.when: open; allowed: start");
    if (r->nodes.launch) {
        r->movers = (struct ctl_node_movers){.launch = r->nodes.launch, .daemon = &r->daemon, .out = &r->stage};
        return ctl_node_movers_start(&r->movers, r->stage_in.from[0]);
    }
    int rc = stage_in(r);
    if (rc)
        return rc;
    struct tb_mover_plan plan = {.settings = &r->stage, .log_folder = r->stage.to};
    return r->stage.from[0] ? ctl_mover_start(&plan, &r->mover) : 0;
}

/* After the drain, which may write files too. */
static int finish_mover(struct run *r, int rc)
{
    int brought = r->bringer.pid ? ctl_mover_finish(&r->bringer) : 0;
    int moved = r->movers.pid ? ctl_node_movers_finish(&r->movers) : r->mover.pid ? ctl_mover_finish(&r->mover) : 0;
    return rc ? rc : brought ? brought : moved;
}

/* No instance: the program's files are staged out. */
static int run_staged(struct run *r)
{
    ctl_signals_hold("none");
    int rc = run_program(r);
    return finish_mover(r, rc ? rc : r->status);
}

/* A drain writes files of any size; the program that this process starts afterwards has the limit that the user gave it. */
static int drain_within_limits(tb_engine *e, const char *retry)
{
    struct rlimit own;
    struct sigaction action;
    bool known = getrlimit(RLIMIT_FSIZE, &own) == 0 && sigaction(SIGXFSZ, NULL, &action) == 0;
    int rc = ctl_drain(e, retry);
    if (known) {
        setrlimit(RLIMIT_FSIZE, &own);
        sigaction(SIGXFSZ, &action, NULL);
    }
    return rc;
}

/*
 * A program of a run may be a script that runs its steps by this command. The step's instance does not see what the other one
 * has in its tiers. An instance that cannot be used has nothing for this process.
 */
static int drain_outer(void)
{
    const char *outer = getenv("TIERBENCH_INSTANCE");
    char retry[256];
    tb_engine *e;
    if (!outer || !*outer || tb_instance_attach(outer, tb_io_libc(), &e))
        return 0;
    snprintf(retry, sizeof(retry), "tierctl drain -i %s", outer);
    fprintf(stderr, "tierctl: this runs under instance %s, whose tiers the new one does not see: they are drained first\n", outer);
    int rc = drain_within_limits(e, retry);
    tb_engine_detach(e);
    return rc;
}

/*
 * The checks come first, so a wrong command makes nothing. Then the mover, the trace and the daemon; each that fails takes back
 * what came before it.
 */
int tb_run_command(const struct ctl_command *self, int argc, char **argv)
{
    struct run r = {0};
    int rc = parse(self, argc, argv, &r);
    if (rc || (rc = check_program(r.command[0])))
        return rc;
    if ((r.daemon.config && (rc = check_config(&r))) || (rc = ctl_trace_check(&r.trace)) || (r.daemon.config && (rc = drain_outer())) ||
        (rc = start_mover(&r)))
        return rc;
    if (!r.daemon.config)
        return run_staged(&r);
    ctl_run_name("", r.daemon.name, sizeof(r.daemon.name));
    if (r.nodes.launch)
        return ctl_signals_hold(r.daemon.name), finish_mover(&r, run_on_nodes(&r));
    if ((rc = ctl_trace_begin(&r.trace, r.daemon.name)))
        return finish_mover(&r, rc);
    r.daemon.is_owned = true;
    ctl_signals_hold(r.daemon.name);
    if ((rc = ctl_start_daemon(&r.daemon)) || (rc = ctl_attach(r.daemon.name, &r.engine))) {
        ctl_trace_forget(&r.trace);
        return finish_mover(&r, rc);
    }
    ctl_trace_tell(&r.trace, tb_instance_config(r.engine));
    ctl_name_others(r.daemon.name);
    rc = run_program(&r);
    return finish_mover(&r, rc ? rc : finish(&r));
}
