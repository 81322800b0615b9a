/*
 * One iteration: make the trees, work on directories, work on files, remove the trees. Each
 * phase is timed from a barrier to its rank's end and to the end of all. The order of the
 * phases is mdtest's: each one needs what those before it made.
 */
#include "tb_mdtest.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* -B 1 leaves it out: then phases of different ranks overlap. Not about the tree, in which all of them work. */
static void barrier(const struct tb_run *r, enum tb_operation op)
{
    if (!r->options->no_barriers || op >= TB_TREE_CREATE)
        MPI_Barrier(r->comm);
}

/* A command that fails is a failed operation: what it should have done, such as dropping caches, is a part of the test. */
static void run_command(struct tb_run *r, const char *option, const char *command, enum tb_operation op)
{
    char status[32];
    if (!command || op >= TB_TREE_CREATE) /* as mdtest: none about the making of trees */
        return;
    int code = system(command);
    if (!code)
        return;
    if (code < 0)
        tb_fail(command, option, -1, strerror(errno));
    snprintf(status, sizeof(status), "exit status %d", WIFEXITED(code) ? WEXITSTATUS(code) : 128 + WTERMSIG(code));
    if (r->options->stop_at_failure)
        tb_fail(command, option, -1, status);
    r->failures++;
    fprintf(stderr, "%s: %s: %s: %s\n", TB_PROGRAM, option, command, status);
}

/*
 * A rank's own seconds end before the sync of -Y and the second barrier; the seconds of all
 * ranks include both.
 */
static void timed(struct tb_run *r, enum tb_operation op, int64_t (*work)(struct tb_run *r, bool dirs), bool dirs)
{
    struct tb_result *x = &r->result;
    run_command(r, "--run-cmd-before-phase", r->options->before_phase, op);
    barrier(r, op);
    r->start = MPI_Wtime();
    int64_t done = work(r, dirs);
    x->rank_seconds[op] = MPI_Wtime() - r->start;
    if (r->options->sync_phases)
        tb_sync(r);
    run_command(r, "--run-cmd-after-phase", r->options->after_phase, op);
    barrier(r, op);
    double all = MPI_Wtime() - r->start;
    MPI_Allreduce(&all, &x->seconds[op], 1, MPI_DOUBLE, MPI_MAX, r->comm);
    x->rank_items[op] = done;
    x->items[op] = done * r->tasks;
}

static int64_t create_tree(struct tb_run *r, bool dirs)
{
    (void)dirs;
    return tb_tree_create(r);
}

static int64_t remove_tree(struct tb_run *r, bool dirs)
{
    (void)dirs;
    return tb_tree_remove(r);
}

/* A tree counts once, however many ranks make one of their own. */
static void timed_tree(struct tb_run *r, enum tb_operation op, int64_t (*work)(struct tb_run *r, bool dirs))
{
    timed(r, op, work, true);
    r->result.items[op] = r->result.rank_items[op];
}

/* -C, -T, -E and -r choose phases; without any of them all are run. */
bool tb_selected(const struct tb_options *o, bool only)
{
    return only || !(o->create_only || o->stat_only || o->read_only || o->remove_only);
}

/*
 * `present` is how many items there are; a run that creates none has the number from the
 * status file of -x.
 */
static void work_on(struct tb_run *r, bool dirs)
{
    const struct tb_options *o = r->options;
    bool create = tb_selected(o, o->create_only);
    r->present = !create && o->status_file ? tb_count_file_load(r) : r->plan->items;
    if (create) {
        tb_fill(&r->pattern, r->data, (size_t)o->write_bytes, r->rank); /* reads have left others' data there */
        timed(r, dirs ? TB_DIR_CREATE : TB_FILE_CREATE, tb_items_create, dirs);
        tb_count_file_save(r);
    }
    if (tb_selected(o, o->stat_only))
        timed(r, dirs ? TB_DIR_STAT : TB_FILE_STAT, tb_items_stat, dirs);
    if (dirs && tb_selected(o, false))
        timed(r, TB_DIR_RENAME, tb_items_rename, dirs);
    if (!dirs && tb_selected(o, o->read_only))
        timed(r, TB_FILE_READ, tb_items_read, dirs);
    if (tb_selected(o, o->remove_only))
        timed(r, dirs ? TB_DIR_REMOVE : TB_FILE_REMOVE, tb_items_remove, dirs);
}

/*
 * A run of chosen phases works on the trees that an earlier run left; unless -r is among them,
 * the trees stay.
 */
void tb_iterate(struct tb_run *r, int iteration)
{
    const struct tb_options *o = r->options;
    if (o->delay_s)
        sleep((unsigned)o->delay_s);
    r->result = (struct tb_result){0};
    tb_namer_start(&r->namer, o, r->plan, r->tasks, iteration);
    if (tb_selected(o, o->create_only)) {
        tb_test_dirs_create(r);
        timed_tree(r, TB_TREE_CREATE, create_tree);
    }
    if (!o->files_only)
        work_on(r, true);
    if (!o->dirs_only)
        work_on(r, false);
    if (tb_selected(o, o->remove_only)) {
        timed_tree(r, TB_TREE_REMOVE, remove_tree);
        tb_test_dirs_remove(r);
    }
    MPI_Barrier(r->comm); /* the next iteration may use the same names */
}
