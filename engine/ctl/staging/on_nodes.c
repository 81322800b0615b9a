/*
 * Three commands of the launcher, each once on each node: files come in; a mover watches, in
 * the foreground, because a launcher ends what its commands leave running; a look ends when
 * the node's mover works, so that the program's first file is heard of. At the end `tierctl
 * wait` asks all of them, and then they are told to end.
 */
#include "staging/on_nodes.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "nodes/nodes.h"
#include "common/signals.h"
#include "stage/log/ledger.h"
#include "stage/mover_lease.h"
#include "staging/movers.h"

#define READY_WITHIN_S 60
#define LOOK_NS 20000000

/* The same tierctl on every node, by its path here: the nodes share the file system that it is installed on. */
static pid_t spawn_stage(const struct ctl_node_movers *m, const char *word)
{
    char tierctl[PATH_MAX];
    const struct ctl_daemon *d = m->daemon;
    ctl_sibling("tierctl", tierctl, sizeof(tierctl));
    const char *words[] = {tierctl, "node", "--stage", word, "-c", m->config, d->fragment ? "-c" : NULL, d->fragment, NULL};
    return ctl_nodes_spawn(m->launch, words);
}

static int run_stage(const struct ctl_node_movers *m, const char *word)
{
    pid_t pid = spawn_stage(m, word);
    return pid < 0 ? EXIT_BAD_INPUT : ctl_nodes_reap(pid);
}

/* The signal goes to the whole group of the launcher. */
static void end_movers(struct ctl_node_movers *m)
{
    kill(-m->pid, SIGTERM);
    ctl_nodes_reap(m->pid);
    m->pid = 0;
}

/*
 * Files come in first, then the mover watches: so it does not take what a stage-in brings for new files. The configuration
 * is named by its full path, since a launcher may start its commands in another folder.
 */
int ctl_node_movers_start(struct ctl_node_movers *m, bool in)
{
    if (!realpath(m->daemon->config, m->config))
        return ctl_fail("%s: %s", m->daemon->config, strerror(errno));
    int rc = in ? run_stage(m, "in") : 0;
    if (rc)
        return ctl_fail("--per-node: not every node has its files (%d)", rc), rc;
    if (!m->out->from[0])
        return 0;
    m->pid = spawn_stage(m, "watch");
    if (m->pid < 0)
        return m->pid = 0, EXIT_BAD_INPUT;
    rc = run_stage(m, "ready");
    if (!rc)
        return 0;
    end_movers(m);
    return ctl_fail("--per-node: not every node has its mover (%d)", rc);
}

/* Without PERSIST_DIR it starts no mover of its own: this node may be none of the job's. */
static void be_wait(const struct tb_config_stage *out)
{
    char tierctl[PATH_MAX], deadline[32];
    ctl_sibling("tierctl", tierctl, sizeof(tierctl));
    snprintf(deadline, sizeof(deadline), "%.3f", out->deadline);
    const char *words[8] = {tierctl, "wait"};
    int n = 2;
    if (out->deadline > 0) {
        words[n++] = "--deadline";
        words[n++] = deadline;
    }
    if (out->left[0]) {
        words[n++] = "--left";
        words[n++] = out->left;
    }
    ctl_signals_give_back();
    unsetenv("PERSIST_DIR");
    setenv("PFS_DIR", out->to, 1);
    execv(tierctl, (char *const *)words);
    ctl_fail("cannot run %s: %s", tierctl, strerror(errno));
    _exit(EXIT_DRAIN_FAILED);
}

/*
 * In a child of its own, as `tierctl wait` would be: signals reach it alone, and this process goes on to end the movers
 * whatever becomes of it.
 */
int ctl_node_movers_finish(struct ctl_node_movers *m)
{
    fflush(NULL);
    pid_t wait = fork();
    if (wait == 0)
        be_wait(m->out);
    int rc = wait < 0 ? ctl_fail("cannot fork: %s", strerror(errno)) : 0;
    if (!rc) {
        ctl_signals_pass_to(wait);
        rc = ctl_nodes_reap(wait);
        ctl_signals_program_ended();
    }
    end_movers(m);
    return rc ? EXIT_DRAIN_FAILED : 0;
}

/*
 * Until this node's mover holds its lease and has begun. Both are asked: the lease says that a process lives, the log that
 * it has begun to watch.
 */
static int await_mover(const struct tb_config_stage *out)
{
    char host[65];
    struct tb_ledger ledger;
    tb_stage_host(host);
    int rc = tb_ledger_open(&ledger, out->to);
    double end = ctl_now() + READY_WITHIN_S;
    while (!rc && !(tb_mover_lease_is_held(out->to, host, out->from) && tb_ledger_since(&ledger, host, out->from) > INT64_MIN)) {
        if (ctl_now() > end)
            rc = -ETIMEDOUT;
        nanosleep(&(struct timespec){0, LOOK_NS}, NULL);
        rc = rc ? rc : tb_ledger_refresh(&ledger);
    }
    tb_ledger_close(&ledger);
    return rc ? ctl_fail("the mover of %s (%s): %s", host, out->from, strerror(-rc)) : 0;
}

/* The list of what is left is one for all nodes; the process that waits writes it. */
static int watch(struct tb_config_stage *out)
{
    out->left[0] = '\0';
    return ctl_mover_be(&(struct tb_mover_plan){.settings = out, .log_folder = out->to, .control = -1, .ready = -1, .stays = true});
}

/*
 * The words are those that the coordinating `tierctl run` gives its launcher. The log is where stage_out has it, so both
 * directions share one.
 */
int ctl_node_stage(const char *word, const char *config, const char *fragment)
{
    const struct ctl_configured by = {.config = config, .fragment = fragment};
    struct tb_config_stage out, in;
    int rc = ctl_stage_settings(&by, true, &out);
    if (rc || (rc = ctl_stage_in_settings(&by, true, &in)))
        return rc;
    if (strcmp(word, "in") == 0)
        return ctl_stage_in(&in, out.from[0] ? out.to : ".");
    if (strcmp(word, "ready") == 0)
        return await_mover(&out);
    return strcmp(word, "watch") == 0 ? watch(&out) : ctl_fail("node: --stage %s; allowed: watch, ready, in", word);
}
