/*
 * What IOR's options may not be together. IOR itself finds some of this only when a rank
 * fails; here every rank refuses the same line before a file is touched.
 */
#include "tb_ior.h"

#include <unistd.h>

/* The aggregate of all ranks stays below half of the largest offset: sums of two such offsets do not overflow. */
static bool is_too_large(const struct tb_options *o, int tasks)
{
    int64_t all;
    return __builtin_mul_overflow(o->block, o->segments, &all) || all > INT64_MAX / tasks / 2;
}

/* In this order: a rule may divide by what an earlier one has checked. */
#define RULES(RULE)                                                                                                                  \
    RULE(odd_transfer, o->transfer % 8, "-t: the transfer size must be a multiple of 8 bytes")                                       \
    RULE(odd_block, o->block % o->transfer, "-b: the block size must be a multiple of the transfer size (-t)")                       \
    RULE(too_large, is_too_large(o, tasks), "-b, -s: the aggregate file size exceeds the largest offset of a file")                  \
    RULE(odd_prefill, o->prefill && (!o->random_offset || o->prefill % 8 || o->block % o->prefill),                                  \
         "--randomPrefill needs -z, and the block size (-b) to be a multiple of it")                                                 \
    RULE(long_transfer, o->backend != &tb_posix && o->transfer > INT_MAX, "-t: a transfer of 2g and more needs -a POSIX")            \
    RULE(long_mapping, o->backend == &tb_mmap && o->block * o->segments > INT64_MAX / 4096 / tasks, "-b, -s: too large to map")      \
    RULE(odd_page, o->backend == &tb_mmap && o->fsync_per_write && o->transfer % sysconf(_SC_PAGESIZE),                              \
         "-Y: with -a MMAP the transfer size (-t) must be a multiple of the page size")                                              \
    RULE(dual_mount, o->dual_mount && (!o->file_per_process || o->unique_dir), "-y needs files per process (-F) and excludes -u")    \
    RULE(no_name, !tb_count_names(o->file), "-o: no name between the @")                                                             \
    RULE(names_and_dirs, o->unique_dir &&tb_count_names(o->file) > 1, "-o: several names (FILE1@FILE2) exclude -u")                  \
    RULE(nothing_to_check, o->backend->no_files && (o->check_write || o->check_read),                                                \
         "-a DUMMY moves nothing: -W and -R have nothing to check")                                                                  \
    RULE(no_ranks, !o->tasks, "-N: too few ranks for a test")                                                                        \
    RULE(no_deadline, o->wear_out && !o->deadline_s, "-O stoneWallingWearOut=1 needs a deadline (-D)")                               \
    RULE(two_orders, o->reorder && o->reorder_random, "-C and -Z exclude each other")                                                \
    RULE(one_transfer, o->random_offset && o->block == o->transfer, "-z orders the transfers of a block: -b must be larger than -t") \
    RULE(random_and_shared, o->random_offset && !o->file_per_process && (o->reorder || o->reorder_random),                           \
         "-z on a shared file excludes -C and -Z")                                                                                   \
    RULE(random_and_hdf5, o->random_offset && o->backend == &tb_hdf5, "-z excludes -a HDF5")                                         \
    RULE(random_and_views, o->random_offset && o->backend == &tb_mpiio && (o->collective || o->file_view),                           \
         "-z excludes collective calls (-c) and file views of -a MPIIO")

RULES(TB_RULE_FUNCTION)
static const struct tb_rule rules[] = {RULES(TB_RULE_ROW){NULL, NULL}};

bool tb_ior_rules_hold(const struct tb_options *o, int tasks, struct tb_complaint *c)
{
    return tb_rules_hold(rules, o, tasks, c);
}
