/*
 * Arguments, the group of processes, the clock and the printed line of a measurement
 * (job.h).  The process that stays only waits: if the group is killed or fails, or if
 * this program is asked to end, it still stops the system and removes the folder.
 */
#include "job.h"

#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/remove_tree.h"

#define MAX_PROCESSES 64
#define MAX_DEPTH 4096
#define OPERATIONS 1000000

static volatile sig_atomic_t asked_to_end;
static volatile pid_t group; /* its first process, 0 when it has ended; read by the handler */

/* One line on stderr, with the program and the system: the harness shows it beside the row that is missing. */
static void say(const struct tb_job *job, const char *format, va_list args)
{
    fprintf(stderr, "%s: %s: ", job->program, job->system);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
}

/* In any process of the group. Without atexit handlers: those are the first process's to run. */
void tb_job_fail(const struct tb_job *job, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    say(job, format, args);
    va_end(args);
    fflush(NULL);
    _exit(1);
}

int tb_job_skip(const struct tb_job *job, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    say(job, format, args);
    va_end(args);
    return TB_JOB_SKIPPED;
}

/* The whole word has to be the number: a unit after it would be lost. */
static bool read_number(const char *text, long least, long most, long *out)
{
    char *end;
    errno = 0;
    *out = strtol(text, &end, 10);
    return !errno && end != text && !*end && *out >= least && *out <= most;
}

static int refuse(const struct tb_job *job, const char *option, const char *value, const char *allowed)
{
    fprintf(stderr, "%s: %s %s; allowed: %s\n", job->program, option, value, allowed);
    return TB_JOB_REFUSED;
}

static bool is_known(const struct tb_job_of *of, const char *system)
{
    for (const char *const *s = of->systems; system && *s; s++)
        if (strcmp(*s, system) == 0)
            return true;
    return false;
}

/* The names are the program's own list, so the message cannot be out of date. */
static int refuse_system(const struct tb_job *job, const struct tb_job_of *of)
{
    fprintf(stderr, "%s: SYSTEM %s; allowed:", job->program, job->system ? job->system : "is not one word");
    for (const char *const *s = of->systems; *s; s++)
        fprintf(stderr, "%s %s", s == of->systems ? "" : ",", *s);
    fputc('\n', stderr);
    return TB_JOB_REFUSED;
}

/* 0 or an exit status. */
static int read_options(struct tb_job *job, int argc, char **argv, const struct tb_job_of *of)
{
    long processes = 1;
    int option;
    while ((option = getopt(argc, argv, "n:p:b:")) != -1) {
        if (option == 'n' && !read_number(optarg, TB_PARTS, 1L << 32, &job->operations))
            return refuse(job, "-n", optarg, "operations, 10 to 4294967296");
        if (option == 'p' && !read_number(optarg, 1, MAX_PROCESSES, &processes))
            return refuse(job, "-p", optarg, "processes, 1 to 64");
        if (option == 'b' && !read_number(optarg, 1, MAX_DEPTH, &job->depth))
            return refuse(job, "-b", optarg, "requests under way at once, 1 to 4096");
        if (option == '?')
            return TB_JOB_REFUSED;
    }
    job->processes = (int)processes;
    job->system = optind + 1 == argc ? argv[optind] : NULL;
    if (!is_known(of, job->system))
        return refuse_system(job, of);
    if (job->operations % (TB_PARTS * processes))
        return refuse(job, "-n", "is not divided evenly", "a multiple of 10 times the processes");
    return 0;
}

/* Of this run alone, so that two measurements at once share no socket, no file and no name. */
static int make_folder(struct tb_job *job)
{
    const char *tmp = getenv("TMPDIR");
    int n = snprintf(job->folder, sizeof(job->folder), "%s/tb-job-XXXXXX", tmp && *tmp ? tmp : "/tmp");
    if (n >= (int)sizeof(job->folder))
        return refuse(job, "TMPDIR", tmp, "a path of at most 1000 bytes");
    if (!mkdtemp(job->folder)) {
        fprintf(stderr, "%s: %s: %s\n", job->program, job->folder, strerror(errno));
        return 1;
    }
    return 0;
}

/* Only what a handler may do. The process that stays wakes from its wait, stops the system and removes the folder. */
static void on_end(int signal)
{
    asked_to_end = signal;
    if (group > 0)
        kill(group, SIGKILL);
}

/* The group's first process forks the others; they die with it, and it with this program. */
static void __attribute__((noreturn)) be_the_group(struct tb_job *job, const struct tb_job_of *of, pid_t parent)
{
    signal(SIGTERM, SIG_DFL);
    signal(SIGINT, SIG_DFL);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) /* it ended before the line above */
        _exit(1);
    job->workers = tb_workers_start(job->processes + of->helpers, &job->rank);
    if (!job->workers)
        tb_job_fail(job, "cannot start processes: %s", strerror(errno));
    of->work(job);
    if (job->rank)
        _exit(0);
    while (waitpid(-1, NULL, 0) > 0)
        ;
    fflush(NULL);
    _exit(0);
}

/* A signal that came before the fork had no group to end: it is looked at again after it. */
static int run_group(struct tb_job *job, const struct tb_job_of *of)
{
    int status = 0;
    pid_t parent = getpid();
    group = fork();
    if (group == 0)
        be_the_group(job, of, parent);
    if (group < 0)
        return 1;
    if (asked_to_end)
        kill(group, SIGKILL);
    while (waitpid(group, &status, 0) < 0 && errno == EINTR)
        ;
    group = 0;
    if (WIFSIGNALED(status) && !asked_to_end)
        fprintf(stderr, "%s: %s: killed by signal %d\n", job->program, job->system, WTERMSIG(status));
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

/*
 * Order: what is refused is refused before anything is made; handlers are set before the system is
 * started; whatever happens after that, the system is stopped before its folder is removed.
 */
int tb_job_main(int argc, char **argv, const struct tb_job_of *of)
{
    struct tb_job job = {.program = strrchr(argv[0], '/') ? strrchr(argv[0], '/') + 1 : argv[0], .operations = OPERATIONS, .depth = 1};
    int rc = read_options(&job, argc, argv, of);
    rc = rc || !of->choose ? rc : of->choose(&job, argv);
    rc = rc ? rc : make_folder(&job);
    if (rc)
        return rc;
    signal(SIGTERM, on_end);
    signal(SIGINT, on_end);
    rc = of->start(&job);
    rc = rc || asked_to_end ? rc : run_group(&job, of);
    of->stop(&job);
    tb_remove_tree(job.folder, NULL);
    return asked_to_end ? 128 + asked_to_end : rc;
}

struct phase {
    struct tb_job *job;
    tb_job_part *part;
    void *arg;
    long from, to;
};

static void work_part(void *arg)
{
    struct phase *p = arg;
    p->part(p->job, p->arg, p->from, p->to);
}

/* As the timed ones, with all processes in step, so that none still warms up while another is measured. */
void tb_job_untimed(struct tb_job *job, tb_job_part *part, void *arg, long operations)
{
    struct phase p = {job, part, arg, 0, operations / job->processes};
    double unused;
    tb_workers_repeat(job->workers, work_part, &p, &unused);
}

/* 0 where the clock cannot be read: a server that has ended has none. */
static double cpu_seconds(clockid_t clock)
{
    struct timespec t = {0};
    clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

struct cpu {
    double client, server; /* seconds */
};

/* Of the first process and of all threads of the server, until now. */
static struct cpu cpu_now(const struct tb_job *job)
{
    clockid_t clock;
    bool has_server = job->server && clock_getcpuclockid(job->server, &clock) == 0;
    return (struct cpu){cpu_seconds(CLOCK_PROCESS_CPUTIME_ID), has_server ? cpu_seconds(clock) : 0};
}

/* What a line of JSON says of a phase; rates are made from it when all parts are over. */
struct row {
    const char *operation, *more;
    long operations;
    double seconds[TB_PARTS];
    struct cpu before, after;
};

/* The first process speaks for all: each does the same work, so its processor time counts once for each. */
static void print_row(const struct tb_job *job, const struct row *r)
{
    double n = (double)r->operations;
    printf("{\"program\": \"%s\", \"system\": \"%s\", \"operation\": \"%s\", \"processes\": %d, \"depth\": %ld, \"operations\": %ld",
           job->program, job->system, r->operation, job->processes, job->depth, r->operations);
    printf(", \"cpu_us\": {\"client\": %.4f, \"server\": %.4f}", (r->after.client - r->before.client) * 1e6 * job->processes / n,
           (r->after.server - r->before.server) * 1e6 / n);
    printf("%s, \"ops_per_s\": [", r->more);
    for (int i = 0; i < TB_PARTS; i++)
        printf("%s%.1f", i ? ", " : "", n / TB_PARTS / r->seconds[i]);
    puts("]}");
    fflush(stdout);
}

/*
 * In TB_PARTS parts, so that one run has a spread. Processor time is read around all of them: it is too coarse
 * for one.
 */
void tb_job_timed(struct tb_job *job, const char *operation, tb_job_part *part, void *arg, long operations, tb_job_more *more)
{
    char told[256] = "";
    struct row row = {.operation = operation, .more = told, .operations = operations, .before = cpu_now(job)};
    long each = operations / TB_PARTS / job->processes;
    for (int i = 0; i < TB_PARTS; i++) {
        struct phase p = {job, part, arg, i * each, (i + 1) * each};
        tb_workers_repeat(job->workers, work_part, &p, &row.seconds[i]);
    }
    row.after = cpu_now(job);
    if (job->rank == 0 && more)
        more(arg, told, sizeof(told));
    if (job->rank == 0)
        print_row(job, &row);
}
