/*
 * mdtest's options as a table, and which of them exclude each other. Every rank parses the
 * same words and comes to the same answer, so nothing is touched before all of them know it.
 */
#include "tb_mdtest.h"

#include <string.h>
#include <strings.h>

#define AT(field) offsetof(struct tb_options, field)

/* mdtest has others; here only system calls are made, or none. */
static bool take_api(void *options, const char *option, const char *value, struct tb_complaint *c)
{
    struct tb_options *o = options;
    o->dummy.chosen = !strcasecmp(value, "DUMMY");
    return o->dummy.chosen || !strcasecmp(value, "POSIX") || tb_wrong(c, option, value, "POSIX or DUMMY");
}

/* IOR and mdtest have the same packets, so the words are read in one place. */
static bool take_packet(void *options, const char *option, const char *value, struct tb_complaint *c)
{
    return tb_take_packet(&((struct tb_options *)options)->packet, option, value, c);
}

/*
 * Letter, long name, kind, field, least and most value, function, help. The text of a refused
 * option says why, or what to use instead.
 */
static const struct tb_option table[] = {
    {'C', NULL, TB_FLAG, AT(create_only), 0, 0, NULL, "only create files and directories"},
    {'T', NULL, TB_FLAG, AT(stat_only), 0, 0, NULL, "only stat them"},
    {'E', NULL, TB_FLAG, AT(read_only), 0, 0, NULL, "only read files"},
    {'r', NULL, TB_FLAG, AT(remove_only), 0, 0, NULL, "only remove what a previous run left"},
    {'D', NULL, TB_FLAG, AT(dirs_only), 0, 0, NULL, "directories only"},
    {'F', NULL, TB_FLAG, AT(files_only), 0, 0, NULL, "files only"},
    {'n', NULL, TB_SIZE, AT(items), 0, INT_MAX, NULL, "files and directories of each rank"},
    {'I', NULL, TB_SIZE, AT(items_per_dir), 0, INT_MAX, NULL, "of each tree directory; with -n, n/I trees"},
    {'z', NULL, TB_INT, AT(depth), 0, 63, NULL, "depth of the tree"},
    {'b', NULL, TB_INT, AT(branching), 0, INT_MAX, NULL, "branching factor of the tree"},
    {'L', NULL, TB_FLAG, AT(leaf_only), 0, 0, NULL, "items at the leaves of the tree only"},
    {'d', NULL, TB_TEXT, AT(dir), 0, 0, NULL, "where to run; with -u several: dir1@dir2"},
    {'u', NULL, TB_FLAG, AT(unique_dir), 0, 0, NULL, "a tree for each rank"},
    {'S', NULL, TB_FLAG, AT(shared_file), 0, 0, NULL, "all ranks use the same files; no directories"},
    {'c', NULL, TB_FLAG, AT(collective), 0, 0, NULL, "rank 0 creates and removes for all"},
    {'k', NULL, TB_FLAG, AT(make_node), 0, 0, NULL, "create files by mknod"},
    {'w', NULL, TB_SIZE, AT(write_bytes), 0, INT64_MAX, NULL, "bytes written to each file"},
    {'e', NULL, TB_SIZE, AT(read_bytes), 0, INT64_MAX, NULL, "bytes read from each file; 0: only open and close"},
    {'G', NULL, TB_SIZE, AT(signature), -1, UINT32_MAX, NULL, "signature of the written data; -1: the time"},
    {'X', "verify-read", TB_FLAG, AT(verify_read), 0, 0, NULL, "check what is read"},
    {'\0', "verify-write", TB_FLAG, AT(verify_write), 0, 0, NULL, "read what was written back at once, and check it"},
    {'y', NULL, TB_FLAG, AT(sync_file), 0, 0, NULL, "fsync each file after the write"},
    {'Y', NULL, TB_FLAG, AT(sync_phases), 0, 0, NULL, "sync after each phase, inside the timing"},
    {'N', NULL, TB_INT, AT(stride), 0, INT_MAX, NULL, "stat N ranks on, read 2N on, remove 3N on"},
    {'R', NULL, TB_FLAG, AT(random_order), 0, 0, NULL, "stat and read in random order"},
    {'\0', "random-seed", TB_INT, AT(random_seed), INT_MIN, INT_MAX, NULL, "seed of -R; 0: the time"},
    {'W', NULL, TB_INT, AT(deadline_s), 0, INT_MAX, NULL, "create for so many seconds, then all as many as the fastest"},
    {'x', NULL, TB_TEXT, AT(status_file), 0, 0, NULL, "file that keeps the count of -W for a later -T, -E, -r"},
    {'i', NULL, TB_INT, AT(iterations), 1, 1000000, NULL, "iterations"},
    {'p', NULL, TB_INT, AT(delay_s), 0, INT_MAX, NULL, "seconds before each iteration"},
    {'f', NULL, TB_INT, AT(first_tasks), 1, INT_MAX, NULL, "first number of ranks to test with"},
    {'l', NULL, TB_INT, AT(last_tasks), 0, INT_MAX, NULL, "last number of ranks; 0: all"},
    {'s', NULL, TB_INT, AT(step_tasks), 1, INT_MAX, NULL, "step between them"},
    {'B', NULL, TB_INT, AT(no_barriers), 0, 1, NULL, "1: no barriers between phases"},
    {'P', NULL, TB_FLAG, AT(rate_and_time), 0, 0, NULL, "print rate and time"},
    {'Z', NULL, TB_FLAG, AT(time_only), 0, 0, NULL, "print time instead of rate"},
    {'\0', "showRankStatistics", TB_FLAG, AT(rank_statistics), 0, 0, NULL, "print statistics over the ranks too"},
    {'\0', "saveRankPerformanceDetails", TB_TEXT, AT(rank_file), 0, 0, NULL, "CSV file of each rank's rates"},
    {'v', NULL, TB_COUNT, AT(verbose), 0, 0, NULL, "print each iteration"},
    {'V', NULL, TB_INT, AT(verbose), 0, 9, NULL, "the same as a number"},
    {'a', NULL, TB_TAKE, 0, 0, 0, take_api, "POSIX, or DUMMY (does nothing)"},
    {'\0', "dummy.delay-create", TB_INT, AT(dummy.create_us), 0, INT_MAX, NULL, "DUMMY: microseconds of a file's creation"},
    {'\0', "dummy.delay-xfer", TB_INT, AT(dummy.transfer_us), 0, INT_MAX, NULL, "DUMMY: of a transfer"},
    {'\0', "dummy.delay-close", TB_INT, AT(dummy.close_us), 0, INT_MAX, NULL, "DUMMY: of a close"},
    {'\0', "dummy.delay-sync", TB_INT, AT(dummy.sync_us), 0, INT_MAX, NULL, "DUMMY: of the sync of -Y"},
    {'\0', "dummy.delay-only-rank0", TB_FLAG, AT(dummy.only_rank0), 0, 0, NULL, "DUMMY: only rank 0 waits"},
    {'\0', "posix.odirect", TB_FLAG, AT(direct), 0, 0, NULL, "open with O_DIRECT"},
    {'\0', "dataPacketType", TB_TAKE, 0, 0, 0, take_packet, "timestamp, offset (the item), incompressible or random"},
    {'\0', "posix.rangelocks", TB_FLAG, AT(range_locks), 0, 0, NULL, "lock the range of each transfer"},
    {'\0', "allocateBufferOnGPU", TB_REFUSED, 0, 0, 0, NULL, "data is in the memory of the node"},
    {'\0', "run-cmd-before-phase", TB_TEXT, AT(before_phase), 0, 0, NULL, "command of each rank before each phase, outside of the time"},
    {'\0', "run-cmd-after-phase", TB_TEXT, AT(after_phase), 0, 0, NULL, "the same after each phase, inside the time"},
    {'\0', "print-all-procs", TB_FLAG, AT(rank_rows), 0, 0, NULL, "print each rank's rates or times"},
    {'\0', "warningAsErrors", TB_FLAG, AT(stop_at_failure), 0, 0, NULL, "end at the first failed operation"},
    {'t', NULL, TB_IGNORED_FLAG, 0, 0, 0, NULL, "accepted, without effect"},
    {'\0', "version", TB_FLAG, AT(version), 0, 0, NULL, "print the version"},
    {'h', "help", TB_FLAG, AT(help), 0, 0, NULL, "print this"},
    {0},
};

/* Whether the run has this phase at all: because it was asked for, or because no phase was. */
static bool creates(const struct tb_options *o)
{
    return tb_selected(o, o->create_only);
}

static bool reads(const struct tb_options *o)
{
    return tb_selected(o, o->read_only);
}

/*
 * A name, the condition that breaks the rule, and the message. All of them are looked at
 * before any file is touched.
 */
#define RULES(RULE)                                                                                                                     \
    RULE(ranks, o->last_tasks > tasks || o->first_tasks > tasks, "-f, -l: more ranks than the program was started with")                \
    RULE(range, o->last_tasks && o->first_tasks > o->last_tasks, "-f, -l: the first number of ranks is above the last")                 \
    RULE(shared, o->shared_file && (o->unique_dir || o->dirs_only || o->verify_read || o->collective), "-S excludes -u, -D, -X and -c") \
    RULE(collective, o->collective && (o->unique_dir || o->stride), "-c excludes -u and -N")                                            \
    RULE(deadline, o->deadline_s && (o->branching > 1 || o->no_barriers || o->collective),                                              \
         "-W needs barriers and a branching factor (-b) of 1, and excludes -c")                                                         \
    RULE(deadline_trees, o->deadline_s && o->items && o->items_per_dir && o->items != o->items_per_dir,                                 \
         "-W works on one tree: give -n or -I")                                                                                         \
    RULE(no_directory, !tb_count_names(o->dir), "-d: no directory between the @")                                                       \
    RULE(directories, tb_count_names(o->dir) > 1 && (!o->unique_dir || o->stride),                                                      \
         "-d: several directories need a tree for each rank (-u), and exclude -N")                                                      \
    RULE(many_directories, tb_count_names(o->dir) > tasks, "-d: more directories than ranks")                                           \
    RULE(two_counts, o->unique_dir && o->items && o->items_per_dir, "-u takes -n or -I, not both")                                      \
    RULE(no_branches, o->depth && !o->branching, "-z needs a branching factor (-b) of at least 1")                                      \
    RULE(long_reads, creates(o) && reads(o) && o->read_bytes > o->write_bytes, "-e: more bytes to read than -w writes")                 \
    RULE(nothing_to_check, o->dummy.chosen && (o->verify_read || o->verify_write),                                                      \
         "-a DUMMY moves nothing: -X and --verify-write have nothing to check")                                                         \
    RULE(empty_nodes, o->make_node && (o->write_bytes || o->collective), "-k makes empty files: it excludes -w and -c")                 \
    RULE(unwritten, o->verify_write && !o->write_bytes, "--verify-write needs bytes to write (-w)")                                     \
    RULE(unread, o->verify_read && (!o->read_bytes || !reads(o)), "-X needs bytes to read (-e) and a phase that reads them")            \
    RULE(unsigned_reads, o->verify_read && o->signature < 0 && !creates(o), "-X needs the signature of the run that wrote (-G)")        \
    RULE(empty_reads, o->stop_at_failure && !o->read_bytes && !o->dirs_only && reads(o),                                                \
         "--warningAsErrors: a read of no bytes (-e) is a warning")

RULES(TB_RULE_FUNCTION)
static const struct tb_rule rules[] = {RULES(TB_RULE_ROW){NULL, NULL}};

/* Without any of the phases all of them; without -D and -F both kinds. */
static void fill_in(struct tb_options *o, int tasks)
{
    if (o->dirs_only && o->files_only)
        o->dirs_only = o->files_only = false;
    if (o->shared_file)
        o->files_only = true;
    if (!o->last_tasks)
        o->first_tasks = o->last_tasks = tasks;
}

/* mdtest's defaults. The rules hold for what was given, before the rest is filled in. */
bool tb_mdtest_options(struct tb_options *o, int argc, char **argv, int tasks, struct tb_complaint *c)
{
    *o = (struct tb_options){.branching = 1, .iterations = 1, .first_tasks = 1, .step_tasks = 1, .signature = -1, .dir = "./out"};
    if (!tb_options_read(table, o, argc, argv, c))
        return false;
    if (o->help || o->version)
        return true;
    if (!tb_rules_hold(rules, o, tasks, c))
        return false;
    fill_in(o, tasks);
    return true;
}

/* From the table: an option that is read is also described. */
void tb_mdtest_help(FILE *out)
{
    tb_options_help(table, TB_PROGRAM, out);
}
