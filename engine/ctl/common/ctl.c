/*
 * What all commands share: messages and their exit status, finding and attaching to an
 * instance, starting a daemon, the reports of a drain, and files to write.
 */
#include "base/clock.h"
#include "base/process.h"
#include "base/report.h"
#include "common/ctl.h"
#include "region/handle.h"
#include "instance/attach.h"
#include "instance/drain.h"
#include "region/clients.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PROGRESS_AFTER_SECONDS 1.0
#define APPEARS_SECONDS 60.0 /* a daemon that a launcher starts: until its region is begun */
#define LOOK_NS 20000000
#define EXIT_MS 10000 /* a process that has given up its lease ends soon, however busy the machine is */

/*
 * Every message has the program's name, because tierctl runs inside other programs' output.
 * Returns the exit status of bad input, for `return ctl_fail(...)`.
 */
int ctl_fail(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs("tierctl: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    return EXIT_BAD_INPUT;
}

/* A script that keeps the output in a file on a full disk must not take half a state for the whole. */
int ctl_output_ends(void)
{
    errno = 0;
    if (fflush(stdout) == 0 && !ferror(stdout))
        return 0;
    return ctl_fail("stdout: cannot write: %s", strerror(errno ? errno : EIO));
}

/* Seconds of a clock that is never set: only differences mean something. */
double ctl_now(void)
{
    return (double)tb_now_ns() * 1e-9;
}

/* By the program's own place: a build and an installation need no setting. */
void ctl_sibling(const char *relative, char *out, size_t size)
{
    char self[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    self[n > 0 ? n : 0] = 0;
    snprintf(out, size, "%s/%s", dirname(self), relative);
}

/* The file's name without its last suffix; a name that begins with its only dot stays whole. */
void ctl_default_name(const char *config, char *out, size_t size)
{
    char copy[PATH_MAX];
    snprintf(copy, sizeof(copy), "%s", config);
    snprintf(out, size, "%s", basename(copy));
    char *dot = strrchr(out, '.');
    if (dot && dot != out)
        *dot = 0;
}

/* No two runs on one or several nodes have the same name, whatever numbers their processes have. */
void ctl_run_name(const char *host, char *out, size_t size)
{
    uint32_t bits = 0;
    if (getrandom(&bits, sizeof(bits), 0) != sizeof(bits))
        bits = (uint32_t)time(NULL);
    snprintf(out, size, "run-%.30s%s%ld-%08x", host, *host ? "-" : "", (long)getpid(), bits);
}

/* With their configurations, by which users know them. */
static int name_all(const struct tb_instance_info *all, int n)
{
    fprintf(stderr, "tierctl: %d instances run; name one with -i:", n);
    for (int i = 0; i < n; i++)
        fprintf(stderr, " %s (%s)", all[i].name, all[i].config_file);
    fputc('\n', stderr);
    return EXIT_BAD_INPUT;
}

/* Several are named, so that the user can choose. */
static int find_only(char name[64])
{
    struct tb_instance_info *all;
    int rc = 0, n = tb_instance_list(&all);
    if (n < 0)
        rc = ctl_fail("no memory");
    else if (n == 0)
        rc = (ctl_fail("no instance runs; start one with: tierctl start -c CONFIG"), EXIT_NO_INSTANCE);
    else if (n > 1)
        rc = name_all(all, n);
    else
        memcpy(name, all[0].name, sizeof(all[0].name));
    free(all);
    return rc;
}

/* Without a name the only instance is meant. */
static int attach_by(int (*attach)(const char *, struct tb_io *, tb_engine **), const char *name, tb_engine **out)
{
    char only[64];
    int rc = name ? 0 : find_only(only);
    if (rc)
        return rc;
    const char *which = name ? name : only;
    rc = attach(which, tb_io_libc(), out);
    if (rc)
        ctl_fail("instance %s: cannot attach: %s", which, tb_engine_refusal());
    return rc == -ENOENT ? EXIT_NO_INSTANCE : rc ? EXIT_BAD_INPUT : 0;
}

int ctl_attach(const char *name, tb_engine **out)
{
    return attach_by(tb_instance_attach, name, out);
}

int ctl_look(const char *name, tb_engine **out)
{
    return attach_by(tb_instance_look, name, out);
}

/* -EAGAIN: its daemon has not found the other nodes yet; that has an end of its own (daemon/peers.c). */
static int look_joined(const char *name)
{
    tb_engine *e;
    int rc = tb_instance_look(name, tb_io_libc(), &e);
    if (rc)
        return rc;
    bool joined = tb_instance_config(e)->several_nodes != TB_NODES_SHARED || e->header->asking.n_nodes;
    tb_engine_detach(e);
    return joined ? 0 : -EAGAIN;
}

/*
 * A launcher starts the daemon on another node or later: until its region appears, and as long
 * as its memory is being touched, or the other nodes are awaited.
 */
int ctl_await(const char *name)
{
    int rc;
    for (double start = ctl_now(); (rc = look_joined(name)) != 0;) {
        bool is_made = rc == -ESTALE || rc == -EAGAIN; /* half made, which takes as long as touching its memory */
        if (!is_made && ctl_now() - start > APPEARS_SECONDS)
            return ctl_fail("instance %s: did not appear in %g s (%s)", name, APPEARS_SECONDS, tb_engine_refusal()), EXIT_NO_INSTANCE;
        nanosleep(&(struct timespec){0, LOOK_NS}, NULL);
    }
    return 0;
}

#define DAEMON_READY 3 /* the daemon's descriptors: how the start went, */
#define DAEMON_OWNER 4 /* and the pipe to its owner, which holds the other end */

/*
 * The daemon must not keep the caller's descriptors: it would hold the caller's locks,
 * pipes and mounts for as long as it lives. Each of ours is first moved to a number that
 * is not needed.
 */
static void keep_alone(int ready, int owner)
{
    int high_ready = fcntl(ready, F_DUPFD, DAEMON_OWNER + 1), high_owner = owner < 0 ? -1 : fcntl(owner, F_DUPFD, DAEMON_OWNER + 1);
    dup2(high_ready, DAEMON_READY);
    if (owner >= 0)
        dup2(high_owner, DAEMON_OWNER);
    closefrom(owner < 0 ? DAEMON_READY + 1 : DAEMON_OWNER + 1);
}

/*
 * A session of its own, so that the terminal's signals do not reach it, and no adapter: the
 * daemon's own files must not be served by itself.
 */
static void exec_daemon(const struct ctl_daemon *d, int ready)
{
    char program[PATH_MAX], fd[16], owner[16];
    const char *argv[14] = {program, d->config};
    int n = 2;
    ctl_sibling("tierd", program, sizeof(program));
    snprintf(fd, sizeof(fd), "%d", ready);
    if (d->fragment)
        argv[n++] = d->fragment;
    argv[n++] = "-i";
    argv[n++] = d->name;
    argv[n++] = "--ready";
    argv[n++] = fd;
    if (d->is_owned) {
        snprintf(owner, sizeof(owner), "%d", DAEMON_OWNER);
        argv[n++] = "--owner";
        argv[n++] = owner;
    }
    if (d->mode) {
        argv[n++] = "--mode";
        argv[n++] = d->mode;
    }
    setsid();
    unsetenv("LD_PRELOAD");
    execv(program, (char *const *)argv);
    dprintf(ready, "cannot run %s: %s\n", program, strerror(errno));
    _exit(127);
}

static int fail_to_fork(int error, const int ready[2], const int owner[2])
{
    close(ready[0]);
    close(ready[1]);
    if (owner[0] >= 0) {
        close(owner[0]);
        close(owner[1]);
    }
    return ctl_fail("cannot fork: %s", strerror(error));
}

/*
 * The daemon says "ready" or one line of what is wrong through a pipe, and closes it. If it is
 * killed before, the pipe ends without a word.
 */
int ctl_start_daemon(struct ctl_daemon *d)
{
    int ready[2], owner[2] = {-1, -1};
    char text[2048] = "";
    size_t n = 0;
    if (pipe(ready) || (d->is_owned && pipe2(owner, O_CLOEXEC)))
        return ctl_fail("cannot make a pipe: %s", strerror(errno));
    pid_t pid = fork();
    if (pid == 0) {
        keep_alone(ready[1], owner[0]);
        exec_daemon(d, DAEMON_READY);
    }
    if (pid < 0)
        return fail_to_fork(errno, ready, owner);
    close(ready[1]);
    if (d->is_owned)
        close(owner[0]);
    d->owner = owner[1];
    for (ssize_t r; n < sizeof(text) - 1 && (r = read(ready[0], text + n, sizeof(text) - 1 - n)) > 0; n += (size_t)r)
        ;
    close(ready[0]);
    d->pid = pid;
    if (strcmp(text, "ready\n") == 0)
        return 0;
    waitpid(pid, NULL, 0);
    text[strcspn(text, "\n")] = 0;
    return ctl_fail("%s", *text ? text : "tierd ended before its instance was ready");
}

/* Whole words in one short write (owner.c); without an owner's pipe nothing is said. */
void ctl_tell_daemon(const struct ctl_daemon *d, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    if (d->is_owned)
        vdprintf(d->owner, format, args);
    va_end(args);
}

/* Its lease ends a moment before the process does; a script that asks for processes after a stop finds none. */
static void wait_for_exit(int process)
{
    struct pollfd end = {.fd = process, .events = POLLIN};
    if (process < 0)
        return;
    poll(&end, 1, EXIT_MS);
    close(process);
}

/*
 * Waited for as long as it takes: it finishes what it flushes. A daemon that itself waits for
 * a stopped process gives up, and then the instance stays.
 */
int ctl_stop_daemon(tb_engine *engine, const char *retry)
{
    struct tb_instance_info info;
    struct tb_wait wait = {0};
    tb_instance_info(engine, &info);
    if (!info.daemon_alive || info.daemon_pid <= 0)
        return 0;
    int process = (int)syscall(SYS_pidfd_open, info.daemon_pid, 0); /* an old kernel has none: then the lease alone is waited for */
    kill(info.daemon_pid, SIGTERM);
    while (tb_daemon_is_alive(engine->header)) {
        waitpid(info.daemon_pid, NULL, WNOHANG);
        nanosleep(&(struct timespec){0, 2000000}, NULL);
        tb_wait_go_on(&wait, info.daemon_pid);
    }
    tb_wait_end(&wait);
    wait_for_exit(process);
    waitpid(info.daemon_pid, NULL, 0); /* ours where `run` started it */
    tb_instance_info(engine, &info);
    if (!info.daemon_gave_up)
        return 0;
    fprintf(stderr, "tierctl: instance %s stays: its daemon waited for a process that is stopped, and has ended; try again with: %s\n",
            info.name, retry);
    return EXIT_DRAIN_FAILED;
}

/* At most once a second, and not at all for what is done in less. */
void ctl_progress(void *arg, const char *what, uint64_t done, uint64_t total)
{
    double *since = arg, now = ctl_now();
    if (*since == 0)
        *since = now;
    if (now - *since < PROGRESS_AFTER_SECONDS && *since > 0)
        return;
    *since = now;
    fprintf(stderr, "tierctl: %s: %llu of %llu\n", what, (unsigned long long)done, (unsigned long long)total);
}

/* After 1, 2, 4, 8 ... seconds, so that a long wait is said and does not fill a log. */
void ctl_say_wait(void *arg, int pid, double seconds, bool in_vain)
{
    unsigned whole = (unsigned)seconds;
    char who[256];
    (void)arg;
    (void)in_vain;
    if (whole & (whole - 1))
        return;
    tb_wait_describe(pid, who, sizeof(who));
    fprintf(stderr, "tierctl: has waited %u s for %s\n", whole, who);
}

static int exit_status_of_giving_up = EXIT_DRAIN_FAILED;

void ctl_gives_up_with(int status)
{
    exit_status_of_giving_up = status;
}

/* What it holds goes with it, as with one that is killed: the instance stays as it is, and others go on. */
void ctl_give_up(void *arg, int pid, double seconds, bool in_vain)
{
    char who[256];
    (void)arg;
    if (!in_vain)
        return;
    tb_wait_describe(pid, who, sizeof(who));
    fprintf(stderr, "tierctl: gives up after %.0f s: it waits for %s; continue that process or end it, and try again\n", seconds, who);
    _exit(exit_status_of_giving_up);
}

struct drain_report {
    double since; /* first, for ctl_progress */
    int failed;
};

/* One line a file, as the drain comes to it, so that a killed drain has named what it met. */
static void report_failure(void *arg, const struct tb_file_report *r)
{
    struct drain_report *d = arg;
    d->failed++;
    if (r->why[0])
        fprintf(stderr, "tierctl: %s: %s\n", r->path, r->why);
    else
        fprintf(stderr, "tierctl: %s: not flushed: %s\n", r->path, strerror(-r->error));
}

/* Each file that failed has been named; this line says what to do. */
int ctl_drain(tb_engine *engine, const char *retry)
{
    struct drain_report d = {0, 0};
    tb_process_writes_any_size();
    int threads = (int)tb_instance_config(engine)->flush.threads;
    int rc = tb_instance_drain(engine, threads, ctl_progress, report_failure, &d);
    if (!rc)
        return 0;
    fprintf(stderr, "tierctl: the drain failed (%s); what was not flushed stays buffered; try again with: %s\n", strerror(-rc), retry);
    return EXIT_DRAIN_FAILED;
}

static const char *kind_of(mode_t mode)
{
    return S_ISDIR(mode) ? "a directory" : S_ISFIFO(mode) ? "a fifo" : S_ISSOCK(mode) ? "a socket" : "a device";
}

/* Asked before anything begins: a long run must not end at a file that cannot be written. */
int ctl_check_output(const char *option, const char *file)
{
    char copy[PATH_MAX];
    struct stat st;
    bool is_there = stat(file, &st) == 0;
    if (is_there && !S_ISREG(st.st_mode))
        return ctl_fail("%s %s: is %s; allowed: a file, new or to be replaced", option, file, kind_of(st.st_mode));
    if (!is_there && errno != ENOENT)
        return ctl_fail("%s %s: %s; allowed: a file, new or to be replaced", option, file, strerror(errno));
    snprintf(copy, sizeof(copy), "%s", file);
    const char *folder = dirname(copy);
    if (!strstr(folder, "%h") && access(folder, W_OK | X_OK)) /* %h: the host, of --stats */
        return ctl_fail("%s %s: %s: %s; allowed: a file in a directory that may be written", option, file, folder, strerror(errno));
    return 0;
}
