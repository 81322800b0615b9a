/*
 * tb-mdtest: mdtest's command line, tree of directories, phases and output, for machines where mdtest isn't installed.
 *
 * main parses the options (the same on every rank); plan says how many directories and items there are and how they
 * are called; iteration runs the timed phases one after the other; items does the operations; output prints.
 * An item is a file or a directory that a phase works on; a tree directory holds items. Only rank 0 prints.
 */
#ifndef TB_MDTEST_H
#define TB_MDTEST_H

#include "driver.h"

#include <limits.h>

struct tb_options {
    bool create_only, stat_only, read_only, remove_only; /* none: all phases, and the rename of directories */
    bool dirs_only, files_only, make_node, leaf_only, random_order, shared_file, collective, unique_dir;
    bool rate_and_time, time_only, verify_read, verify_write, sync_file, sync_phases, direct, range_locks;
    bool rank_statistics, rank_rows;
    bool stop_at_failure, help, version;
    int no_barriers, branching, depth, iterations, stride, delay_s, deadline_s, verbose, random_seed;
    int first_tasks, last_tasks, step_tasks;
    int64_t items, items_per_dir, write_bytes, read_bytes, signature; /* signature -1: the time */
    const char *dir;                                                  /* several, separated by @ */
    const char *status_file, *rank_file;
    const char *before_phase, *after_phase; /* commands of the shell; NULL: none */
    enum tb_packet packet;
    struct {
        bool chosen, only_rank0;
        int create_us, transfer_us, close_us, sync_us;
    } dummy; /* -a DUMMY and its waits */
};

/* The order of the operations in reports. */
/* clang-format off */
enum tb_operation {
	TB_DIR_CREATE, TB_DIR_STAT, TB_DIR_RENAME, TB_DIR_REMOVE,
	TB_FILE_CREATE, TB_FILE_STAT, TB_FILE_READ, TB_FILE_REMOVE,
	TB_TREE_CREATE, TB_TREE_REMOVE, TB_OPERATIONS
};
/* clang-format on */

/* plan.c */
struct tb_plan {
    int64_t dirs;           /* of one tree */
    int64_t first_dir;      /* that holds items: with -L the first leaf */
    int64_t per_dir, items; /* items of a tree directory, of one rank in one tree */
    int loops;              /* trees, each under a test directory of its own */
    int64_t *order;         /* the tree's directories, each before what is below it */
};
/* In the names, and in packets that say their place: with -L the inner directories count too. */
static inline int64_t tb_number(const struct tb_plan *plan, int64_t item)
{
    return item + plan->first_dir * plan->per_dir;
}
bool tb_plan_make(struct tb_plan *plan, const struct tb_options *o, struct tb_complaint *c);
void tb_plan_free(struct tb_plan *plan);

/* Writes paths; it keeps the last directory, because most items share one with their predecessor. */
struct tb_namer {
    const struct tb_options *options;
    const struct tb_plan *plan;
    int tasks, iteration, loop, owner;
    int64_t dir;
    size_t length;
    char path[PATH_MAX];
};
void tb_namer_start(struct tb_namer *n, const struct tb_options *o, const struct tb_plan *plan, int tasks, int iteration);
const char *tb_test_dir(struct tb_namer *n, int rank, int loop);
const char *tb_tree_dir(struct tb_namer *n, int rank, int loop, int64_t dir);
const char *tb_item(struct tb_namer *n, int owner, int loop, bool is_dir, int64_t item);

/* One iteration. Seconds and counts of a phase that didn't run are 0. */
struct tb_result {
    double seconds[TB_OPERATIONS];      /* until all ranks are done */
    double rank_seconds[TB_OPERATIONS]; /* this rank's own */
    int64_t rank_items[TB_OPERATIONS], items[TB_OPERATIONS];
    int64_t stonewall_min, stonewall_max;
    double stonewall_mean;
    bool stonewalled;
};

struct tb_run {
    const struct tb_options *options;
    const struct tb_plan *plan;
    MPI_Comm comm; /* the ranks of this test */
    int rank, tasks;
    struct tb_pattern pattern;
    void *data;
    int64_t *shuffle; /* NULL: in order */
    int64_t present;  /* items that a rank has in a tree: fewer than planned after a stonewall */
    int64_t failures, wrong;
    struct tb_namer namer;
    struct tb_result result;
    double start; /* of the phase that runs */
};

/* calls.c: as the system calls of these names. */
int tb_mkdir(const struct tb_run *r, const char *path);
int tb_rmdir(const struct tb_run *r, const char *path);
bool tb_exists(const struct tb_run *r, const char *path);
int tb_unlink(const struct tb_run *r, const char *path);
int tb_mknod(const struct tb_run *r, const char *path);
int tb_stat(const struct tb_run *r, const char *path);
int tb_rename(const struct tb_run *r, const char *from, const char *to);
int tb_open(const struct tb_run *r, const char *path, int flags);
int tb_close(const struct tb_run *r, int fd);
int tb_fsync(const struct tb_run *r, int fd);
void tb_sync(const struct tb_run *r);
/* Of the run's buffer, from the file's start. */
void tb_write(const struct tb_run *r, const struct tb_posix_file *f, int64_t bytes);
void tb_read(const struct tb_run *r, const struct tb_posix_file *f, int64_t bytes);

/* items.c: each does one phase of this rank and returns how many operations it did. */
int64_t tb_tree_create(struct tb_run *r);
int64_t tb_tree_remove(struct tb_run *r);
int64_t tb_items_create(struct tb_run *r, bool dirs);
int64_t tb_items_stat(struct tb_run *r, bool dirs);
int64_t tb_items_rename(struct tb_run *r, bool dirs);
int64_t tb_items_read(struct tb_run *r, bool dirs);
int64_t tb_items_remove(struct tb_run *r, bool dirs);
bool tb_base_create(struct tb_run *r); /* the directory of -d; returns whether it was missing */
void tb_base_remove(struct tb_run *r);
void tb_test_dirs_create(struct tb_run *r);
void tb_test_dirs_remove(struct tb_run *r);

/* transfer.c: the bytes of a file. */
void tb_file_create(struct tb_run *r, const char *path, int64_t number);
void tb_file_write(struct tb_run *r, const char *path, int64_t number); /* into one that exists */
void tb_file_read(struct tb_run *r, const char *path, int writer, int64_t number);

/* stonewall.c */
bool tb_stonewall_hit(const struct tb_run *r);
/* All ranks go on to the count of the fastest; returns it. */
int64_t tb_stonewall_agree(struct tb_run *r, int64_t done);
void tb_count_file_prepare(const struct tb_run *r);
void tb_count_file_save(const struct tb_run *r);
int64_t tb_count_file_load(const struct tb_run *r);

/* iteration.c */
bool tb_selected(const struct tb_options *o, bool only); /* whether the phase of that flag (-C, -T, -E, -r) runs */
void tb_iterate(struct tb_run *r, int iteration);

/* output.c */
struct tb_report {
    const struct tb_options *options;
    int tasks;
    struct tb_result *results; /* of each iteration */
    double *rank_seconds;      /* [iteration][rank][operation], as the next */
    int64_t *rank_items;
    FILE *rank_file;
};
const char *tb_operation_name(enum tb_operation op);
bool tb_operation_belongs(const struct tb_options *o, enum tb_operation op);
void tb_print_begin(const struct tb_options *o, const struct tb_world *w, const char *command_line, const char *node_map);
void tb_print_test(const struct tb_options *o, const struct tb_plan *plan, int tasks);
void tb_print_iteration(const struct tb_run *r, int iteration);
void tb_print_summary(const struct tb_report *report);
void tb_print_end(void);

/* ranks.c: the CSV of --saveRankPerformanceDetails. */
FILE *tb_ranks_open(const char *path);
void tb_ranks_write(const struct tb_report *report, int64_t items);
void tb_ranks_close(FILE *f, const char *path);

/* options.c */
bool tb_mdtest_options(struct tb_options *o, int argc, char **argv, int tasks, struct tb_complaint *c);
void tb_mdtest_help(FILE *out);

#endif
