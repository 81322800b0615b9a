/*
 * What a report says of a test, by name: one row a field, which all formats print in their own way. A row reads an
 * option, another fact of the test, or a text that is made for it.
 */
#include "tb_ior.h"

#include <stddef.h>

#define KIND(x) _Generic((x), bool: TB_IS_BOOL, int: TB_IS_INT, unsigned: TB_IS_INT, int64_t: TB_IS_LONG, const char *: TB_IS_TEXT)
#define OPTION(name_, field) .name = name_, .kind = KIND(((struct tb_options *)NULL)->field), .offset = offsetof(struct tb_options, field)
#define FACT(name_, field) \
    .name = name_, .of_test = true, .kind = KIND(((struct tb_test *)NULL)->field), .offset = offsetof(struct tb_test, field)
#define SIZE(name_, field) .name = name_, .kind = TB_IS_SIZE, .offset = offsetof(struct tb_options, field)
#define MADE(name_, maker) .name = name_, .kind = TB_IS_MADE, .make = maker

/* Makers: texts that no option holds as it is printed. */
/* The backend knows the version of the library that it uses. */
static void api_version(const struct tb_test *t, char *out, size_t size)
{
    snprintf(out, size, "%s", t->options->backend->version());
}

/* Both words are IOR's, since scripts look for them. */
static void access_of(const struct tb_test *t, char *out, size_t size)
{
    snprintf(out, size, "%s", t->options->file_per_process ? "file-per-process" : "single-shared-file");
}

static void type_of(const struct tb_test *t, char *out, size_t size)
{
    snprintf(out, size, "%s", t->options->collective ? "collective" : "independent");
}

static void order_in_file(const struct tb_test *t, char *out, size_t size)
{
    snprintf(out, size, "%s", t->options->random_offset ? "random" : "sequential");
}

/* At most one of them is set (rules.c). */
static void order_of_files(const struct tb_test *t, char *out, size_t size)
{
    const struct tb_options *o = t->options;
    snprintf(out, size, "%s", o->reorder_random ? "random task offset" : o->reorder ? "constant task offset" : "no tasks offsets");
}

/* Of all ranks and segments, in the words that IOR has for sizes. */
static void aggregate(const struct tb_test *t, char *out, size_t size)
{
    tb_human_size(out, size, tb_aggregate(t->options, &t->world));
}

static void packet(const struct tb_test *t, char *out, size_t size)
{
    static const char *const letters[] = {"g", "t", "o", "?"}; /* as IOR */
    snprintf(out, size, "%s", letters[t->options->packet]);
}

/* From here on: conditions under which IOR prints a row at all. */
static bool has_offset(const struct tb_options *o)
{
    return o->reorder || o->reorder_random;
}

static bool is_random(const struct tb_options *o)
{
    return o->reorder_random;
}

static bool has_memory(const struct tb_options *o)
{
    return o->memory_per_node > 0;
}

static bool has_task_memory(const struct tb_options *o)
{
    return o->memory_per_task;
}

static bool is_dry(const struct tb_options *o)
{
    return o->dry_run;
}

static bool is_verbose(const struct tb_options *o)
{
    return o->verbose;
}

/* Without a deadline there is nothing to wear out, so neither row is printed. */
static bool has_deadline(const struct tb_options *o)
{
    return o->deadline_s;
}

/* IOR's names in IOR's order: programs that read its reports look for them. */
const struct tb_field tb_option_fields[] = {
    {OPTION("api", api)},
    {MADE("apiVersion", api_version)},
    {OPTION("test filename", file)},
    {MADE("access", access_of)},
    {MADE("type", type_of)},
    {OPTION("segments", segments)},
    {MADE("ordering in a file", order_in_file)},
    {MADE("ordering inter file", order_of_files)},
    {OPTION("task offset", task_offset), .when = has_offset},
    {OPTION("reorder random seed", reorder_seed), .when = is_random},
    {FACT("nodes", world.nodes)},
    {FACT("tasks", world.tasks)},
    {FACT("clients per node", world.tasks_per_node)},
    {SIZE("memoryPerTask", memory_per_task), .when = has_task_memory},
    {SIZE("memoryPerNode", memory_per_node), .when = has_memory},
    {OPTION("repetitions", repetitions)},
    {SIZE("xfersize", transfer)},
    {SIZE("blocksize", block)},
    {MADE("aggregate filesize", aggregate)},
    {.name = "dryRun", .text_only = true, .kind = TB_IS_BOOL, .offset = offsetof(struct tb_options, dry_run), .when = is_dry},
    {OPTION("verbose", verbose), .when = is_verbose},
    {OPTION("stonewallingTime", deadline_s), .when = has_deadline},
    {OPTION("stoneWallingWearOut", wear_out), .when = has_deadline},
    {0},
};

/* JSON alone has these. */
const struct tb_field tb_parameters[] = {
    {FACT("testID", id)},
    {OPTION("refnum", refnum)},
    {OPTION("api", api)},
    {FACT("platform", platform)},
    {OPTION("testFileName", file)},
    {OPTION("deadlineForStonewall", deadline_s)},
    {OPTION("stoneWallingWearOut", wear_out)},
    {OPTION("maxTimeDuration", limit_min)},
    {OPTION("outlierThreshold", outlier_s)},
    {.name = "options", .kind = TB_IS_NULL},
    {OPTION("dryRun", dry_run)},
    {FACT("nodes", world.nodes)},
    {OPTION("memoryPerTask", memory_per_task)},
    {OPTION("memoryPerNode", memory_per_node)},
    {FACT("tasksPerNode", world.tasks_per_node)},
    {OPTION("repetitions", repetitions)},
    {OPTION("multiFile", multi_file)},
    {OPTION("interTestDelay", delay_s)},
    {OPTION("fsync", fsync)},
    {OPTION("fsyncperwrite", fsync_per_write)},
    {OPTION("useExistingTestFile", use_existing)},
    {OPTION("uniqueDir", unique_dir)},
    {OPTION("singleXferAttempt", single_attempt)},
    {OPTION("readFile", read)},
    {OPTION("writeFile", write)},
    {OPTION("filePerProc", file_per_process)},
    {OPTION("reorderTasks", reorder)},
    {OPTION("reorderTasksRandom", reorder_random)},
    {OPTION("reorderTasksRandomSeed", reorder_seed)},
    {OPTION("randomOffset", random_offset)},
    {OPTION("checkWrite", check_write)},
    {OPTION("checkRead", check_read)},
    {OPTION("dataPacketType", packet)},
    {OPTION("keepFile", keep)},
    {OPTION("keepFileWithError", keep_with_error)},
    {.name = "warningAsErrors", .kind = TB_IS_0},
    {OPTION("verbose", verbose)},
    {MADE("data packet type", packet)},
    {OPTION("setTimeStampSignature/incompressibleSeed", signature)},
    {OPTION("collective", collective)},
    {OPTION("segmentCount", segments)},
    {OPTION("transferSize", transfer)},
    {OPTION("blockSize", block)},
    {0},
};

/* Of each operation in the summary, before its measured numbers. */
const struct tb_field tb_summary_fields[] = {
    {OPTION("API", api)},
    {FACT("TestID", id)},
    {OPTION("ReferenceNumber", refnum)},
    {OPTION("segmentCount", segments)},
    {OPTION("blockSize", block)},
    {OPTION("transferSize", transfer)},
    {FACT("numTasks", world.tasks)},
    {FACT("tasksPerNode", world.tasks_per_node)},
    {OPTION("repetitions", repetitions)},
    {OPTION("filePerProc", file_per_process)},
    {OPTION("reorderTasks", reorder)},
    {OPTION("taskPerNodeOffset", task_offset)},
    {OPTION("reorderTasksRandom", reorder_random)},
    {OPTION("reorderTasksRandomSeed", reorder_seed)},
    {0},
};

/* Widths differ by kind; everything is shown as a whole number. */
static int64_t number_of(enum tb_field_kind kind, const char *at)
{
    if (kind == TB_IS_BOOL)
        return *(const bool *)at;
    if (kind == TB_IS_INT)
        return *(const int *)(const void *)at;
    return *(const int64_t *)(const void *)at;
}

/* A text, made or stored, or a number: the formats need no more. */
struct tb_value tb_field_value(const struct tb_field *f, const struct tb_test *t)
{
    struct tb_value v = {.is_text = f->kind == TB_IS_TEXT || f->kind == TB_IS_SIZE || f->kind == TB_IS_MADE || f->kind == TB_IS_NULL};
    const char *at = (f->of_test ? (const char *)t : (const char *)t->options) + f->offset;
    if (f->kind == TB_IS_TEXT)
        v.text = *(const char *const *)(const void *)at;
    else if (f->kind == TB_IS_NULL)
        v.text = "(null)"; /* as IOR */
    else if (f->kind == TB_IS_MADE)
        f->make(t, v.room, sizeof(v.room));
    else if (f->kind == TB_IS_SIZE)
        tb_human_size(v.room, sizeof(v.room), number_of(f->kind, at));
    else if (f->kind != TB_IS_0)
        v.number = number_of(f->kind, at);
    return v;
}
