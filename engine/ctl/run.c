/*
 * run: a program under a private instance.  Start a daemon, run the program with
 * the adapter preloaded, drain, say what the tiers did, remove the instance.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "commands.h"
#include "ctl.h"
#include "trace.h"
#include <tierbench/program.h>

static const char usage[] = "usage: tierctl run -c CONFIG [-c FRAGMENT] [--mode MODE] [--trace OUT.darshan] [--stats OUT.json] [--keep] -- CMD...\n"
                            "exit status: CMD's; 3 where CMD succeeded and the drain failed (the instance stays)";

struct run {
    struct ctl_daemon daemon;
    struct ctl_trace trace;
    const char *stats;
    bool keep, help;
    char **command;
    tb_engine *engine;
    int status; /* of the program, as a shell would say it */
    double program_s, drain_s;
};

static const struct option long_options[] = {
    {"config", required_argument, NULL, 'c'}, {"mode", required_argument, NULL, 'm'}, {"stats", required_argument, NULL, 's'},
    {"trace", required_argument, NULL, 't'},  {"keep", no_argument, NULL, 'k'},       {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0},
};

static int parse(int argc, char **argv, struct run *r)
{
    optind = 1;
    opterr = 0;
    for (int c; (c = getopt_long(argc, argv, "+c:h", long_options, NULL)) != -1;)
        switch (c) {
        case 'c':
            *(r->daemon.config ? &r->daemon.fragment : &r->daemon.config) = optarg;
            break;
        case 'm': r->daemon.mode = optarg; break;
        case 's': r->stats = optarg; break;
        case 'k': r->keep = true; break;
        case 't': r->trace.out = optarg; break;
        case 'h': r->help = true; return puts(usage), 0;
        default: return ctl_fail("run: unknown option or missing value: %s\n%s", argv[optind - 1], usage);
        }
    if (!r->daemon.config)
        return ctl_fail("run: needs -c CONFIG\n%s", usage);
    if (optind >= argc)
        return ctl_fail("run: needs a command behind --\n%s", usage);
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

/* Those that are passed on to the program: from the daemon's start until there is a program they wait. */
static void hold_signals(int how)
{
    sigset_t passed_on;
    sigemptyset(&passed_on);
    sigaddset(&passed_on, SIGINT);
    sigaddset(&passed_on, SIGTERM);
    sigprocmask(how, &passed_on, NULL);
}

static void exec_program(const struct run *r)
{
    char library[PATH_MAX], mpi[PATH_MAX], preload[5 * PATH_MAX], config[PATH_MAX], tracers[2 * PATH_MAX];
    const char *given = getenv("TB_PRELOAD"), *others = getenv("LD_PRELOAD");
    ctl_sibling("../lib/libtierbench_preload.so", library, sizeof(library));
    ctl_sibling("../lib/libtierbench_mpi.so", mpi, sizeof(mpi));
    bool has_mpi = access(mpi, R_OK) == 0; /* it is built where there is an MPI library */
    ctl_trace_environment(&r->trace, tracers, sizeof(tracers));
    snprintf(preload, sizeof(preload), "%s%s%s%s%s%s", tracers, given ? given : library, has_mpi ? ":" : "", has_mpi ? mpi : "",
             others ? ":" : "", others ? others : "");
    setenv("TIERBENCH_INSTANCE", r->daemon.name, 1);
    setenv("TIERBENCH_CONFIG", realpath(r->daemon.config, config) ? config : r->daemon.config, 1);
    setenv("LD_PRELOAD", preload, 1);
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    signal(SIGPIPE, SIG_DFL);
    hold_signals(SIG_UNBLOCK);
    execvp(r->command[0], r->command);
    fprintf(stderr, "tierctl: cannot run %s: %s\n", r->command[0], strerror(errno));
    _exit(127);
}

static volatile pid_t running;

static void forward(int sig)
{
    if (running > 0)
        kill(running, sig);
}

static int run_program(struct run *r)
{
    int status;
    double start = ctl_now();
    struct sigaction act = {.sa_handler = forward};
    sigaction(SIGINT, &act, NULL);
    sigaction(SIGTERM, &act, NULL);
    pid_t pid = fork();
    if (pid < 0)
        return ctl_fail("cannot fork: %s", strerror(errno));
    if (pid == 0)
        exec_program(r);
    running = pid;
    hold_signals(SIG_UNBLOCK);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    running = 0;
    r->program_s = ctl_now() - start;
    ctl_trace_program_ended(&r->trace);
    r->status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return 0;
}

static int write_stats(const struct run *r, json_t *j)
{
    char part[PATH_MAX];
    snprintf(part, sizeof(part), "%s.part", r->stats);
    int rc = json_dump_file(j, part, JSON_INDENT(1)) || rename(part, r->stats);
    if (rc)
        unlink(part);
    return rc ? ctl_fail("--stats %s: cannot write: %s", r->stats, strerror(errno)) : 0;
}

static int report(const struct run *r, uint64_t dirty_before)
{
    int rc = 0;
    ctl_print_tiers(r->engine, stderr);
    fprintf(stderr, "tierctl: program %.3f s, drain %.3f s, exit status %d\n", r->program_s, r->drain_s, r->status);
    if (r->stats) {
        json_t *j = ctl_instance_json(r->engine, true);
        json_object_set_new(j, "exit_status", json_integer(r->status));
        json_object_set_new(j, "program_s", json_real(r->program_s));
        json_object_set_new(j, "drain_s", json_real(r->drain_s));
        json_object_set_new(j, "drained_bytes", json_integer((json_int_t)dirty_before));
        json_object_set_new(j, "durable_s", json_real(r->drain_s));
        rc = write_stats(r, j);
        json_decref(j);
    }
    return rc;
}

static uint64_t dirty_bytes(tb_engine *e)
{
    struct tb_stats s;
    uint64_t n = 0;
    tb_engine_stats(e, &s);
    for (uint32_t t = 0; t < s.n_tiers; t++)
        n += s.tier[t].dirty;
    return n;
}

/* Drain, report, and remove the instance unless something still needs it. */
static int finish(struct run *r)
{
    char retry[256];
    uint64_t dirty = dirty_bytes(r->engine);
    double start = ctl_now();
    snprintf(retry, sizeof(retry), "tierctl stop -i %s", r->daemon.name);
    if (!r->keep)
        tb_instance_retire(r->engine, true); /* who outlives the program may go on */
    int drained = ctl_drain(r->engine, retry);
    r->drain_s = ctl_now() - start;
    int rc = report(r, dirty);
    struct tb_instance_info info;
    struct tb_config config = *tb_instance_config(r->engine);
    tb_instance_info(r->engine, &info);
    if (drained || r->keep) {
        if (r->keep && !drained)
            fprintf(stderr, "tierctl: instance %s stays; end it with: %s\n", r->daemon.name, retry);
        tb_instance_retire(r->engine, false);
        tb_engine_detach(r->engine);
    } else {
        ctl_stop_daemon(r->engine);
        tb_instance_destroy(r->engine);
    }
    int traced = ctl_trace_finish(&r->trace, r->command, &config, info.config_digest);
    rc = rc ? rc : traced;
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
    snprintf(r.daemon.name, sizeof(r.daemon.name), "run-%ld", (long)getpid());
    signal(SIGPIPE, SIG_IGN); /* whoever reads our report may stop: the instance is drained and ended all the same */
    if ((rc = ctl_trace_check(&r.trace)) || (rc = ctl_trace_begin(&r.trace, r.daemon.name)))
        return rc;
    hold_signals(SIG_BLOCK);
    if ((rc = ctl_start_daemon(&r.daemon)) || (rc = ctl_attach(r.daemon.name, &r.engine))) {
        ctl_trace_forget(&r.trace);
        return rc;
    }
    ctl_trace_tell(&r.trace, tb_instance_config(r.engine));
    rc = run_program(&r);
    return rc ? rc : finish(&r);
}
