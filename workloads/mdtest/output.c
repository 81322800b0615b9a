/*
 * mdtest's text: header, a line per phase with -v, and the summary of rates, of times, or of
 * both. Titles, columns and widths are mdtest's, because programs look for them. Each part is
 * flushed at once: a run that is killed has told how far it came.
 */
#include "tb_mdtest.h"

#include <math.h>
#include <string.h>
#include <time.h>

/* In the order of enum tb_operation, which is that of mdtest's rows. */
static const char *const names[TB_OPERATIONS] = {"Directory creation", "Directory stat", "Directory rename", "Directory removal",
                                                 "File creation",      "File stat",      "File read",        "File removal",
                                                 "Tree creation",      "Tree removal"};

const char *tb_operation_name(enum tb_operation op)
{
    return names[op];
}

/* -D and -F leave out the rows of the other kind; those of the tree are always there. */
bool tb_operation_belongs(const struct tb_options *o, enum tb_operation op)
{
    return op >= TB_TREE_CREATE || (op >= TB_FILE_CREATE ? !o->dirs_only : !o->files_only);
}

/* In mdtest's form, at the beginning and at the end. */
static void print_time(const char *what)
{
    char text[64];
    struct tm parts;
    time_t seconds = time(NULL);
    localtime_r(&seconds, &parts);
    strftime(text, sizeof(text), "%m/%d/%Y %H:%M:%S", &parts);
    printf("-- %s at %s --\n\n", what, text);
}

/* The folder of -d is often made by mdtest itself; then the file system is that of the folder above it. */
void tb_print_begin(const struct tb_options *o, const struct tb_world *w, const char *command_line, const char *node_map)
{
    const char *start;
    char base[PATH_MAX];
    int length = tb_name_of(o->dir, 0, &start);
    snprintf(base, sizeof(base), "%.*s", length, start);
    print_time("started");
    printf("%s-%s was launched with %d total task(s) on %d node(s)\n", TB_PROGRAM, TB_VERSION, w->tasks, w->nodes);
    printf("Command line used: %s\n", command_line);
    printf("Path                : %s\n", base);
    char *last = strrchr(base, '/');
    struct tb_file_system fs = tb_file_system_of(base);
    if (fs.capacity_gib == 0 && last) { /* not made yet */
        *last = '\0';
        fs = tb_file_system_of(*base ? base : "/");
    }
    tb_print_file_system(stdout, &fs);
    printf("Nodemap: %s\n", node_map);
    fflush(stdout);
}

/* Flushed, so that a run that is killed has told what it began. */
void tb_print_test(const struct tb_options *o, const struct tb_plan *plan, int tasks)
{
    const char *what = o->dirs_only ? "directories" : o->files_only ? "files" : "files/directories";
    if (o->shared_file)
        printf("%d tasks, 1 file\n", tasks);
    else
        printf("%d tasks, %lld %s\n", tasks, (long long)(plan->items * plan->loops * tasks), what);
    if (o->verbose)
        printf("   Operation               Duration              Rate\n"
               "   ---------               --------              ----\n");
    fflush(stdout);
}

/* A phase that was skipped took no time: mdtest prints 0.000 for it. */
static double rate(double seconds, int64_t items)
{
    return items && seconds > 0 ? (double)items / seconds : 0;
}

/* Of rank 0 alone, as mdtest prints it. */
void tb_print_iteration(const struct tb_run *r, int iteration)
{
    const struct tb_result *x = &r->result;
    if (x->stonewalled)
        printf("Continue stonewall hit min: %lld max: %lld avg: %.1f \n\n", (long long)x->stonewall_min, (long long)x->stonewall_max,
               x->stonewall_mean);
    if (!r->options->verbose)
        return;
    printf("V-1: main: * iteration %d *\n", iteration + 1);
    for (enum tb_operation op = 0; op < TB_OPERATIONS; op++)
        if (tb_operation_belongs(r->options, op))
            printf("V-1:   %-18s: %14.3f sec, %14.3f ops/sec\n", names[op], x->seconds[op], rate(x->seconds[op], x->rank_items[op]));
    fflush(stdout);
}

struct statistics {
    double max, min, mean, deviation;
};

/* `mean` is the sum until the caller divides it. */
static void add(struct statistics *s, int *count, double value)
{
    s->max = *count && s->max > value ? s->max : value;
    s->min = *count && s->min < value ? s->min : value;
    s->mean += value;
    ++*count;
}

static double value_of(const struct tb_result *x, enum tb_operation op, bool rates)
{
    return rates ? rate(x->seconds[op], x->items[op]) : x->seconds[op];
}

/* The deviation is the sample's, as mdtest prints it. */
static struct statistics over_iterations(const struct tb_report *report, enum tb_operation op, bool rates)
{
    struct statistics s = {0};
    int count = 0, n = report->options->iterations;
    double squares = 0;
    for (int i = 0; i < n; i++)
        add(&s, &count, value_of(&report->results[i], op, rates));
    s.mean /= n;
    for (int i = 0; i < n; i++)
        squares += pow(value_of(&report->results[i], op, rates) - s.mean, 2);
    s.deviation = n > 1 ? sqrt(squares / (n - 1)) : 0;
    return s;
}

/* Rows of ranks follow each other for each iteration. */
static double of_rank(const struct tb_report *report, int row, enum tb_operation op, bool rates)
{
    int at = row * TB_OPERATIONS + op;
    return rates ? rate(report->rank_seconds[at], report->rank_items[at]) : report->rank_seconds[at];
}

/* Of all ranks in all iterations, without a deviation, as mdtest has it. */
static struct statistics over_ranks(const struct tb_report *report, enum tb_operation op, bool rates)
{
    struct statistics s = {0};
    int count = 0, n = report->options->iterations * report->tasks;
    for (int i = 0; i < n; i++)
        add(&s, &count, of_rank(report, i, op, rates));
    s.mean /= n;
    return s;
}

/* For the two rows of the tree mdtest prints the iterations' numbers in the columns of ranks, too. */
static void print_row(const struct tb_report *report, enum tb_operation op, bool rates)
{
    struct statistics all = over_iterations(report, op, rates), ranks;
    bool tree = op >= TB_TREE_CREATE, with_ranks = report->options->rank_statistics;
    printf("   %-18s %s", names[op], tree || !with_ranks ? "    " : "");
    if (with_ranks) {
        ranks = tree ? all : over_ranks(report, op, rates);
        printf("%14.3f %14.3f %14.3f %s", ranks.max, ranks.min, ranks.mean, tree ? "    " : "        ");
    }
    printf("%14.3f %14.3f %14.3f %14.3f\n", all.max, all.min, all.mean, all.deviation);
}

/* --print-all-procs: of each iteration a row an operation, with a number of each rank. */
static void print_ranks(const struct tb_report *report, bool rates)
{
    printf("\nPer process result (%s):\n", rates ? "rate" : "time");
    for (int i = 0; i < report->options->iterations; i++) {
        printf("iteration: %d\n", i);
        for (enum tb_operation op = 0; op < TB_OPERATIONS; op++) {
            if (!tb_operation_belongs(report->options, op))
                continue;
            printf("Test %s", names[op]);
            for (int k = 0; k < report->tasks; k++)
                printf("%c%e", k ? ',' : ' ', of_rank(report, i * report->tasks + k, op, rates));
            printf("\n");
        }
    }
}

/* A table for rates, for times, or one for each with both options. */
static void print_table(const struct tb_report *report, bool rates)
{
    if (report->options->rank_rows)
        print_ranks(report, rates);
    printf("\nSUMMARY %s: (of %d iterations)\n", rates ? "rate" : "time", report->options->iterations);
    if (report->options->rank_statistics)
        printf("   Operation     per Rank: Max            Min           Mean      per Iteration:"
               " Max            Min           Mean        Std Dev\n"
               "   ---------               ---            ---           ----                     "
               " ---            ---           ----        -------\n");
    else
        printf("   Operation                     Max            Min           Mean        Std Dev\n"
               "   ---------                     ---            ---           ----        -------\n");
    for (enum tb_operation op = 0; op < TB_OPERATIONS; op++)
        if (tb_operation_belongs(report->options, op))
            print_row(report, op, rates);
}

void tb_print_summary(const struct tb_report *report)
{
    const struct tb_options *o = report->options;
    if (!o->time_only || o->rate_and_time)
        print_table(report, true);
    if (o->time_only || o->rate_and_time)
        print_table(report, false);
    fflush(stdout);
}

void tb_print_end(void)
{
    print_time("finished");
}
