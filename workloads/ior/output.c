/*
 * What all formats share: the facts of the run, its results and their statistics. Where a
 * report goes is tried before anything is measured, and a report that could not be written
 * makes the exit status say so.
 */
#include "tb_ior.h"

#include <errno.h>
#include <libgen.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

/* In the form of ctime, which IOR's parsers read. */
void tb_now(char text[32])
{
    struct tm parts;
    time_t seconds = time(NULL);
    localtime_r(&seconds, &parts);
    strftime(text, 32, "%a %b %e %H:%M:%S %Y", &parts);
}

/* As IOR prints sizes: whole numbers where they are whole. */
void tb_human_size(char *text, size_t size, int64_t bytes)
{
    const char *units[] = {"MiB", "GiB", "TiB"};
    int unit = 2;
    while (unit >= 0 && bytes < (int64_t)1 << (20 + 10 * unit))
        unit--;
    int64_t whole = (int64_t)1 << (20 + 10 * (unit < 0 ? 0 : unit));
    if (unit < 0)
        snprintf(text, size, "%lld bytes", (long long)bytes);
    else if (bytes % whole)
        snprintf(text, size, "%.2f %s", (double)bytes / (double)whole, units[unit]);
    else
        snprintf(text, size, "%lld %s", (long long)(bytes / whole), units[unit]);
}

/* Bytes of all ranks in one repetition, as IOR counts them, before any stonewall. */
int64_t tb_aggregate(const struct tb_options *o, const struct tb_world *w)
{
    return o->block * o->segments * w->tasks;
}

/* More of it with -v -v, as IOR. */
static void describe_machine(struct tb_report *r)
{
    struct utsname u;
    uname(&u);
    snprintf(r->platform, sizeof(r->platform), "%s(%s)", u.nodename, u.sysname);
    snprintf(r->machine, sizeof(r->machine), "%s %s", u.sysname, u.nodename);
    if (r->verbose >= 2)
        snprintf(r->machine, sizeof(r->machine), "%s %s %s %s %s", u.sysname, u.nodename, u.release, u.version, u.machine);
}

/* The place of the file, which may not exist yet. */
static struct tb_file_system file_system_of(const char *file)
{
    const char *name;
    char dir[4096];
    int length = tb_name_of(file, 0, &name);
    snprintf(dir, sizeof(dir), "%.*s", length, name);
    return tb_file_system_of(dirname(dir));
}

/* A report that is written at the end must not be found out then to have no place, nor an older one be taken for it. */
static bool prepare_file(struct tb_report *r)
{
    struct stat st;
    FILE *f = r->path ? fopen(r->path, "a") : NULL;
    if (f && fclose(f))
        f = NULL;
    if (r->path && !f) {
        fprintf(stderr, "%s: -O summaryFile: %s: %s\n", TB_PROGRAM, r->path, strerror(errno));
        return false;
    }
    if (r->path && !stat(r->path, &st) && S_ISREG(st.st_mode))
        unlink(r->path);
    return true;
}

/* Its header is written at once, so that a killed run leaves a table. */
static bool open_rank_file(struct tb_report *r, const char *path)
{
    r->rank_path = path;
    if (path && !(r->rank_file = fopen(path, "w"))) {
        fprintf(stderr, "%s: -O saveRankPerformanceDetailsCSV: %s: %s\n", TB_PROGRAM, path, strerror(errno));
        return false;
    }
    if (path)
        fprintf(r->rank_file, "access,rank,runtime-with-openclose,runtime,throughput-withopenclose,throughput\n");
    return true;
}

/*
 * At the end where the format wants all results together: then an old report was removed at
 * the start.
 */
static bool open_out(struct tb_report *r)
{
    r->out = r->path ? fopen(r->path, "w") : stdout;
    if (!r->out)
        fprintf(stderr, "%s: -O summaryFile: %s: %s\n", TB_PROGRAM, r->path, strerror(errno));
    return r->out;
}

/* On rank 0 alone; after an error the caller tells the other ranks, and nothing was measured. */
bool tb_report_open(struct tb_report *r, const struct tb_options *o, const char *command_line, size_t tests)
{
    *r = (struct tb_report){.output = o->output, .path = o->summary_file, .command_line = command_line, .verbose = o->verbose};
    tb_now(r->began);
    describe_machine(r);
    if (!prepare_file(r) || !open_rank_file(r, o->rank_file))
        return false;
    r->tests = calloc(tests, sizeof(*r->tests));
    if (!r->tests) {
        fprintf(stderr, "%s: no memory for %zu tests\n", TB_PROGRAM, tests);
        return false;
    }
    if (r->output->at_end)
        return true;
    if (!open_out(r))
        return false;
    if (r->output->begin)
        r->output->begin(r);
    return true;
}

/* Room for a write, a read and a removal of each repetition. */
struct tb_test *tb_report_test(struct tb_report *r, const struct tb_options *o, const struct tb_world *w)
{
    struct tb_test *t = &r->tests[r->count];
    *t = (struct tb_test){.options = o, .world = *w, .id = (int)r->count++, .fs = file_system_of(o->file), .platform = r->platform};
    t->results = calloc((size_t)o->repetitions * 3, sizeof(*t->results));
    if (!t->results)
        tb_fail("memory", "allocate", -1, "too many repetitions for their results");
    tb_now(t->began);
    tb_path(t->path, sizeof(t->path), o, w, 0, -1);
    return t;
}

/* There is room for every result: tb_report_test counted them. */
void tb_report_add(struct tb_test *t, const struct tb_result *result)
{
    t->results[t->count++] = *result;
}

/* A full disk may show only now. */
static bool close_file(FILE *f, const char *path)
{
    bool good = !ferror(f);
    good = fclose(f) == 0 && good;
    if (!good)
        fprintf(stderr, "%s: %s: the report could not be written: %s\n", TB_PROGRAM, path, strerror(errno));
    return good;
}

/*
 * Only here do errors of earlier prints count: a full disk ends in a false result, not in a
 * cut report that looks whole.
 */
bool tb_report_close(struct tb_report *r)
{
    bool good = true;
    if (r->output->at_end && !open_out(r))
        return false;
    if (r->output->end)
        r->output->end(r);
    good = close_file(r->out, r->path ? r->path : "standard output");
    if (r->rank_file)
        good = close_file(r->rank_file, r->rank_path) && good;
    for (size_t i = 0; i < r->count; i++)
        free(r->tests[i].results);
    free(r->tests);
    return good;
}

/* Moved bytes are the last repetition's, as IOR has them. */
static void add_extremes(struct tb_statistics *s, const struct tb_result *x)
{
    if (!s->count++ || x->bandwidth_mib > s->max)
        s->max = x->bandwidth_mib;
    if (s->count == 1 || x->bandwidth_mib < s->min)
        s->min = x->bandwidth_mib;
    s->mean += x->bandwidth_mib;
    s->time_s += x->total_s;
    s->moved_mib = (double)x->bytes / TB_MIB;
    s->stonewall_s += x->stonewall_s;
    s->stonewall_mib += x->stonewall_mib;
}

/* The deviation is the population's, as IOR prints it. */
struct tb_statistics tb_summarize(const struct tb_test *t, bool write)
{
    struct tb_statistics s = {0};
    double squares = 0, ops = TB_MIB / (double)t->options->transfer;
    for (size_t i = 0; i < t->count; i++)
        if (t->results[i].write == write && !t->results[i].removal)
            add_extremes(&s, &t->results[i]);
    if (!s.count)
        return s;
    s.mean /= s.count;
    s.time_s /= s.count;
    s.stonewall_s /= s.count;
    s.stonewall_mib /= s.count;
    for (size_t i = 0; i < t->count; i++)
        if (t->results[i].write == write && !t->results[i].removal)
            squares += pow(t->results[i].bandwidth_mib - s.mean, 2);
    s.deviation = sqrt(squares / s.count);
    s.ops_max = s.max * ops;
    s.ops_min = s.min * ops;
    s.ops_mean = s.mean * ops;
    s.ops_deviation = s.deviation * ops;
    return s;
}
