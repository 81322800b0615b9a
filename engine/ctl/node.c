/*
 * node: one node of a run on several. `tierctl run --per-node` has the launcher start it on each node: for a trace with the
 * node's daemon as its command, where it makes the folder of the node's trace before, and hands on what is in it after; and
 * for the node's mover (staging/on_nodes.h).
 */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "commands.h"
#include "common/ctl.h"
#include "common/signals.h"
#include "darshan/node.h"
#include "staging/on_nodes.h"

struct node {
    const char *instance, *shared, *stage, *config, *fragment;
};

/* -c may come twice, as for run, which hands both on. */
static int take(void *into, char key, const char *value)
{
    struct node *n = into;
    switch (key) {
    case 'i': n->instance = value; return 0;
    case 'S': n->stage = value; return 0;
    case 'c': *(n->config ? &n->fragment : &n->config) = value; return 0;
    default: n->shared = value; return 0;
    }
}

/* Signals that the launcher sends are for the daemon; this process ends after it. */
static int run_daemon(char *const *command)
{
    int status = 0;
    pid_t pid = fork();
    if (pid < 0)
        return ctl_fail("cannot fork: %s", strerror(errno));
    if (pid == 0) {
        ctl_signals_give_back();
        execvp(command[0], command);
        ctl_fail("node: cannot run %s: %s", command[0], strerror(errno));
        _exit(127);
    }
    ctl_signals_pass_to(pid);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    ctl_signals_program_ended();
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/*
 * The folder of the trace is made before the daemon, and handed on after it has ended: then no process writes into it any
 * more.
 */
int tb_node_command(const struct ctl_command *self, int argc, char **argv)
{
    struct node n = {0};
    struct ctl_trace trace = {0};
    int rc = ctl_parse(self, argc, argv, take, &n);
    if (rc)
        return rc;
    if (n.stage && n.config)
        return ctl_node_stage(n.stage, n.config, n.fragment);
    if (!n.instance || !n.shared || optind >= argc)
        return ctl_misused(self, "needs -i NAME, --trace FOLDER and a command, or --stage WORD and -c CONFIG");
    ctl_signals_hold(n.instance);
    trace_is_no_rank();
    if ((rc = trace_node_begin(&trace, n.shared, n.instance)))
        return rc;
    rc = run_daemon(argv + optind);
    int traced = trace_node_end(&trace, n.shared);
    return rc ? rc : traced;
}
