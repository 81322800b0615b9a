/*
 * A mover is a child without an exec, in a process group of its own: keys of the terminal
 * reach tierctl, which decides. It holds one end of a pair of sockets and so sees that tierctl is
 * gone, however that ended. A pair of sockets and no pipe: a word to a mover that was killed must not end tierctl by a
 * signal.
 */
#include "staging/movers.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/ctl.h"
#include "common/signals.h"
#include "config/config.h"
#include "staging/pairs.h"
#include "staging/progress.h"
#include "text/text.h"

#define LOOK_MS 50

/* Before anything is started: the user learns of a wrong path at once, and not by a mover that ends. */
static int check_folder(const char *what, const char *path, int mode)
{
    struct stat st;
    if (stat(path, &st))
        return ctl_fail("%s: %s: %s; allowed: a folder that is there", what, path, strerror(errno));
    if (!S_ISDIR(st.st_mode))
        return ctl_fail("%s: %s: is no folder; allowed: a folder", what, path);
    if (access(path, mode))
        return ctl_fail("%s: %s: %s; allowed: a folder that you may %s", what, path, strerror(errno), mode & W_OK ? "write to" : "read");
    return 0;
}

/* With all links followed, so that two names of one folder are compared as one. */
int ctl_real_path(const char *what, char *path, size_t size)
{
    char full[PATH_MAX];
    if (!realpath(path, full))
        return ctl_fail("%s: %s: %s; allowed: a folder that is there", what, path, strerror(errno));
    if (strlen(full) >= size)
        return ctl_fail("%s: %s leads to a path longer than %zu bytes", what, path, size - 1);
    strcpy(path, full);
    return 0;
}

/* The rule of two places apart again, where links have been followed: a folder inside itself would be moved without an end. */
static int check_apart(const char *what, const struct tb_config_stage *s)
{
    char from[TB_PATH_MAX], to[TB_PATH_MAX];
    strcpy(from, s->from);
    strcpy(to, s->to);
    int rc = ctl_real_path(what, from, sizeof(from));
    if (rc || (rc = ctl_real_path(what, to, sizeof(to))))
        return rc;
    if (!tb_path_is_under(to, from) && !tb_path_is_under(from, to))
        return 0;
    return ctl_fail("%s: %s is %s, and %s is %s: one is inside the other; allowed: two places apart", what, s->from, from, s->to, to);
}

/*
 * Spectral's two variables. One without the other is refused. A job script with a misspelled name would otherwise run
 * without a stage-out.
 */
static int from_environment(struct tb_config_stage *out)
{
    const char *from = getenv("PERSIST_DIR"), *to = getenv("PFS_DIR"), *key;
    char text[700], here[TB_PATH_MAX];
    bool has_from = from && *from, has_to = to && *to;
    if (!has_from && !has_to)
        return 0;
    if (!has_from || !has_to)
        return ctl_fail("%s is set and %s is not; allowed: both, or none", has_to ? "PFS_DIR" : "PERSIST_DIR",
                        has_to ? "PERSIST_DIR" : "PFS_DIR");
    if (!getcwd(here, sizeof(here)) || tb_path_absolute(here, from, out->from, sizeof(out->from)) ||
        tb_path_absolute(here, to, out->to, sizeof(out->to)))
        return ctl_fail("PERSIST_DIR, PFS_DIR: longer than %d bytes", TB_PATH_MAX - 1);
    if (tb_stage_rules(out, &key, text, sizeof(text)))
        return ctl_fail("PERSIST_DIR, PFS_DIR: %s", text);
    return 0;
}

/*
 * What a program writes below a prefix of mode scratch goes to other folders, which are removed at the end; and what is moved there is
 * not seen by it.
 */
static int check_seen(const struct tb_config *c, const char *what, const char *folder)
{
    int i = tb_path_longest(folder, c->prefixes, c->n_prefixes, sizeof(c->prefixes[0]));
    if (i < 0 || c->prefixes[i].mode != TB_MODE_SCRATCH)
        return 0;
    return ctl_fail("%s: %s: is in %s, which has mode scratch: no file of the program gets there; allowed: a folder outside it", what,
                    folder, c->prefixes[i].prefix);
}

/* `in`: its stage_in, else its stage_out; where it has none, what `out` has is held against its modes. */
static int from_config(const struct ctl_configured *by, bool in, struct tb_config_stage *out)
{
    struct tb_config *c = calloc(1, sizeof(*c));
    struct tb_error err = {""};
    int rc = !c ? -ENOMEM : tb_config_read_for_instance(by->config, by->fragment, by->mode, c, &err);
    const struct tb_config_stage *found = !c ? NULL : in ? &c->stage_in : &c->stage_out;
    if (rc)
        rc = ctl_fail("%s", err.text[0] ? err.text : strerror(-rc));
    else if (found->from[0])
        *out = *found;
    if (!rc && out->from[0])
        rc = in ? check_seen(c, "stage_in.to", out->to) : check_seen(c, found->from[0] ? "stage_out.from" : "PERSIST_DIR", out->from);
    free(c);
    return rc;
}

/* The source is looked at from where the command is given; the destination only on the node, where it is. */
int ctl_stage_in_settings(const struct ctl_configured *by, bool is_node, struct tb_config_stage *out)
{
    tb_stage_defaults(out);
    int rc = by->config ? from_config(by, true, out) : 0;
    if (!rc && out->from[0])
        rc = check_folder("stage_in.from", out->from, R_OK | X_OK);
    if (!rc && out->from[0] && is_node)
        rc = check_folder("stage_in.to", out->to, W_OK | X_OK);
    if (!rc && out->from[0] && is_node)
        rc = check_apart("stage_in", out);
    return rc;
}

/* The messages name what the user gave: keys or variables. Only a node that moves files has the node's own folder. */
static int check_settings(bool by_config, bool is_node, struct tb_config_stage *out)
{
    int rc = is_node ? check_folder(by_config ? "stage_out.from" : "PERSIST_DIR", out->from, R_OK | X_OK) : 0;
    if (!rc)
        rc = check_folder(by_config ? "stage_out.to" : "PFS_DIR", out->to, W_OK | X_OK);
    if (rc || !is_node)
        return rc;
    rc = check_apart(by_config ? "stage_out" : "PERSIST_DIR, PFS_DIR", out);
    return rc ? rc : ctl_real_path("from", out->from, sizeof(out->from));
}

/* A configuration's stage_out wins over the environment: the user named the file, and so asked for it. */
int ctl_stage_settings(const struct ctl_configured *by, bool is_node, struct tb_config_stage *out)
{
    tb_stage_defaults(out);
    int rc = by->config ? from_config(by, false, out) : 0;
    bool by_config = out->from[0];
    if (!rc && !by_config)
        rc = from_environment(out);
    if (!rc && !by_config && by->config && out->from[0])
        rc = from_config(by, false, out); /* its modes hold for these folders, too */
    return rc || !out->from[0] ? rc : check_settings(by_config, is_node, out);
}

/* -EBUSY is the lease of the folder: two movers would move the same files. */
static void say_refusal(const struct tb_mover_plan *plan, int rc)
{
    if (rc == -EBUSY)
        ctl_fail("another mover works for %s on this node", plan->settings->from);
    else
        ctl_fail("the mover cannot begin (%s): %s", plan->log_folder, strerror(-rc));
}

/* The signals that tierctl holds back are let through again: the mover has handlers of its own. */
int ctl_mover_be(struct tb_mover_plan *plan)
{
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    prctl(PR_SET_NAME, "tb-mover");
    int rc = tb_mover_run(plan);
    if (rc < 0)
        say_refusal(plan, rc);
    return rc < 0 ? EXIT_BAD_INPUT : rc;
}

static bool open_log(const struct tb_mover_plan *plan, struct ctl_mover *mover)
{
    int rc = tb_ledger_open_counts(&mover->ledger, plan->log_folder);
    if (rc)
        ctl_fail("%s/%s: %s", plan->log_folder, TB_LOG_NAME, strerror(-rc));
    return !rc;
}

/* Until it is told to go on it moves nothing, and says nothing. Its end is left to be waited for. */
static void name_stopped(const struct ctl_mover *mover)
{
    siginfo_t what = {0};
    if (waitid(P_PID, (id_t)mover->pid, &what, WSTOPPED | WNOHANG) == 0 && what.si_pid)
        fprintf(stderr, "tierctl: waits for the mover, process %d, which was stopped; kill -CONT %d lets it go on\n", (int)mover->pid,
                (int)mover->pid);
}

/* If the mover ends before that, the pipe closes, and the read returns without a byte. */
static bool await_ready(const struct ctl_mover *mover, int ready)
{
    struct pollfd says = {.fd = ready, .events = POLLIN};
    char word;
    int n;
    while ((n = poll(&says, 1, LOOK_MS)) == 0)
        name_stopped(mover);
    return n > 0 && read(ready, &word, 1) == 1;
}

/* The mover ends when its control is closed. Where it was not ready it has said why. */
static int give_up(struct ctl_mover *mover)
{
    close(mover->control);
    waitpid(mover->pid, NULL, 0);
    mover->pid = 0;
    return EXIT_BAD_INPUT;
}

/* Returns when the mover hears the folder: from then on no file of the program is missed. */
int ctl_mover_start(struct tb_mover_plan *plan, struct ctl_mover *mover)
{
    int control[2], ready[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, control) || pipe2(ready, O_CLOEXEC))
        return ctl_fail("cannot make a pipe to the mover: %s", strerror(errno));
    pid_t pid = fork();
    if (pid < 0)
        return ctl_fail("cannot fork: %s", strerror(errno));
    setpgid(pid, 0); /* by both: neither waits for the other */
    if (pid == 0) {
        close(control[1]);
        close(ready[0]);
        plan->control = control[0];
        plan->ready = ready[1];
        _exit(ctl_mover_be(plan));
    }
    close(control[0]);
    close(ready[1]);
    *mover = (struct ctl_mover){
        .pid = pid,
        .control = control[1],
        .deadline = plan->settings->deadline,
        .from = plan->n_pairs ? NULL : plan->settings->from,
    };
    bool is_ready = await_ready(mover, ready[0]);
    close(ready[0]);
    return is_ready && open_log(plan, mover) ? 0 : give_up(mover);
}

/* The end of the pipe is closed: a mover that still runs sees that tierctl is gone. */
void ctl_mover_forget(struct ctl_mover *mover)
{
    close(mover->control);
    tb_ledger_close(&mover->ledger);
    mover->pid = 0;
}

static bool has_ended(const struct ctl_mover *mover, int *status)
{
    name_stopped(mover);
    return waitpid(mover->pid, status, WNOHANG) != 0;
}

/*
 * Until it ends; at the deadline it is told to. Its exit status. The process descriptor wakes this at once when the mover
 * ends; the pause is only for the progress line.
 */
static int await(const struct ctl_mover *mover, struct ctl_stage_progress *progress)
{
    int status = 0;
    struct pollfd ends = {.fd = (int)syscall(SYS_pidfd_open, mover->pid, 0), .events = POLLIN}; /* -1: only the clock is heard */
    double end = mover->deadline > 0 ? ctl_now() + mover->deadline : 0;
    while (!has_ended(mover, &status)) {
        if (end > 0 && ctl_now() > end) {
            kill(mover->pid, SIGTERM);
            end = 0;
        }
        tb_ledger_refresh(progress->ledger);
        ctl_progress_show(progress, false);
        poll(&ends, 1, LOOK_MS);
    }
    if (ends.fd >= 0)
        close(ends.fd);
    tb_ledger_refresh(progress->ledger);
    return WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_DRAIN_FAILED;
}

void ctl_mover_tell_to_finish(const struct ctl_mover *mover)
{
    if (send(mover->control, "F", 1, MSG_NOSIGNAL) != 1)
        kill(mover->pid, SIGTERM);
}

/* Signals that come now are for the mover: one Ctrl-C ends the moving, and the log says what is left. */
int ctl_mover_finish(struct ctl_mover *mover)
{
    struct ctl_stage_progress progress;
    char host[65];
    tb_stage_host(host);
    tb_ledger_refresh(&mover->ledger);
    ctl_progress_begin(&progress, &mover->ledger, host, mover->from);
    ctl_signals_pass_all_to(mover->pid);
    ctl_mover_tell_to_finish(mover);
    int status = await(mover, &progress);
    ctl_signals_program_ended();
    if (status)
        tb_ledger_read_all(&mover->ledger); /* to name what was not moved */
    int rc = ctl_progress_end(&progress, status == 0);
    ctl_mover_forget(mover);
    return rc;
}

/* Before a program starts, all of it has to find room; what comes beside a program may also go again. */
static int check_room(const struct tb_config_stage *s)
{
    char from[TB_PATH_MAX], to[TB_PATH_MAX];
    struct statvfs fs;
    strcpy(from, s->from);
    strcpy(to, s->to);
    int rc = ctl_real_path("stage_in.from", from, sizeof(from));
    if (rc || (rc = ctl_real_path("stage_in.to", to, sizeof(to))))
        return rc;
    if (statvfs(to, &fs) || !fs.f_blocks)
        return 0; /* it does not say */
    uint64_t need = pairs_bytes(&(struct tb_pair){from, to}), room = (uint64_t)fs.f_bavail * fs.f_frsize;
    if (need <= room)
        return 0;
    return ctl_fail("stage_in.to: %s: no room: %llu bytes are to go there; allowed: the %llu that are free", s->to,
                    (unsigned long long)need, (unsigned long long)room);
}

/* One pair, the folder as a whole: what is in it is found by the mover. */
int ctl_stage_in_start(const struct tb_config_stage *settings, const char *log_folder, const char *asked, struct ctl_mover *mover)
{
    char from[TB_PATH_MAX], to[TB_PATH_MAX];
    struct tb_pair pair = {from, to};
    struct tb_mover_plan plan = {.settings = settings, .log_folder = log_folder, .pairs = &pair, .n_pairs = 1, .asked = asked};
    strcpy(from, settings->from);
    strcpy(to, settings->to);
    int rc = ctl_real_path("stage_in.from", from, sizeof(from));
    if (rc || (rc = ctl_real_path("stage_in.to", to, sizeof(to))))
        return rc;
    return ctl_mover_start(&plan, mover);
}

/* Before the program starts: when this returns 0, all files are there. */
int ctl_stage_in(const struct tb_config_stage *settings, const char *log_folder)
{
    struct ctl_mover mover;
    int rc = check_room(settings);
    if (!rc)
        rc = ctl_stage_in_start(settings, log_folder, NULL, &mover);
    return rc ? rc : ctl_mover_finish(&mover);
}
