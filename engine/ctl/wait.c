/*
 * wait: until what the movers of a log have in hand is at its destination. It asks through
 * the log, so it works on any node: each mover that lives looks at its folder once more and
 * answers. Where this node's mover has died, or there was none, it starts one, which goes on.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "commands.h"
#include "common/ctl.h"
#include "config/config.h"
#include "text/text.h"
#include "stage/mover_lease.h"
#include "stage/log/left.h"
#include "staging/movers.h"
#include "staging/progress.h"

#define LOOK_NS 50000000

struct wait {
    const char *instance, *left;
    double deadline; /* seconds; 0: none */
    struct tb_config_stage stage;
    struct ctl_mover mover; /* one of its own */
    struct tb_ledger ledger;
    struct ctl_stage_progress progress;
    char host[65], question[80];
    double end_s;    /* of --deadline; 0: none */
    double asked_s;  /* when */
    double looked_s; /* when each queued file was last looked at */
    bool has_mover;  /* one of them, then */
    bool named;      /* a mover that does not answer */
};

static volatile sig_atomic_t told_to_stop;

static void on_signal(int sig)
{
    (void)sig;
    told_to_stop = 1;
}

/* A list that cannot be written is refused now, not after the wait. */
static int take(void *into, char key, const char *value)
{
    struct wait *w = into;
    char *end;
    switch (key) {
    case 'i': w->instance = value; return 0;
    case 'L': w->left = value; return ctl_check_output("--left", value);
    default:
        w->deadline = strtod(value, &end);
        if (*end || !(w->deadline > 0))
            return ctl_fail("--deadline: %s: allowed is a number of seconds above 0", value);
        return 0;
    }
}

/* The instance is only looked at: no slot is held in it while the files are moved. */
static int settings_of_instance(struct wait *w)
{
    tb_engine *engine;
    int rc = ctl_look(w->instance, &engine);
    if (rc)
        return rc;
    w->stage = tb_instance_config(engine)->stage_out;
    tb_engine_detach(engine);
    return w->stage.from[0] ? ctl_real_path("stage_out.from", w->stage.from, sizeof(w->stage.from))
                            : ctl_fail("wait: instance %s has no stage_out", w->instance);
}

/* Where no mover has ever written it, and none is started here, nothing could be said of any file. */
static int check_log(const struct wait *w)
{
    char log[PATH_MAX + sizeof(TB_LOG_NAME)];
    snprintf(log, sizeof(log), "%s/%s", w->stage.to, TB_LOG_NAME);
    if (access(log, F_OK) == 0 || errno != ENOENT)
        return 0;
    return ctl_fail(
        "wait: %s is not there: no mover has worked for this folder; allowed: the PFS_DIR of a stage-out, or PERSIST_DIR on its node", log);
}

/* PFS_DIR alone is enough on a node without the folder, as Summit's launch nodes are. */
static int settings(struct wait *w)
{
    const char *to = getenv("PFS_DIR"), *from = getenv("PERSIST_DIR");
    if (w->instance)
        return settings_of_instance(w);
    if (to && *to && (!from || !*from || access(from, F_OK))) {
        tb_stage_defaults(&w->stage);
        return (size_t)snprintf(w->stage.to, sizeof(w->stage.to), "%s", to) < sizeof(w->stage.to) ? check_log(w)
                                                                                                  : ctl_fail("PFS_DIR: too long");
    }
    int rc = ctl_stage_settings(&(struct ctl_configured){0}, true, &w->stage);
    return rc || w->stage.from[0] ? rc : ctl_fail("wait: needs PERSIST_DIR and PFS_DIR in the environment, or -i NAME");
}

/* The plan's `all`: a folder that no mover ever watched is moved whole. */
static int take_over(struct wait *w)
{
    struct tb_mover_plan plan = {.settings = &w->stage, .log_folder = w->stage.to};
    if (!w->stage.from[0] || tb_mover_lease_is_held(w->stage.to, w->host, w->stage.from))
        return 0;
    plan.all = tb_ledger_since(&w->ledger, w->host, w->stage.from) == INT64_MIN;
    return ctl_mover_start(&plan, &w->mover);
}

/* The question has host, process and time, so no process takes an answer to another process for its own. */
static int ask(struct wait *w)
{
    struct tb_lines lines = {0};
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    snprintf(w->question, sizeof(w->question), "%.50s.%d.%lld%09ld", w->host, (int)getpid(), (long long)now.tv_sec, now.tv_nsec);
    tb_lines_fact(&lines, "asks", w->question, NULL);
    int rc = tb_ledger_append(&w->ledger, &lines);
    tb_lines_free(&lines);
    w->asked_s = ctl_now();
    return rc ? ctl_fail("%s/%s: %s", w->stage.to, TB_LOG_NAME, strerror(-rc)) : 0;
}

/* A mover that is stopped, or on a stopped node, does not answer: after a second a message names it, once. */
static void name_silent(struct wait *w, const struct tb_known_mover *m)
{
    const char *pid = m->id + strlen(m->host);
    if (w->named || ctl_now() - w->asked_s < 1)
        return;
    w->named = true;
    fprintf(stderr, "tierctl: waits for the mover on %s, process %.*s, which does not answer\n", m->host,
            (int)strcspn(pid + (*pid == '.'), "."), pid + (*pid == '.'));
}

/*
 * Movers that live: how many, and how many of them have not answered. A mover that was killed has no line `ends`, so its
 * lease is asked as well.
 */
static int living(struct wait *w, int *silent)
{
    int n = 0;
    *silent = 0;
    for (struct tb_known_mover *m = w->ledger.movers; m; m = m->next) {
        m->lives = !m->ended && tb_mover_lease_is_held(w->stage.to, m->host, m->from[0] ? m->from : m->id);
        if (!m->lives)
            continue;
        n++;
        if (strcmp(m->answered, w->question) != 0) {
            ++*silent;
            name_silent(w, m);
        }
    }
    return n;
}

static void look_for_mover(void *arg, const struct tb_entry *e)
{
    struct wait *w = arg;
    for (const struct tb_known_mover *m = w->ledger.movers; m && !w->has_mover && e->state == TB_ENTRY_QUEUED; m = m->next)
        w->has_mover = m->lives && strcmp(m->host, e->host) == 0 && (!m->from[0] || tb_path_is_under(e->source, m->from));
}

/* Files of a mover that was killed stay in the list, and no mover moves them. There may be many files, so not at each look. */
static bool has_movers(struct wait *w)
{
    if (ctl_now() - w->looked_s < 1)
        return true;
    w->has_mover = false;
    tb_ledger_each_left(&w->ledger, look_for_mover, w);
    w->looked_s = ctl_now();
    return w->has_mover;
}

/*
 * Nothing is in hand, or nothing is there to work on it. An answer means that the mover has looked at its whole folder
 * since the question. Only then does an empty list mean that nothing is missing.
 */
static bool is_over(struct wait *w)
{
    int silent;
    tb_ledger_refresh(&w->ledger);
    int n = living(w, &silent);
    return n == 0 || (silent == 0 && (w->ledger.n_queued == 0 || !has_movers(w)));
}

static bool has_time(const struct wait *w)
{
    return !told_to_stop && (w->end_s <= 0 || ctl_now() <= w->end_s);
}

/* True: all was told; false: there was no time. */
static bool await(struct wait *w)
{
    while (!is_over(w)) {
        if (!has_time(w))
            return false;
        ctl_progress_show(&w->progress, false);
        nanosleep(&(struct timespec){0, LOOK_NS}, NULL);
    }
    return true;
}

/*
 * They are not waited for, as their programs may run on; but a user that thinks that all programs have ended learns that one
 * has not. A mover that was started here ends, and tells of them as not moved.
 */
static void name_open(const struct wait *w)
{
    if (w->mover.pid)
        return;
    for (const struct tb_known_mover *m = w->ledger.movers; m; m = m->next)
        if (m->lives && m->n_open && strcmp(m->answered, w->question) == 0)
            fprintf(stderr, "tierctl: on %s %lu %s open for writing, and moved after the last close: %s%s\n", m->host, m->n_open,
                    m->n_open == 1 ? "file is" : "files are", m->open, m->n_open == 1 ? "" : " ...");
}

/* This node's mover ended, or was killed, before it answered: so nothing has looked at the folder since the question. */
static bool has_lost_mover(const struct wait *w)
{
    if (!w->stage.from[0] || w->mover.pid)
        return false;
    for (const struct tb_known_mover *m = w->ledger.movers; m; m = m->next)
        if (strcmp(m->host, w->host) == 0 && strcmp(m->from, w->stage.from) == 0 && strcmp(m->answered, w->question) == 0)
            return false;
    return true;
}

/* One of its own ends with it, with or without time. False: it was killed, or could not move all. */
static bool end_mover(struct wait *w, bool complete)
{
    int status = 0;
    if (!w->mover.pid)
        return true;
    if (complete)
        ctl_mover_tell_to_finish(&w->mover);
    else
        kill(w->mover.pid, SIGTERM);
    while (waitpid(w->mover.pid, &status, 0) < 0 && errno == EINTR)
        ;
    ctl_mover_forget(&w->mover);
    tb_ledger_refresh(&w->ledger);
    return status == 0;
}

/*
 * Signals are noted and not obeyed at once: the mover that was started here has to be ended, and the list of what is left
 * to be written.
 */
static int run(struct wait *w)
{
    const struct sigaction act = {.sa_handler = on_signal};
    sigaction(SIGTERM, &act, NULL);
    sigaction(SIGINT, &act, NULL);
    int rc;
    bool complete, lost;
    w->end_s = w->deadline > 0 ? ctl_now() + w->deadline : 0;
    ctl_progress_begin(&w->progress, &w->ledger, NULL, NULL);
    do {
        if ((rc = take_over(w)) || (rc = ask(w)))
            return rc;
        complete = await(w);
        lost = complete && has_lost_mover(w);
        complete = complete && (!lost || has_time(w));
        if (lost)
            nanosleep(&(struct timespec){0, LOOK_NS}, NULL); /* one that begins just now is not in the log yet */
    } while (lost && complete);
    name_open(w);
    complete = end_mover(w, complete) && complete;
    rc = ctl_progress_end(&w->progress, complete);
    int written = w->left ? tb_left_of_ledger(&w->ledger, w->left) : 0;
    if (written)
        ctl_fail("--left %s: %s", w->left, strerror(-written));
    return rc;
}

/* Movers are asked and answer by lines of the log, so several waits may run beside each other. */
int tb_wait_command(const struct ctl_command *self, int argc, char **argv)
{
    struct wait w = {0};
    int rc = ctl_parse(self, argc, argv, take, &w);
    if (rc || (rc = settings(&w)))
        return rc;
    tb_stage_host(w.host);
    rc = tb_ledger_open(&w.ledger, w.stage.to);
    if (rc)
        return ctl_fail("%s/%s: %s", w.stage.to, TB_LOG_NAME, strerror(-rc));
    rc = run(&w);
    tb_ledger_close(&w.ledger);
    return rc;
}
