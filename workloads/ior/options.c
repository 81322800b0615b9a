/*
 * IOR's options as a table: letters, long names and the directives of -O and of scripts. Every rank parses the same
 * words, so all agree without talking; nothing is touched before the whole line is known to be right.
 */
#include "tb_ior.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#define AT(field) offsetof(struct tb_options, field)

/* The name is kept as it was given: reports print it so. */
static bool take_backend(void *options, const char *option, const char *value, struct tb_complaint *c)
{
    const struct tb_backend *known[] = {&tb_posix, &tb_mpiio, &tb_hdf5, &tb_mmap, &tb_dummy};
    for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++)
        if (!strcasecmp(value, known[i]->name)) {
            ((struct tb_options *)options)->backend = known[i];
            ((struct tb_options *)options)->api = value;
            return true;
        }
    return tb_wrong(c, option, value, "POSIX, MPIIO, HDF5, MMAP or DUMMY");
}

/* The order of the three is that of the message. */
static bool take_format(void *options, const char *option, const char *value, struct tb_complaint *c)
{
    const struct tb_output *known[] = {&tb_text, &tb_csv, &tb_json};
    for (size_t i = 0; i < 3; i++)
        if (!strcasecmp(value, known[i]->name)) {
            ((struct tb_options *)options)->output = known[i];
            return true;
        }
    return tb_wrong(c, option, value, "default, CSV or JSON");
}

/* IOR and mdtest have the same packets, so the words are read in one place. */
static bool take_packet(void *options, const char *option, const char *value, struct tb_complaint *c)
{
    return tb_take_packet(&((struct tb_options *)options)->packet, option, value, c);
}

/* NAME=VALUE pairs, each of which is set as if it had been an option of its own. */
static bool take_directives(void *options, const char *option, const char *value, struct tb_complaint *c)
{
    char *rest = (char *)value; /* a word of argv, which is ours to cut */
    while (rest && *rest) {
        char *word = strsep(&rest, ","), *equals = strchr(word, '=');
        if (!equals)
            return tb_wrong(c, option, word, "NAME=VALUE");
        *equals = '\0';
        if (!tb_ior_directive(options, word, equals + 1, c))
            return false;
    }
    return true;
}

#define MOST_MEMORY ((int64_t)1 << 50) /* sums of it don't overflow */

/* A share of what the node has, or bytes. At most 95 %: a node without any memory left would not measure but swap. */
static bool take_memory(void *options, const char *option, const char *value, struct tb_complaint *c)
{
    static const struct tb_option size[] = {{0, "memoryPerNode", TB_SIZE, AT(memory_per_node), 0, MOST_MEMORY, NULL, NULL}, {0}};
    char *end;
    long percent = strtol(value, &end, 10);
    if (end == value || strcmp(end, "%"))
        return tb_directive(size, options, "memoryPerNode", value, c);
    if (percent < 0 || percent > 95)
        return tb_wrong(c, option, value, "0% to 95%");
    ((struct tb_options *)options)->memory_per_node = sysconf(_SC_PHYS_PAGES) / 100 * percent * sysconf(_SC_PAGESIZE);
    return true;
}

/*
 * Letter, long name, kind, field, least and most value, function, help. A row without help is
 * another spelling of one above, or has no effect.
 */
static const struct tb_option table[] = {
    {'a', "api", TB_TAKE, 0, 0, 0, take_backend, "POSIX, MPIIO, HDF5, MMAP or DUMMY (moves nothing)"},
    {'w', "writeFile", TB_FLAG, AT(write), 0, 0, NULL, "write (without -w, -r, -W, -R: write and read)"},
    {'r', "readFile", TB_FLAG, AT(read), 0, 0, NULL, "read"},
    {'W', "checkWrite", TB_FLAG, AT(check_write), 0, 0, NULL, "read back and check what was written, untimed"},
    {'R', "checkRead", TB_FLAG, AT(check_read), 0, 0, NULL, "read and check"},
    {'o', "testFile", TB_TEXT, AT(file), 0, 0, NULL, "the file; FILE1@FILE2: with -F ranks take turns on them"},
    {'F', "filePerProc", TB_FLAG, AT(file_per_process), 0, 0, NULL, "a file for each rank"},
    {'b', "blockSize", TB_SIZE, AT(block), 1, INT64_MAX, NULL, "bytes a rank has in a segment"},
    {'t', "transferSize", TB_SIZE, AT(transfer), 8, INT64_MAX, NULL, "bytes of one call"},
    {'s', "segmentCount", TB_SIZE, AT(segments), 1, INT32_MAX, NULL, "segments"},
    {'i', "repetitions", TB_INT, AT(repetitions), 1, 1000000, NULL, "repetitions"},
    {'d', "interTestDelay", TB_INT, AT(delay_s), 0, INT_MAX, NULL, "seconds before each phase"},
    {'T', "maxTimeDuration", TB_INT, AT(limit_min), 0, INT_MAX, NULL, "minutes after which no repetition begins"},
    {'c', "collective", TB_FLAG, AT(collective), 0, 0, NULL, "collective calls (MPIIO, HDF5)"},
    {'C', "reorderTasks", TB_FLAG, AT(reorder), 0, 0, NULL, "read the next node's data"},
    {'\0', "reorderTasksConstant", TB_FLAG, AT(reorder), 0, 0, NULL, NULL},
    {'Q', "taskPerNodeOffset", TB_INT, AT(task_offset), 0, INT_MAX, NULL, "nodes to go on with -C"},
    {'Z', "reorderTasksRandom", TB_FLAG, AT(reorder_random), 0, 0, NULL, "read a random rank's data"},
    {'X', "reorderTasksRandomSeed", TB_INT, AT(reorder_seed), INT_MIN, INT_MAX, NULL,
     "seed of -Z; negative: another one in each repetition"},
    {'z', "randomOffset", TB_FLAG, AT(random_offset), 0, 0, NULL, "every offset once, in random order"},
    {'\0', "random-offset-seed", TB_INT, AT(offset_seed), -1, INT_MAX, NULL, "seed of -z"},
    {'\0', "randomPrefill", TB_SIZE, AT(prefill), 0, INT64_MAX, NULL, "with -z: fill the file first, by such transfers"},
    {'e', "fsync", TB_FLAG, AT(fsync), 0, 0, NULL, "sync before the close"},
    {'Y', "fsyncPerWrite", TB_FLAG, AT(fsync_per_write), 0, 0, NULL, "sync after every write"},
    {'g', "intraTestBarriers", TB_FLAG, AT(intra_barriers), 0, 0, NULL, "barriers between open, transfer and close"},
    {'D', "deadlineForStonewalling", TB_INT, AT(deadline_s), 0, INT_MAX, NULL, "seconds after which transfers stop"},
    {'\0', "minTimeDuration", TB_INT, AT(least_s), 0, INT_MAX, NULL,
     "-O: seconds a pass takes at least, beginning again at the first transfer"},
    {'\0', "stoneWallingWearOut", TB_FLAG, AT(wear_out), 0, 0, NULL, "-O: then all ranks reach the fastest's count"},
    {'\0', "stoneWallingWearOutIterations", TB_SIZE, AT(wear_out_transfers), 0, INT64_MAX, NULL, "-O: transfers of a rank at most"},
    {'\0', "stoneWallingStatusFile", TB_TEXT, AT(status_file), 0, 0, NULL, "-O: keeps the counts for a later read"},
    {'k', "keepFile", TB_FLAG, AT(keep), 0, 0, NULL, "keep the files"},
    {'K', "keepFileWithError", TB_FLAG, AT(keep_with_error), 0, 0, NULL, "keep them when the check found wrong data"},
    {'E', "useExistingTestFile", TB_FLAG, AT(use_existing), 0, 0, NULL, "write into the files that exist"},
    {'m', "multiFile", TB_FLAG, AT(multi_file), 0, 0, NULL, "a file for each repetition"},
    {'u', "uniqueDir", TB_FLAG, AT(unique_dir), 0, 0, NULL, "a directory for each rank"},
    {'x', "singleXferAttempt", TB_FLAG, AT(single_attempt), 0, 0, NULL, "don't continue a partial transfer"},
    {'q', "quitOnError", TB_FLAG, AT(quit_on_error), 0, 0, NULL, "end at the first wrong data"},
    {'G', "setTimeStampSignature", TB_SIZE, AT(signature), INT64_MIN, INT64_MAX, NULL, "signature of the data; 0: the time"},
    {'l', "dataPacketType", TB_TAKE, 0, 0, 0, take_packet, "timestamp, offset, incompressible or random"},
    {'v', "verbose", TB_COUNT, AT(verbose), 0, 0, NULL, "more output"},
    {'N', "numTasks", TB_INT, AT(tasks), -1, INT_MAX, NULL, "ranks to test with; -1: all"},
    {'A', "refNum", TB_INT, AT(refnum), INT_MIN, INT_MAX, NULL, "a number to print in the summary"},
    {'M', "memoryPerNode", TB_TAKE, 0, 0, 0, take_memory, "memory to occupy on each node: 2g, 75%"},
    {'\0', "memoryPerTask", TB_SIZE, AT(memory_per_task), 0, MOST_MEMORY, NULL, "-O: memory to occupy in each rank"},
    {'f', "scriptFile", TB_TEXT, AT(script), 0, 0, NULL, "read tests from a script"},
    {'O', NULL, TB_TAKE, 0, 0, 0, take_directives, "NAME=VALUE,...: any option by its long name"},
    {'\0', "summaryFormat", TB_TAKE, 0, 0, 0, take_format, "-O: default, CSV or JSON"},
    {'\0', "summaryFile", TB_TEXT, AT(summary_file), 0, 0, NULL, "-O: where the report goes"},
    {'\0', "saveRankPerformanceDetailsCSV", TB_TEXT, AT(rank_file), 0, 0, NULL, "-O: CSV file of each rank's rates"},
    {'\0', "posix.odirect", TB_FLAG, AT(direct), 0, 0, NULL, "open with O_DIRECT"},
    {'B', "useO_DIRECT", TB_FLAG, AT(direct), 0, 0, NULL, "the same"},
    {'\0', "posix.rangelocks", TB_FLAG, AT(range_locks), 0, 0, NULL, "lock the range of each transfer"},
    {'y', "dualMount", TB_FLAG, AT(dual_mount), 0, 0, NULL, "with -F: nodes take turns on the mounts FILE0 and FILE1"},
    {'\0', "mpiio.useFileView", TB_FLAG, AT(file_view), 0, 0, NULL, "address the file through a view"},
    {'\0', "useFileView", TB_FLAG, AT(file_view), 0, 0, NULL, NULL},
    {'\0', "mpiio.preallocate", TB_FLAG, AT(preallocate), 0, 0, NULL, "preallocate the file"},
    {'p', "preallocate", TB_FLAG, AT(preallocate), 0, 0, NULL, "the same"},
    {'\0', "mpiio.hintsFileName", TB_TEXT, AT(hints_file), 0, 0, NULL, "file of MPI-IO hints, one name=value a line"},
    {'\0', "hdf5.hintsFileName", TB_TEXT, AT(hints_file), 0, 0, NULL, NULL},
    {'\0', "hintsFileName", TB_TEXT, AT(hints_file), 0, 0, NULL, NULL},
    {'\0', "hdf5.setAlignment", TB_SIZE, AT(alignment), 1, INT64_MAX, NULL, "HDF5: alignment of the data"},
    {'J', "setAlignment", TB_SIZE, AT(alignment), 1, INT64_MAX, NULL, "the same"},
    {'\0', "hdf5.noFill", TB_FLAG, AT(no_fill), 0, 0, NULL, "HDF5: never write fill values"},
    {'n', "noFill", TB_FLAG, AT(no_fill), 0, 0, NULL, "the same"},
    {'\0', "mmap.madv_dont_need", TB_FLAG, AT(advise_drop), 0, 0, NULL, "MMAP: advise that the pages aren't needed"},
    {'\0', "mmap.madv_pattern", TB_FLAG, AT(advise_pattern), 0, 0, NULL, "MMAP: advise of the access pattern"},
    {'\0', "dummy.delay-create", TB_INT, AT(dummy.create_us), 0, INT_MAX, NULL, "DUMMY: microseconds of the open to write"},
    {'\0', "dummy.delay-xfer", TB_INT, AT(dummy.transfer_us), 0, INT_MAX, NULL, "DUMMY: of a transfer"},
    {'\0', "dummy.delay-close", TB_INT, AT(dummy.close_us), 0, INT_MAX, NULL, "DUMMY: of a close"},
    {'\0', "dummy.delay-only-rank0", TB_FLAG, AT(dummy.only_rank0), 0, 0, NULL, "DUMMY: only rank 0 waits"},
    {'\0', "dummy.delay-sync", TB_IGNORED, 0, 0, 0, NULL, NULL}, /* of a call that only mdtest makes */
    {'\0', "dryRun", TB_FLAG, AT(dry_run), 0, 0, NULL, "print the options only"},
    {'j', "outlierThreshold", TB_INT, AT(outlier_s), 0, INT_MAX, NULL, "accepted, without effect"},
    {'H', "showHints", TB_FLAG, AT(show_hints), 0, 0, NULL, "MPIIO: print its hints"},
    {'\0', "mpiio.showHints", TB_FLAG, AT(show_hints), 0, 0, NULL, NULL},
    {'\0', "hdf5.showHints", TB_IGNORED_FLAG, 0, 0, 0, NULL, NULL},
    {'\0', "hdf5.collectiveMetadata", TB_IGNORED_FLAG, 0, 0, 0, NULL, NULL},
    {'\0', "summaryAlways", TB_IGNORED_FLAG, 0, 0, 0, NULL, NULL}, /* the summary always comes */
    {'\0', "warningAsErrors", TB_IGNORED_FLAG, 0, 0, 0, NULL, NULL},
    {'\0', "lustreStripeCount", TB_IGNORED, 0, 0, 0, NULL, NULL}, /* the site's, set on the directory */
    {'\0', "lustreStripeSize", TB_IGNORED, 0, 0, 0, NULL, NULL},
    {'\0', "mpiio.useStridedDatatype", TB_REFUSED, 0, 0, 0, NULL, "--mpiio.useFileView alone is"},
    {'\0', "useStridedDatatype", TB_REFUSED, 0, 0, 0, NULL, "--mpiio.useFileView alone is"},
    {'\0', "allocateBufferOnGPU", TB_REFUSED, 0, 0, 0, NULL, "data is in the memory of the node"},
    {'\0', "gpuDirect", TB_REFUSED, 0, 0, 0, NULL, "data is in the memory of the node"},
    {'\0', "GPUid", TB_REFUSED, 0, 0, 0, NULL, "data is in the memory of the node"},
    {'V', "version", TB_FLAG, AT(version), 0, 0, NULL, "print the version"},
    {'h', "help", TB_FLAG, AT(help), 0, 0, NULL, "print this"},
    {0},
};

/* One table for the command line, for -O and for scripts: a name means the same in all three. */
bool tb_ior_directive(struct tb_options *o, const char *name, const char *value, struct tb_complaint *c)
{
    return tb_directive(table, o, name, value, c);
}

/* What is written must not replace the file under test, the script, or another report. */
static bool files_differ(const struct tb_options *o, struct tb_complaint *c)
{
    const char *files[] = {o->file, o->script, o->hints_file, o->summary_file, o->rank_file, o->status_file};
    enum { FILES = sizeof(files) / sizeof(*files) };
    for (int i = 0; i < FILES; i++)
        for (int j = 0; j < i; j++)
            if (files[i] && files[j] && !strcmp(files[i], files[j]) && strcmp(files[i], "/dev/null"))
                return tb_wrong(c, "-O", files[i], "another file for each purpose");
    return true;
}

/* Without -w, -r, -W and -R a test writes and reads, as in IOR; a check of reads reads. */
static bool tests_consistent(struct tb_tests *tests, int tasks, struct tb_complaint *c)
{
    for (size_t i = 0; i < tests->count; i++) {
        struct tb_options *o = &tests->options[i];
        if (!o->write && !o->read && !o->check_write && !o->check_read)
            o->write = o->read = true;
        o->read = o->read || o->check_read;
        if (!files_differ(o, c) || !tb_ior_rules_hold(o, tasks, c))
            return false;
    }
    return true;
}

/*
 * IOR's defaults. A script may hold several tests, each of which begins with the options of
 * the command line.
 */
bool tb_ior_options(struct tb_options *o, struct tb_tests *tests, int argc, char **argv, int tasks, struct tb_complaint *c)
{
    *o = (struct tb_options){.backend = &tb_posix,
                             .output = &tb_text,
                             .api = "POSIX",
                             .file = "testFile",
                             .block = 1 << 20,
                             .transfer = 256 << 10,
                             .segments = 1,
                             .repetitions = 1,
                             .task_offset = 1,
                             .offset_seed = -1,
                             .tasks = -1,
                             .alignment = 1};
    if (!tb_options_read(table, o, argc, argv, c))
        return false;
    if (o->help || o->version)
        return true;
    bool read = o->script ? tb_script_read(tests, o, o->script, c) : tb_tests_add(tests, o, c);
    return read && tests_consistent(tests, tasks, c);
}

/* From the table: an option that is read is also described. */
void tb_ior_help(FILE *out)
{
    tb_options_help(table, TB_PROGRAM, out);
}
