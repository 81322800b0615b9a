/*
 * The logs of a traced run, written after everything that it did: after the drain, so that the
 * storage side has the flushes too. A log that cannot be written fails the command, but never
 * the run itself, which is over.
 */
#include "darshan/trace.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/remove_tree.h"
#include "darshan/files.h"
#include "darshan/log.h"
#include "darshan/records.h"
#include "darshan/segments.h"
#include "darshan/site.h"

#define JOB_BYTES 4096 /* of the job's record with command and mounts; readers have no more room */

/* As Darshan takes it: of the batch system; else of this process. */
static int64_t job_id(void)
{
    static const char *const variables[] = {"SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID"};
    for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++) {
        const char *text = getenv(variables[i]);
        if (text && atoll(text) > 0)
            return atoll(text);
    }
    return (int64_t)getpid();
}

/* `at` is in seconds since the run began; the log wants wall clock. */
static void set_time(const struct ctl_trace *t, double at, int64_t *s, int64_t *ns)
{
    int64_t all = (int64_t)t->start.tv_nsec + (int64_t)(at * 1e9);
    *s = (int64_t)t->start.tv_sec + all / 1000000000;
    *ns = all % 1000000000;
}

/* Calls that no record has: tables were full, or a signal handler interrupted the recording. */
static uint64_t missing(const struct job *job)
{
    uint64_t n = 0;
    for (size_t i = 0; i < job->n; i++) {
        const struct tb_trace_file *f = job->process[i].file;
        for (int m = 0; m < TB_TRACE_MODULES; m++)
            n += job->process[i].left_out ? 0 : f->dropped[m] + f->dropped_segments[m];
        n += job->process[i].left_out ? 0 : f->interrupted;
    }
    return n;
}

/* What no counter of Darshan says of the configuration's files: written after their last fsync, bytes of mappings. */
static void add_up(const struct ctl_trace *t, const struct job *job, uint64_t *unsynced, uint64_t *mapped)
{
    for (size_t i = 0; i < job->n; i++) {
        const struct tb_trace_file *f = job->process[i].file;
        for (uint32_t k = 0; !job->process[i].left_out && k < f->n[TB_TRACE_POSIX]; k++) {
            const struct tb_trace_posix *p = &f->posix[k];
            if (!p->slot.active || p->slot.name >= TB_TRACE_NAMES || !trace_is_ours(t, f->names + p->slot.name))
                continue;
            *unsynced += p->record.counters[POSIX_BYTES_WRITTEN] > 0 && p->record.times[POSIX_F_WRITE_END] > p->synced;
            *mapped += (uint64_t)p->mapped;
        }
    }
}

/*
 * Of a kind of calls on names: all, of a rank the least and the most, when the first began and the last ended, and the longest
 * that a rank took from its first to its last: what passes between two ranks is no rank's time.
 */
struct calls {
    uint64_t all, least, most;
    double first, last, longest;
};

/* One process more, to what its rank has done so far. */
static void add_process(const struct tb_trace_name_calls *one, struct calls *rank)
{
    if (!one->count)
        return;
    rank->first = rank->all == 0 || one->first < rank->first ? one->first : rank->first;
    rank->last = one->last > rank->last ? one->last : rank->last;
    rank->all += one->count;
}

/* The sums need no list of ranks: times are compared, numbers are added. */
static void add_rank(const struct calls *rank, struct calls *sum)
{
    if (rank->all) {
        sum->first = sum->all == 0 || rank->first < sum->first ? rank->first : sum->first;
        sum->last = rank->last > sum->last ? rank->last : sum->last;
        sum->longest = rank->last - rank->first > sum->longest ? rank->last - rank->first : sum->longest;
    }
    sum->all += rank->all;
    sum->least = rank->all < sum->least ? rank->all : sum->least;
    sum->most = rank->all > sum->most ? rank->all : sum->most;
}

/* Beside an MPI job only ranks count; the processes of one come after each other. */
static struct calls add_calls(const struct job *job, enum tb_trace_name_call call)
{
    struct calls sum = {.least = UINT64_MAX};
    for (size_t i = 0, next; i < job->n; i = next) {
        const struct process *p = &job->process[i];
        bool counts = !p->left_out && (p->is_mpi || !job->ranks);
        struct calls mine = {0};
        for (next = i; next < job->n && job->process[next].rank == p->rank; next++)
            if (counts)
                add_process(&job->process[next].file->name_calls[call], &mine);
        if (counts)
            add_rank(&mine, &sum);
    }
    sum.least = sum.least < sum.most ? sum.least : sum.most; /* none counts */
    return sum;
}

/* One line a kind of call: all, least and most of a rank, seconds of the first, of the last, and the longest of a rank. */
static int describe_calls(const struct job *job, char *out, size_t size)
{
    static const char *const names[TB_TRACE_NAME_CALLS] = {"created", "opened", "looked_at", "removed"};
    int n = 0;
    for (int call = 0; call < TB_TRACE_NAME_CALLS && n < (int)size; call++) {
        struct calls c = add_calls(job, (enum tb_trace_name_call)call);
        n += snprintf(out + n, size - (size_t)n, "tierbench_%s=%llu/%llu/%llu/%.6f/%.6f/%.6f\n", names[call], (unsigned long long)c.all,
                      (unsigned long long)c.least, (unsigned long long)c.most, c.first, c.last, c.longest);
    }
    return n;
}

/*
 * Lines of KEY=VALUE, which is all that the format has room for. Readers skip keys that they
 * do not know.
 */
static void describe(const struct ctl_trace *t, const struct tb_config *c, uint64_t digest, const struct job *job, enum tb_trace_side side,
                     char *out, size_t size)
{
    int n = snprintf(out, size,
                     "lib_ver=tierbench-%s\ntierbench_side=%s\ntierbench_commit=%s\ntierbench_config=%016llx\ntierbench_mode=%s\n"
                     "tierbench_fsync=%s\n",
                     TB_VERSION, side == TB_TRACE_STORAGE ? "storage" : "application", TB_COMMIT, (unsigned long long)digest,
                     c->n_prefixes ? tb_mode_name(c->prefixes[0].mode) : "none", tb_fsync_name(c->fsync));
    if (side == TB_TRACE_APPLICATION) {
        uint64_t unsynced = 0, mapped = 0;
        add_up(t, job, &unsynced, &mapped);
        n += snprintf(out + n, size - (size_t)n, "tierbench_ranks=%lld\ntierbench_unsynced=%llu\ntierbench_mapped=%llu\n",
                      (long long)job->ranks, (unsigned long long)unsynced, (unsigned long long)mapped);
        n += describe_calls(job, out + n, size - (size_t)n);
    }
    if (job->incomplete)
        n += snprintf(out + n, size - (size_t)n, "tierbench_incomplete=1\n");
    if (missing(job))
        snprintf(out + n, size - (size_t)n, "tierbench_missing=%llu\n", (unsigned long long)missing(job));
}

/* As a shell would show it, without quotes; a new line would end it. */
static size_t write_command(const struct job *job, char *const *command, char *out, size_t size)
{
    size_t n = 0;
    out[0] = 0;
    if (job->ranks && job->n)
        n = (size_t)snprintf(out, size, "%s", job->process[0].file->command);
    for (; !job->ranks && *command && n + strlen(*command) + 2 < size; command++)
        n += (size_t)snprintf(out + n, size - n, "%s%s", n ? " " : "", *command);
    for (char *c = out; *c; c++)
        if (*c == '\n' || *c == '\t')
            *c = ' ';
    return strlen(out);
}

/* What does not fit is left out, mounts first: readers have no more room than the format says. */
static void write_job(const struct ctl_trace *t, struct log *log, struct log_job *j, const struct job *job, char *const *command)
{
    char text[JOB_BYTES - sizeof(*j)];
    size_t n = write_command(job, command, text, sizeof(text) - 512);
    for (uint32_t i = 0; i < t->job->n_mounts; i++) {
        const struct tb_trace_mount *m = &t->job->mounts[i];
        if (n + strlen(m->type) + strlen(m->path) + 3 < sizeof(text))
            n += (size_t)snprintf(text + n, sizeof(text) - n, "\n%s\t%s", m->type, m->path);
    }
    log_begin(log, LOG_JOB);
    log_write(log, j, sizeof(*j));
    log_write(log, text, n + 1);
    log_end(log);
}

static void say_what(const char *out, const struct job *job)
{
    fprintf(stderr, "tierctl: trace: %s: %lld %s%s", out, (long long)job->nprocs, job->ranks ? "ranks" : "processes",
            job->incomplete ? ", incomplete: not all of them ended by themselves" : "");
    if (missing(job))
        fprintf(stderr, ", %llu calls are missing: a process keeps %u files and %u MiB of transfers", (unsigned long long)missing(job),
                TB_TRACE_FILES, TB_TRACE_SEGMENTS >> 20);
    fputc('\n', stderr);
}

/* Everything is read before the log is begun, so that an error leaves no half of one. */
int trace_write_side(const struct ctl_trace *t, enum tb_trace_side side, char *const *command, const struct tb_config *c, uint64_t digest)
{
    const char *out = side == TB_TRACE_STORAGE ? t->storage_out : t->out;
    struct job job;
    struct log_job j = {.uid = (int64_t)getuid(), .id = job_id()};
    if (!trace_load(t, side, &job))
        return ctl_fail("--trace %s: cannot read what the processes left: %s", out, strerror(errno));
    j.nprocs = job.nprocs;
    set_time(t, 0, &j.start_s, &j.start_ns);
    set_time(t, side == TB_TRACE_STORAGE ? tb_trace_now() : t->program_end, &j.end_s, &j.end_ns);
    describe(t, c, digest, &job, side, j.metadata, sizeof(j.metadata));
    struct log *log = log_create(out);
    if (log) {
        write_job(t, log, &j, &job, command);
        trace_write_records(log, &job, side);
        trace_write_segments(log, &job);
    }
    int rc = log ? log_close(log) : -errno;
    if (!rc)
        say_what(out, &job);
    trace_unload(&job);
    return rc ? ctl_fail("--trace %s: cannot write: %s", out, strerror(-rc)) : 0;
}

/* Noted before the drain, which is not a part of the program's time. */
void ctl_trace_program_ended(struct ctl_trace *t)
{
    if (t->out)
        t->program_end = tb_trace_now();
}

/* The folder goes with all records in it: after the logs, or where the run never began. */
void ctl_trace_forget(struct ctl_trace *t)
{
    if (!t->out)
        return;
    munmap(t->job, sizeof(*t->job));
    tb_remove_tree(t->folder, NULL);
}

/* A machine that was suspended or moved: then the times after that are wrong. */
static void check_clock(const struct ctl_trace *t)
{
    if (!tb_trace_clocks_agree(t->job))
        fprintf(stderr, "tierctl: trace: the time-stamp counter is %.3f s off CLOCK_MONOTONIC: times in the logs are wrong\n",
                tb_trace_clock_error(t->job));
}

/*
 * The application side is the site's own where its runtime wrote one. Both sides are tried,
 * and the first error counts.
 */
int ctl_trace_finish(struct ctl_trace *t, char *const *command, const struct tb_config *c, uint64_t digest)
{
    if (!t->out)
        return 0;
    if (!t->of_nodes) /* else this process has moved nothing */
        tb_trace_ends(tb_trace_of(TB_TRACE_STORAGE), TB_TRACE_EXITS);
    check_clock(t);
    int rc = 0;
    if (!t->site_lib || !trace_site_fetch(t, &rc))
        rc = trace_write_side(t, TB_TRACE_APPLICATION, command, c, digest);
    int storage = trace_write_side(t, TB_TRACE_STORAGE, command, c, digest);
    ctl_trace_forget(t);
    return rc ? rc : storage;
}
