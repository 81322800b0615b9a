/*
 * IOR's text: header, options, a row for each operation and repetition, and the summary.
 * Widths, words and their order are those that IOR's parsers expect; our own program name
 * comes after that.
 */
#include "tb_ior.h"

#include <string.h>

/* Before the first test, so a run that hangs has said what it is. */
static void begin(struct tb_report *r)
{
    FILE *f = r->out;
    /* Parsers look for a first line that begins with IOR; what follows says which program it is. */
    fprintf(f, "IOR-compatible %s-%s: MPI Coordinated Test of Parallel I/O\n", TB_PROGRAM, TB_VERSION);
    fprintf(f, "Began               : %s\n", r->began);
    fprintf(f, "Command line        : %s\n", r->command_line);
    fprintf(f, "Machine             : %s\n", r->machine);
}

/* The lines and their order are IOR's, since scripts read them. */
static void test_header(FILE *f, const struct tb_test *t)
{
    fprintf(f, "TestID              : %d\n", t->id);
    fprintf(f, "StartTime           : %s\n", t->began);
    fprintf(f, "Path                : %s\n", t->path);
    tb_print_file_system(f, &t->fs);
    if (t->options->verbose)
        fprintf(f, "Participating tasks : %d\n", t->world.tasks);
    if (t->options->verbose && t->options->reorder)
        fprintf(f, "Using reorderTasks '-C' (useful to avoid read cache in client)\n");
}

/* The same rows as JSON's, from one table (fields.c). */
static void test_options(FILE *f, const struct tb_test *t)
{
    fprintf(f, "\nOptions: \n");
    for (const struct tb_field *field = tb_option_fields; field->name; field++) {
        if (field->when && !field->when(t->options))
            continue;
        struct tb_value v = tb_field_value(field, t);
        if (v.is_text)
            fprintf(f, "%-20s: %s\n", field->name, v.text ? v.text : v.room);
        else
            fprintf(f, "%-20s: %lld\n", field->name, (long long)v.number);
    }
}

/* A later check of the data needs the signature (-G); IOR shows it from -vv on. */
static void test(struct tb_report *r, const struct tb_test *t, uint32_t signature)
{
    test_header(r->out, t);
    test_options(r->out, t);
    fprintf(r->out, "\nResults: \n");
    if (t->options->verbose >= 2)
        fprintf(r->out, "Using Time Stamp %u (0x%x) for Data Signature\n", signature, signature);
    fprintf(r->out, "\naccess    bw(MiB/s)  IOPS       Latency(s)  block(KiB) xfer(KiB)  open(s)    wr/rd(s)   close(s)   "
                    "total(s)   iter\n"
                    "------    ---------  ----       ----------  ---------- ---------  --------   --------   --------   "
                    "--------   ----\n");
    fflush(r->out);
}

/* Only with -v: IOR says then what it is about to do. */
static void phase(struct tb_report *r, const struct tb_test *t, enum tb_pass pass)
{
    char time[32];
    if (!t->options->verbose)
        return;
    tb_now(time);
    if (pass == TB_CHECK) {
        fprintf(r->out, "Verifying contents of the file(s) just written.\n%s\n\n", time);
        return;
    }
    if (t->options->delay_s)
        fprintf(r->out, "delaying %d seconds . . .\n", t->options->delay_s);
    bool write = pass == TB_WRITE;
    fprintf(r->out, "Commencing %s performance test: %s\n%s", write ? "write" : "read", time, write ? "" : "\n");
}

/* Few enough digits for the column: six decimals below one, two below 3600, none above. */
static void cell(FILE *f, double value, int width)
{
    char text[64];
    snprintf(text, sizeof(text), "%.*f", value < 1 ? 6 : value < 3600 ? 2 : 0, value);
    fprintf(f, "%-*s ", width, text);
}

/* A line for each rank with -v, then the extremes. */
static void stonewall_line(struct tb_report *r, const struct tb_test *t, const struct tb_result *x)
{
    double unit = (double)t->options->transfer / (1024 * TB_MIB);
    if (!t->options->wear_out)
        return;
    for (int i = 0; t->options->verbose && i < t->world.tasks; i++)
        fprintf(r->out, "%d: stonewalling pairs accessed: %lld\n", i, (long long)x->pairs[i]);
    fprintf(r->out,
            "stonewalling pairs accessed min: %lld max: %lld -- min data: %.1f GiB mean data: %.1f GiB "
            "time: %.1fs\n",
            (long long)x->pairs_min, (long long)x->pairs_max, (double)x->pairs_min * unit, x->stonewall_mib * x->stonewall_s / 1024,
            x->stonewall_s);
}

/* IOR's units: MiB/s, operations a second, seconds, and KiB for block and transfer. */
static void result(struct tb_report *r, const struct tb_test *t, const struct tb_result *x)
{
    FILE *f = r->out;
    stonewall_line(r, t, x);
    fprintf(f, "%-10s", x->write ? "write" : "read");
    cell(f, x->bandwidth_mib, 10);
    cell(f, x->iops, 10);
    cell(f, x->latency_s, 11);
    cell(f, (double)t->options->block / 1024, 10);
    cell(f, (double)t->options->transfer / 1024, 10);
    cell(f, x->open_s, 10);
    cell(f, x->transfer_s, 10);
    cell(f, x->close_s, 10);
    cell(f, x->total_s, 10);
    fprintf(f, "%-4d\n", x->repetition);
}

/* A removal has no bytes, so its row has dashes. */
static void removed(struct tb_report *r, const struct tb_test *t, double seconds, int repetition)
{
    (void)t;
    fprintf(r->out, "remove    -          -          -           -          -          -          -          -          ");
    cell(r->out, seconds, 10);
    fprintf(r->out, "%-4d\n", repetition);
}

/* In both units, as IOR. */
static void print_max(struct tb_report *r, const struct tb_test *t, bool write)
{
    struct tb_statistics s = tb_summarize(t, write);
    if (s.count && t->options->verbose)
        fprintf(r->out, "Max %s %.2f MiB/sec (%.2f MB/sec)\n", write ? "Write:" : "Read: ", s.max, s.max * TB_MIB / 1e6);
}

/* Of the last write: a later read uses its counts. Where a status file keeps them, IOR doesn't print them. */
static void test_end(struct tb_report *r, const struct tb_test *t)
{
    int64_t pairs = 0;
    print_max(r, t, true);
    print_max(r, t, false);
    for (size_t i = 0; i < t->count; i++)
        if (t->results[i].write)
            pairs = t->results[i].pairs_max;
    if (t->options->wear_out && pairs && !t->options->status_file)
        fprintf(r->out, "Pairs deadlineForStonewallingaccessed: %lld\n", (long long)pairs);
}

/* NA where no stonewall was asked for: zeros would be read as numbers. */
static void print_row(FILE *f, const struct tb_test *t, bool write)
{
    const struct tb_options *o = t->options;
    struct tb_statistics s = tb_summarize(t, write);
    if (!s.count)
        return;
    fprintf(f, "%-9s %10.2f %10.2f %10.2f %10.2f %10.2f %10.2f %10.2f %10.2f %10.5f", write ? "write" : "read", s.max, s.min, s.mean,
            s.deviation, s.ops_max, s.ops_min, s.ops_mean, s.ops_deviation, s.time_s);
    if (o->wear_out)
        fprintf(f, " %10.2f %13.2f", s.stonewall_s, s.stonewall_mib);
    else
        fprintf(f, " %10s %13s", "NA", "NA");
    fprintf(f, " %5d %6d %3d %4d %3d %5d %8d %9d %4d %6lld %8lld %8lld %9.1f %s %6d\n", t->id, t->world.tasks, t->world.tasks_per_node,
            o->repetitions, o->file_per_process, o->reorder, o->task_offset, o->reorder_random, o->reorder_seed, (long long)o->segments,
            (long long)o->block, (long long)o->transfer, s.moved_mib, o->api, o->refnum);
}

/* One row for each operation of each test, all together after the last test, as in IOR. */
static void end(struct tb_report *r)
{
    char time[32];
    fprintf(r->out, "\nSummary of all tests:\n"
                    "Operation   Max(MiB)   Min(MiB)  Mean(MiB)     StdDev   Max(OPs)   Min(OPs)  Mean(OPs)     StdDev"
                    "    Mean(s) Stonewall(s) Stonewall(MiB) Test# #Tasks tPN reps fPP reord reordoff reordrand seed segcnt"
                    "   blksiz    xsize aggs(MiB)   API RefNum\n");
    for (size_t i = 0; i < r->count; i++) {
        print_row(r->out, &r->tests[i], true);
        print_row(r->out, &r->tests[i], false);
    }
    tb_now(time);
    fprintf(r->out, "Finished            : %s\n", time);
}

const struct tb_output tb_text = {"default", false, begin, test, phase, result, removed, test_end, end};
