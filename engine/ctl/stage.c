/*
 * stage: what a job script's directives ask for, phase by phase as a batch system does it, or
 * the whole job here; the pairs of a manifest; or the mover of this node.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "commands.h"
#include "common/ctl.h"
#include "common/signals.h"
#include "staging/job.h"
#include "staging/movers.h"
#include "staging/taken.h"
#include "text/text.h"

struct stage {
    const char *script, *word, *manifest, *phase, *place, *log, *id, *left, *config;
    bool check, watch;
};

/* What the options mean together is checked once all of them are known. */
static int take(void *into, char key, const char *value)
{
    struct stage *s = into;
    switch (key) {
    case 'S': s->script = value; return 0;
    case 'W':
        s->word = value;
        return *value && !strpbrk(value, " \t\r\n") ? 0 : ctl_fail("--word: '%s'; allowed: a word without blanks, as #BB_LUA", value);
    case 'M': s->manifest = value; return 0;
    case 'C': s->check = true; return 0;
    case 'P': s->phase = value; return 0;
    case 'D': s->place = value; return 0;
    case 'J': s->id = value; return 0;
    case 'G': s->log = value; return 0;
    case 'N': s->watch = true; return 0;
    case 'c': s->config = value; return 0;
    default: s->left = value; return ctl_check_output("--left", value);
    }
}

/* The folder of the log: PFS_DIR, as for a stage-out, else the one where the command was given. */
static const char *log_folder(const struct stage *s)
{
    const char *pfs = getenv("PFS_DIR");
    return s->log ? s->log : pfs && *pfs ? pfs : ".";
}

/* Streams, bandwidth and the like are a configuration's, where one is given. */
static int limits(const struct stage *s, struct tb_config_stage *settings)
{
    if (!s->config)
        return 0;
    int rc = ctl_stage_settings(&(struct ctl_configured){.config = s->config}, true, settings);
    return rc || settings->from[0] ? rc : ctl_fail("-c %s: has no stage_out", s->config);
}

/*
 * Move them, with progress. 0, EXIT_BAD_INPUT or EXIT_DRAIN_FAILED. One mover for all pairs, so limits of bandwidth hold
 * for the job and not for each directive.
 */
static int move(const struct stage *s, const struct pairs *pairs, struct tb_config_stage *settings)
{
    struct ctl_mover mover;
    struct tb_mover_plan plan = {.settings = settings, .log_folder = log_folder(s), .pairs = pairs->one, .n_pairs = pairs->n};
    if (!pairs->n)
        return 0;
    if (s->left)
        snprintf(settings->left, sizeof(settings->left), "%s", s->left);
    int rc = ctl_mover_start(&plan, &mover);
    return rc ? rc : ctl_mover_finish(&mover);
}

/* Sources that directives name: some come to be while the script runs, so their links are followed only now. */
static int move_job(const struct stage *s, struct pairs *pairs, struct tb_config_stage *settings)
{
    int rc = pairs_follow(pairs);
    return rc ? rc : move(s, pairs, settings);
}

/* A check that is silent says that all is right: so what has nothing to be checked is told. */
static void say_nothing_staged(const char *file, const char *why)
{
    fprintf(stderr, "tierctl: %s: %s: nothing would be staged\n", file, why);
}

/*
 * Everything is checked first; with --check that is all. Links of a manifest stay links: the list of what a mover left has them as
 * it would have moved them.
 */
static int stage_manifest(const struct stage *s)
{
    struct pairs pairs = {0};
    struct tb_config_stage settings;
    tb_stage_defaults(&settings);
    int rc = pairs_read_manifest(&pairs, s->manifest);
    if (!rc)
        rc = limits(s, &settings);
    if (!rc)
        rc = pairs_check(&pairs, true, NULL);
    if (!rc && !s->check)
        rc = move(s, &pairs, &settings);
    else if (!rc && !pairs.n)
        say_nothing_staged(s->manifest, "names no file");
    pairs_free(&pairs);
    return rc;
}

static int move_out(const struct stage *s, struct stage_job *j)
{
    int rc = stage_job_check_places(j);
    return rc ? rc : move_job(s, &j->out, &j->settings);
}

/*
 * The script under its own interpreter; its exit status as a shell says it. A script that may not be executed is given to sh.
 */
static int run_script(const struct stage_job *j)
{
    int status = 0;
    pid_t pid = fork();
    if (pid < 0)
        return ctl_fail("cannot fork: %s", strerror(errno));
    if (pid == 0) {
        stage_job_set_variables(j);
        ctl_signals_give_back();
        execl("/bin/sh", "sh", "-c",
              access(j->directives.script, X_OK) ? "exec sh \"$0\"" : "case $0 in */*) exec \"$0\";; *) exec ./\"$0\";; esac",
              j->directives.script, (char *)NULL);
        _exit(127);
    }
    ctl_signals_pass_to(pid);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    ctl_signals_program_ended();
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* All of it, before anything is made or moved. */
static int check_job(const struct stage *s, struct stage_job *j)
{
    int rc = stage_job_check(j);
    if (!rc && s->check && !j->directives.n) {
        char why[100];
        snprintf(why, sizeof(why), "no line begins with %.60s", j->directives.word);
        say_nothing_staged(s->script, why);
    }
    return rc ? rc : pairs_check_taken(&j->out, log_folder(s));
}

/*
 * What could not be staged out stays where it is, with the job's folders. The script does not run where a file is missing
 * that it asked for. Its own exit status wins over a stage-out that failed: the message names the folders that stay.
 */
static int run_job(const struct stage *s, struct stage_job *j)
{
    int rc = check_job(s, j);
    if (!rc)
        rc = stage_job_set_up(j, true);
    if (rc)
        return rc;
    int program = 0;
    rc = move_job(s, &j->in, &j->settings);
    if (!rc) {
        program = run_script(j);
        rc = move_out(s, j);
    }
    if (!rc)
        rc = stage_job_tear_down(j);
    else
        ctl_fail("stage: the job's folders stay in %s/%s", j->place, j->id);
    return program ? program : rc;
}

/*
 * Phases are processes of their own, hours apart: each reads the script again, and what they share is in folders with
 * marks.
 */
static int run_phase(const struct stage *s, struct stage_job *j)
{
    int rc;
    if (s->check)
        return check_job(s, j);
    if (!s->phase)
        return run_job(s, j);
    if (strcmp(s->phase, "setup") == 0)
        return (rc = check_job(s, j)) ? rc : stage_job_set_up(j, false);
    if (strcmp(s->phase, "in") == 0)
        return move_job(s, &j->in, &j->settings);
    if (strcmp(s->phase, "out") == 0)
        return move_out(s, j);
    if (strcmp(s->phase, "env") == 0)
        return stage_job_print_variables(j), 0;
    if (strcmp(s->phase, "teardown") == 0)
        return stage_job_tear_down(j);
    return ctl_fail("--phase: %s; allowed: setup, in, env, out, teardown", s->phase);
}

/* A batch system's number for the job, so that all its phases find the same folders. */
static const char *job_id(const struct stage *s)
{
    static char own[32];
    static const char *const variables[] = {"SLURM_JOB_ID", "LSB_JOBID", "FLUX_JOB_ID"};
    for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]) && !s->id; i++)
        if (getenv(variables[i]))
            return getenv(variables[i]);
    snprintf(own, sizeof(own), "job-%d", (int)getpid());
    return s->id ? s->id : own;
}

/* PERSIST_DIR first: where a site has Spectral's variables, it is the node-local storage. */
static const char *place(const struct stage *s)
{
    const char *persist = getenv("PERSIST_DIR"), *tmp = getenv("TMPDIR");
    return s->place ? s->place : persist && *persist ? persist : tmp && *tmp ? tmp : "/tmp";
}

/*
 * Its full path. A login node need not have it: what only the place can say is then left out of a check, which says so.
 */
static int find_place(const struct stage *s, char full[PATH_MAX], bool *is_away)
{
    char here[PATH_MAX];
    *is_away = !realpath(place(s), full);
    if (!*is_away)
        return 0;
    if (!s->check || errno != ENOENT || !getcwd(here, sizeof(here)) || tb_path_absolute(here, place(s), full, PATH_MAX))
        return ctl_fail("the place %s: %s; allowed: a folder that is there", place(s), strerror(errno));
    fprintf(stderr, "tierctl: the place %s is not on this node: its room, and what is in it, was not looked at\n", full);
    return 0;
}

/* The whole script is read before a phase begins: an error in its last line moves nothing. */
static int stage_script(const struct stage *s)
{
    char full[PATH_MAX];
    bool is_away;
    int rc = find_place(s, full, &is_away);
    struct stage_job *job = rc ? NULL : calloc(1, sizeof(*job));
    if (!job)
        return rc ? rc : ctl_fail("%s", strerror(ENOMEM));
    rc = stage_job_read(job, s->script, s->word ? s->word : "#DW", full, job_id(s));
    job->is_away = is_away;
    if (!rc)
        rc = limits(s, &job->settings);
    if (!rc)
        rc = run_phase(s, job);
    stage_job_free(job);
    free(job);
    return rc;
}

/* This node's mover, in the foreground: for a prolog, or a launcher that starts one on each node. It ends by SIGTERM. */
static int watch(const struct stage *s)
{
    struct tb_config_stage settings;
    int rc = ctl_stage_settings(&(struct ctl_configured){.config = s->config}, true, &settings);
    if (rc || !settings.from[0])
        return rc ? rc : ctl_fail("stage --watch: needs PERSIST_DIR and PFS_DIR in the environment, or -c CONFIG with stage_out");
    if (s->left)
        snprintf(settings.left, sizeof(settings.left), "%s", s->left);
    return ctl_mover_be(
        &(struct tb_mover_plan){.settings = &settings, .log_folder = settings.to, .control = -1, .ready = -1, .stays = true});
}

/* One of the three at a time: each has its own end and its own exit status. */
int tb_stage_command(const struct ctl_command *self, int argc, char **argv)
{
    struct stage s = {0};
    int rc = ctl_parse(self, argc, argv, take, &s);
    if (rc)
        return rc;
    if (!!s.script + !!s.manifest + s.watch != 1)
        return ctl_misused(self, "needs one of --script, --manifest and --watch");
    ctl_signals_hold("none"); /* until there is a process to pass them to */
    return s.script ? stage_script(&s) : s.manifest ? stage_manifest(&s) : watch(&s);
}
