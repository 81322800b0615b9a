/* IOR's JSON, written whole at the end, so that it is either valid or not there. */
#include "tb_ior.h"

#include <stdarg.h>

/* Writes the comma between members and remembers whether one is due. */
struct writer {
    FILE *f;
    int depth;
    bool comma;
};

static void next(struct writer *w)
{
    fprintf(w->f, "%s\n%*s", w->comma ? "," : "", w->depth * 2, "");
    w->comma = true;
}

static void quote(struct writer *w, const char *text)
{
    putc('"', w->f);
    for (const unsigned char *c = (const unsigned char *)text; *c; c++) {
        if (*c == '"' || *c == '\\')
            fprintf(w->f, "\\%c", *c);
        else if (*c < 0x20 || *c >= 0x7f) /* names are bytes, not always UTF-8: Latin-1 code points keep them */
            fprintf(w->f, "\\u%04x", *c);
        else
            putc(*c, w->f);
    }
    putc('"', w->f);
}

static void key(struct writer *w, const char *name)
{
    next(w);
    quote(w, name);
    fputs(": ", w->f);
}

static void string(struct writer *w, const char *name, const char *text)
{
    key(w, name);
    quote(w, text);
}

static void whole(struct writer *w, const char *name, int64_t value)
{
    key(w, name);
    fprintf(w->f, "%lld", (long long)value);
}

static void real(struct writer *w, const char *name, double value)
{
    key(w, name);
    fprintf(w->f, "%.4f", value);
}

static __attribute__((format(printf, 3, 4))) void format(struct writer *w, const char *name, const char *form, ...)
{
    char text[256];
    va_list arguments;
    va_start(arguments, form);
    vsnprintf(text, sizeof text, form, arguments);
    va_end(arguments);
    string(w, name, text);
}

static void enter(struct writer *w, const char *name, char bracket)
{
    if (name)
        key(w, name);
    else
        next(w);
    putc(bracket, w->f);
    w->depth++;
    w->comma = false;
}

static void leave(struct writer *w, char bracket)
{
    w->depth--;
    fprintf(w->f, "\n%*s%c", w->depth * 2, "", bracket);
    w->comma = true;
}

static void parameters(struct writer *w, const struct tb_report *r, const struct tb_test *t)
{
    static const char *const letters[] = {"g", "t", "o", "?"}; /* as IOR */
    const struct tb_options *o = t->options;
    enter(w, "Parameters", '{');
    whole(w, "testID", t->id);
    whole(w, "refnum", o->refnum);
    string(w, "api", o->api);
    format(w, "platform", "%s(%s)", r->node, r->system);
    string(w, "testFileName", o->file);
    whole(w, "deadlineForStonewall", o->deadline_s);
    whole(w, "stoneWallingWearOut", o->wear_out);
    whole(w, "maxTimeDuration", o->limit_min);
    whole(w, "outlierThreshold", o->outlier_s);
    string(w, "options", "(null)");
    whole(w, "dryRun", o->dry_run);
    whole(w, "nodes", t->world.nodes);
    whole(w, "memoryPerTask", o->memory_per_task);
    whole(w, "memoryPerNode", o->memory_per_node > 0 ? o->memory_per_node : 0);
    whole(w, "tasksPerNode", t->world.tasks_per_node);
    whole(w, "repetitions", o->repetitions);
    whole(w, "multiFile", o->multi_file);
    whole(w, "interTestDelay", o->delay_s);
    whole(w, "fsync", o->fsync);
    whole(w, "fsyncperwrite", o->fsync_per_write);
    whole(w, "useExistingTestFile", o->use_existing);
    whole(w, "uniqueDir", o->unique_dir);
    whole(w, "singleXferAttempt", o->single_attempt);
    whole(w, "readFile", o->read);
    whole(w, "writeFile", o->write);
    whole(w, "filePerProc", o->file_per_process);
    whole(w, "reorderTasks", o->reorder);
    whole(w, "reorderTasksRandom", o->reorder_random);
    whole(w, "reorderTasksRandomSeed", o->reorder_seed);
    whole(w, "randomOffset", o->random_offset);
    whole(w, "checkWrite", o->check_write);
    whole(w, "checkRead", o->check_read);
    whole(w, "dataPacketType", o->packet);
    whole(w, "keepFile", o->keep);
    whole(w, "keepFileWithError", o->keep_with_error);
    whole(w, "warningAsErrors", 0);
    whole(w, "verbose", o->verbose);
    string(w, "data packet type", letters[o->packet]);
    whole(w, "setTimeStampSignature/incompressibleSeed", o->signature);
    whole(w, "collective", o->collective);
    whole(w, "segmentCount", o->segments);
    whole(w, "transferSize", o->transfer);
    whole(w, "blockSize", o->block);
    leave(w, '}');
}

static void human(struct writer *w, const char *name, int64_t bytes)
{
    char text[64];
    tb_human_size(text, sizeof text, bytes);
    string(w, name, text);
}

static void options(struct writer *w, const struct tb_test *t)
{
    const struct tb_options *o = t->options;
    enter(w, "Options", '{');
    string(w, "api", o->api);
    string(w, "apiVersion", o->backend->version());
    string(w, "test filename", o->file);
    string(w, "access", o->file_per_process ? "file-per-process" : "single-shared-file");
    string(w, "type", o->collective ? "collective" : "independent");
    whole(w, "segments", o->segments);
    string(w, "ordering in a file", o->random_offset ? "random" : "sequential");
    string(w, "ordering inter file", o->reorder_random ? "random task offset" : o->reorder ? "constant task offset" : "no tasks offsets");
    if (o->reorder || o->reorder_random)
        whole(w, "task offset", o->task_offset);
    if (o->reorder_random)
        whole(w, "reorder random seed", o->reorder_seed);
    whole(w, "nodes", t->world.nodes);
    whole(w, "tasks", t->world.tasks);
    whole(w, "clients per node", t->world.tasks_per_node);
    if (o->memory_per_task)
        human(w, "memoryPerTask", o->memory_per_task);
    if (o->memory_per_node > 0)
        human(w, "memoryPerNode", o->memory_per_node);
    whole(w, "repetitions", o->repetitions);
    human(w, "xfersize", o->transfer);
    human(w, "blocksize", o->block);
    human(w, "aggregate filesize", tb_aggregate(o, &t->world));
    if (o->verbose)
        whole(w, "verbose", o->verbose);
    if (o->deadline_s) {
        whole(w, "stonewallingTime", o->deadline_s);
        whole(w, "stoneWallingWearOut", o->wear_out);
    }
    leave(w, '}');
}

static void one_result(struct writer *w, const struct tb_test *t, const struct tb_result *x)
{
    enter(w, NULL, '{');
    string(w, "access", x->removal ? "remove" : x->write ? "write" : "read");
    if (x->removal) {
        real(w, "totalTime", x->total_s);
        leave(w, '}');
        return;
    }
    real(w, "bwMiB", x->bandwidth_mib);
    real(w, "blockKiB", (double)t->options->block / 1024);
    real(w, "xferKiB", (double)t->options->transfer / 1024);
    real(w, "iops", x->iops);
    real(w, "latency", x->latency_s);
    real(w, "openTime", x->open_s);
    real(w, "wrRdTime", x->transfer_s);
    real(w, "closeTime", x->close_s);
    real(w, "totalTime", x->total_s);
    leave(w, '}');
}

static void maxima(struct writer *w, const struct tb_test *t)
{
    enter(w, "max", '{');
    for (int write = 1; write >= 0; write--) {
        struct tb_statistics s = tb_summarize(t, write);
        if (!s.count)
            continue;
        real(w, write ? "writeMiB" : "readMiB", s.max);
        real(w, write ? "writeMB" : "readMB", s.max * TB_MIB / 1e6);
    }
    leave(w, '}');
}

static void one_test(struct writer *w, const struct tb_report *r, const struct tb_test *t)
{
    enter(w, NULL, '{');
    whole(w, "TestID", t->id);
    string(w, "StartTime", t->began);
    string(w, "Path", t->path);
    format(w, "Capacity", "%.1f GiB", t->fs.capacity_gib);
    format(w, "Used Capacity", "%.1f%%", t->fs.used_percent);
    format(w, "Inodes", "%.1f Mi", t->fs.inodes_mi);
    format(w, "Used Inodes", "%.1f%%", t->fs.used_inodes_percent);
    parameters(w, r, t);
    options(w, t);
    enter(w, "Results", '[');
    for (size_t i = 0; i < t->count; i++)
        one_result(w, t, &t->results[i]);
    leave(w, ']');
    if (t->options->verbose)
        maxima(w, t);
    leave(w, '}');
}

static void statistics(struct writer *w, const struct tb_options *o, const struct tb_statistics *s)
{
    real(w, "bwMaxMIB", s->max);
    real(w, "bwMinMIB", s->min);
    real(w, "bwMeanMIB", s->mean);
    real(w, "bwStdMIB", s->deviation);
    real(w, "OPsMax", s->ops_max);
    real(w, "OPsMin", s->ops_min);
    real(w, "OPsMean", s->ops_mean);
    real(w, "OPsSD", s->ops_deviation);
    real(w, "MeanTime", s->time_s);
    if (o->wear_out) {
        real(w, "StoneWallTime", s->stonewall_s);
        real(w, "StoneWallbwMeanMIB", s->stonewall_mib);
    }
    real(w, "xsizeMiB", s->moved_mib);
}

static void summary(struct writer *w, const struct tb_test *t, bool write)
{
    const struct tb_options *o = t->options;
    struct tb_statistics s = tb_summarize(t, write);
    if (!s.count)
        return;
    enter(w, NULL, '{');
    string(w, "operation", write ? "write" : "read");
    string(w, "API", o->api);
    whole(w, "TestID", t->id);
    whole(w, "ReferenceNumber", o->refnum);
    whole(w, "segmentCount", o->segments);
    whole(w, "blockSize", o->block);
    whole(w, "transferSize", o->transfer);
    whole(w, "numTasks", t->world.tasks);
    whole(w, "tasksPerNode", t->world.tasks_per_node);
    whole(w, "repetitions", o->repetitions);
    whole(w, "filePerProc", o->file_per_process);
    whole(w, "reorderTasks", o->reorder);
    whole(w, "taskPerNodeOffset", o->task_offset);
    whole(w, "reorderTasksRandom", o->reorder_random);
    whole(w, "reorderTasksRandomSeed", o->reorder_seed);
    statistics(w, o, &s);
    leave(w, '}');
}

static void end(struct tb_report *r)
{
    struct writer w = {r->out, 1, false};
    char finished[32];
    tb_now(finished);
    putc('{', r->out);
    string(&w, "Version", TB_PROGRAM "-" TB_VERSION);
    string(&w, "Began", r->began);
    string(&w, "Command line", r->command_line);
    string(&w, "Machine", r->machine);
    enter(&w, "tests", '[');
    for (size_t i = 0; i < r->count; i++)
        one_test(&w, r, &r->tests[i]);
    leave(&w, ']');
    enter(&w, "summary", '[');
    for (size_t i = 0; i < r->count; i++) {
        summary(&w, &r->tests[i], true);
        summary(&w, &r->tests[i], false);
    }
    leave(&w, ']');
    string(&w, "Finished", finished);
    fputs("\n}\n", r->out);
}

static void begin(struct tb_report *r)
{
    (void)r;
}

static void test(struct tb_report *r, const struct tb_test *t, uint32_t signature)
{
    (void)r;
    (void)t;
    (void)signature;
}

static void phase(struct tb_report *r, const struct tb_test *t, enum tb_pass pass)
{
    (void)r;
    (void)t;
    (void)pass;
}

static void result(struct tb_report *r, const struct tb_test *t, const struct tb_result *x)
{
    (void)r;
    (void)t;
    (void)x;
}

static void removed(struct tb_report *r, const struct tb_test *t, double seconds, int repetition)
{
    (void)r;
    (void)t;
    (void)seconds;
    (void)repetition;
}

static void test_end(struct tb_report *r, const struct tb_test *t)
{
    (void)r;
    (void)t;
}

const struct tb_output tb_json = {"JSON", true, begin, test, phase, result, removed, test_end, end};
