/*
 * One instance a node. The engine knows nothing of other nodes: each has its own region,
 * daemon and directories in the tiers (named by host), and what they share is the PFS. So
 * all that is needed is a way to run a command once on each node, and every site's
 * launcher is one.
 *
 * Three such commands make a job. First the daemons, in the foreground, because a launcher
 * ends what its commands leave running. Then a look that ends when the node's instance is
 * ready. After the program a stop; its numbers come back as files in a folder that all
 * nodes see.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/ending.h"
#include "nodes/nodes.h"
#include "common/signals.h"
#include "net/net.h"

#define MAX_WORDS 64
#define LAUNCH_MAX 1024

struct line {
    char text[LAUNCH_MAX];
    const char *word[MAX_WORDS];
    int n;
};

/* One place stays free for the NULL that ends the words of an exec. */
static int add(struct line *l, const char *word)
{
    if (l->n == MAX_WORDS - 1)
        return ctl_fail("--per-node: more than %d words", MAX_WORDS - 1);
    l->word[l->n++] = word;
    l->word[l->n] = NULL;
    return 0;
}

/* The words of LAUNCH; a word with a blank in it can't be one of them. */
static int begin_line(const char *launch, struct line *l)
{
    int rc = 0;
    l->n = 0;
    if ((size_t)snprintf(l->text, sizeof(l->text), "%s", launch) >= sizeof(l->text))
        return ctl_fail("--per-node: longer than %d bytes", LAUNCH_MAX - 1);
    for (char *save, *word = strtok_r(l->text, " \t", &save); word && !rc; word = strtok_r(NULL, " \t", &save))
        rc = add(l, word);
    return rc ? rc : l->n ? 0 : ctl_fail("--per-node: needs the words that run a command once on each node");
}

/*
 * In a process group of its own: what ends the program at the terminal leaves the nodes' instances for us to drain. Our handlers
 * are gone before the mask opens: one that ran in the child would keep it alive, and its command would be waited for without end.
 */
static pid_t spawn(const struct line *l, int out)
{
    pid_t pid = fork();
    if (pid < 0)
        ctl_fail("cannot fork: %s", strerror(errno));
    setpgid(pid, 0); /* by both: neither waits for the other */
    if (pid != 0)
        return pid;
    ctl_signals_give_back();
    unsetenv("LD_PRELOAD");
    if (!freopen("/dev/null", "r", stdin) || (out >= 0 && dup2(out, 1) < 0))
        _exit(127);
    execvp(l->word[0], (char *const *)l->word);
    fprintf(stderr, "tierctl: --per-node: cannot run %s: %s\n", l->word[0], strerror(errno));
    _exit(127);
}

/* As a shell says it: 128 + N after signal N. */
static int status_of(int status)
{
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* A signal of the user interrupts the wait and not the launcher: it was passed on, so the wait goes on. */
int ctl_nodes_reap(pid_t pid)
{
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return status_of(status);
}

/* -1: the message was printed. */
pid_t ctl_nodes_spawn(const char *launch, const char *const *words)
{
    struct line l;
    int rc = begin_line(launch, &l);
    for (size_t i = 0; words[i] && !rc; i++)
        rc = add(&l, words[i]);
    return rc ? -1 : spawn(&l, -1);
}

/* LAUNCH tierctl COMMAND -i NAME WORD... */
static pid_t spawn_command(const struct ctl_nodes *nodes, const char *command, const char *word, const char *value)
{
    char tierctl[PATH_MAX];
    ctl_sibling("tierctl", tierctl, sizeof(tierctl));
    return ctl_nodes_spawn(nodes->launch, (const char *[]){tierctl, command, "-i", nodes->daemon->name, word, value, NULL});
}

static int by_name(const void *a, const void *b)
{
    return strcmp(a, b);
}

#define NAME_MAX_HOST 65

/* Of a launcher that starts two on one node, both would wait for a node that never comes. */
/* Sorted first, so that equal names are neighbours. */
static int find_twice(char (*name)[NAME_MAX_HOST], unsigned n)
{
    qsort(name, n, sizeof(*name), by_name);
    for (unsigned i = 1; i < n; i++)
        if (strcmp(name[i - 1], name[i]) == 0)
            return ctl_fail("--per-node: the launcher starts two on node %s; allowed: one on each", name[i]);
    return 0;
}

/* A line for each node: an exact count is what keeps a node from believing that it is alone. */
static int count_names(struct ctl_nodes *nodes, int fd)
{
    char(*name)[NAME_MAX_HOST] = calloc(TB_NET_NODES_MAX, sizeof(*name));
    FILE *in = fdopen(fd, "r");
    while (name && in && nodes->n < TB_NET_NODES_MAX && fscanf(in, " %64s", name[nodes->n]) == 1)
        nodes->n++;
    if (in)
        fclose(in);
    int rc = name ? find_twice(name, nodes->n) : ctl_fail("no memory");
    free(name);
    return rc;
}

/* The launcher itself says on how many nodes it runs: each prints its name. No variable of a batch system is believed. */
static int count_nodes(struct ctl_nodes *nodes)
{
    struct line l;
    int ends[2], rc = begin_line(nodes->launch, &l);
    rc = rc ? rc : add(&l, "uname");
    rc = rc ? rc : add(&l, "-n");
    if (rc || pipe2(ends, O_CLOEXEC))
        return rc ? rc : ctl_fail("cannot make a pipe: %s", strerror(errno));
    pid_t pid = spawn(&l, ends[1]);
    close(ends[1]);
    rc = count_names(nodes, ends[0]);
    int status = pid > 0 ? ctl_nodes_reap(pid) : EXIT_BAD_INPUT;
    if (!rc && (status || !nodes->n))
        rc = ctl_fail("--per-node: cannot count the nodes: \"%s uname -n\" ended with %d and said %u names", nodes->launch, status,
                      nodes->n);
    return rc;
}

/* Only nodes that share files need a folder, and the number of nodes: the daemons find each other there. */
int ctl_nodes_prepare(struct ctl_nodes *nodes, const struct tb_config *c)
{
    if (c->several_nodes != TB_NODES_SHARED)
        return 0;
    int rc = count_nodes(nodes);
    return rc ? rc : ctl_nodes_folder_make(&nodes->folder, c, nodes->daemon->name);
}

/* Also after a prepare that failed, or made no folder. */
void ctl_nodes_forget(struct ctl_nodes *nodes)
{
    ctl_nodes_folder_remove(&nodes->folder);
}

/* All daemons are one command of the launcher; its end means that all of them have ended. */
static int spawn_daemons(struct ctl_nodes *nodes)
{
    struct line l;
    const struct ctl_daemon *d = nodes->daemon;
    char tierd[PATH_MAX], tierctl[PATH_MAX];
    ctl_sibling("tierd", tierd, sizeof(tierd));
    ctl_sibling("tierctl", tierctl, sizeof(tierctl));
    char n[16];
    snprintf(n, sizeof(n), "%u", nodes->n);
    const char *shared[] = {"--nodes", n, "--peers", nodes->folder.path};
    const char *traced[] = {tierctl, "node", "-i", d->name, "--trace", nodes->trace, "--"};
    const char *words[] = {
        tierd, d->config, "--foreground", "-i", d->name, d->mode ? "--mode" : d->fragment, d->mode, d->mode ? d->fragment : NULL};
    int rc = begin_line(nodes->launch, &l);
    for (size_t i = 0; nodes->trace && i < sizeof(traced) / sizeof(traced[0]) && !rc; i++)
        rc = add(&l, traced[i]);
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]) && words[i] && !rc; i++)
        rc = add(&l, words[i]);
    for (size_t i = 0; nodes->n && i < sizeof(shared) / sizeof(shared[0]) && !rc; i++)
        rc = add(&l, shared[i]);
    nodes->daemons = rc ? -1 : spawn(&l, -1);
    return nodes->daemons > 0 ? 0 : EXIT_BAD_INPUT;
}

/* The look, while the daemons live: it does not wait for a node with a daemon that cannot start. */
static int await_all(struct ctl_nodes *nodes)
{
    int status;
    pid_t look = spawn_command(nodes, "status", "--wait", NULL);
    if (look < 0)
        return EXIT_BAD_INPUT;
    pid_t ended;
    while ((ended = waitpid(-1, &status, 0)) != look && ended != nodes->daemons)
        ;
    if (ended == look)
        return status_of(status) ? ctl_fail("--per-node: not every node has its instance (%d)", status_of(status)) : 0;
    nodes->daemons = 0;
    kill(-look, SIGTERM);
    ctl_nodes_reap(look);
    return ctl_fail("--per-node: the daemons ended before every instance was ready (%d)", status_of(status));
}

/* To the whole process group, since a launcher may have helpers. Waits for their end. */
static void end_daemons(struct ctl_nodes *nodes)
{
    if (nodes->daemons > 0) {
        kill(-nodes->daemons, SIGTERM);
        nodes->ended = ctl_nodes_reap(nodes->daemons);
    }
    nodes->daemons = 0;
}

/* One name for all nodes; each node adds its host to the directories in the tiers. */
void ctl_nodes_name(struct ctl_nodes *nodes)
{
    char host[40] = "";
    gethostname(host, sizeof(host) - 1);
    ctl_run_name(host, nodes->daemon->name, sizeof(nodes->daemon->name));
}

/* After a failure nothing is left running. */
int ctl_nodes_start(struct ctl_nodes *nodes)
{
    int rc = spawn_daemons(nodes);
    if (!rc && (rc = await_all(nodes))) {
        pid_t stop = spawn_command(nodes, "stop", "--force", NULL); /* of those that are ready; nothing was written yet */
        if (stop > 0)
            ctl_nodes_reap(stop);
        end_daemons(nodes);
    }
    return rc;
}

/* Numbers of two nodes: counts are summed, times are the slower node's, words are the same on both. */
static void add_node(json_t *sum, json_t *one)
{
    const char *key;
    json_t *value, *known;
    size_t i;
    json_object_foreach(one, key, value)
    {
        known = json_object_get(sum, key);
        if (!known)
            json_object_set_new(sum, key, json_deep_copy(value));
        else if (json_is_integer(value))
            json_integer_set(known, json_integer_value(known) + json_integer_value(value));
        else if (json_is_real(value) && json_real_value(value) > json_real_value(known))
            json_real_set(known, json_real_value(value));
        else if (json_is_object(value))
            add_node(known, value);
        else if (json_is_array(value) && strcmp(key, "tiers") == 0)
            for (i = 0; i < json_array_size(value); i++)
                add_node(json_array_get(known, i), json_array_get(value, i));
        else if (json_is_array(value))
            json_array_extend(known, value);
    }
}

/*
 * Each node's file is removed once it is read; what belongs to one node alone (its name,
 * samples, daemon) is not added up.
 */
static json_t *merge(const char *folder)
{
    json_t *sum = json_object(), *nodes = json_array();
    DIR *d = opendir(folder);
    for (struct dirent *entry; d && (entry = readdir(d));) {
        char path[PATH_MAX + 256];
        snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
        json_t *one = entry->d_name[0] == '.' ? NULL : json_load_file(path, 0, NULL);
        if (!one)
            continue;
        json_object_set_new(one, "node", json_string(entry->d_name));
        json_array_append(nodes, one);
        json_t *counted = json_copy(one);
        static const char *const own[] = {"node", "samples", "daemon_pid", "daemon_alive", "peers"};
        for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
            json_object_del(counted, own[i]);
        add_node(sum, counted);
        json_decref(counted);
        json_decref(one);
        unlink(path);
    }
    if (d)
        closedir(d);
    json_object_set_new(sum, "nodes", nodes);
    return sum;
}

int ctl_nodes_check_stats(const char *stats_path)
{
    char folder[PATH_MAX];
    if (!stats_path || (size_t)snprintf(folder, sizeof(folder), "%s.nodes", stats_path) >= sizeof(folder) || access(folder, F_OK))
        return 0;
    return ctl_fail("--stats %s: %s is there, and what is in it would be counted; allowed: a name without such a folder, as a killed run "
                    "leaves it",
                    stats_path, folder);
}

/* PATH.nodes is there during the stop only; a kill in between leaves it with what has come so far. */
int ctl_nodes_stop(struct ctl_nodes *nodes, const char *stats_path, json_t **stats)
{
    char folder[PATH_MAX], each[PATH_MAX + 8];
    snprintf(folder, sizeof(folder), "%s.nodes", stats_path ? stats_path : "");
    snprintf(each, sizeof(each), "%s/%%h", folder);
    bool counts = stats_path && mkdir(folder, 0700) == 0;
    if (stats_path && !counts)
        ctl_fail("--stats %s: cannot make the nodes' folder: %s", folder, strerror(errno));
    pid_t stop = spawn_command(nodes, "stop", counts ? "--stats" : NULL, each);
    int rc = stop > 0 ? ctl_nodes_reap(stop) : EXIT_DRAIN_FAILED;
    if (rc)
        end_daemons(nodes);
    else if (nodes->daemons > 0)
        nodes->ended = ctl_nodes_reap(nodes->daemons);
    if (counts) {
        *stats = merge(folder);
        rmdir(folder);
    }
    if (!rc)
        return 0;
    const struct ctl_daemon *d = nodes->daemon;
    fprintf(
        stderr,
        "tierctl: not every node was drained (%d); what was not flushed stays there; in this allocation: %s tierctl recover -c %s%s%s\n",
        rc, nodes->launch, d->config, d->mode ? " --mode " : "", d->mode ? d->mode : "");
    return EXIT_DRAIN_FAILED;
}
