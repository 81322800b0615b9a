/*
 * The operations of each phase. Creating and removing walk the tree depth first, the others number by number. What
 * can't be created ends all ranks; any other operation that fails is reported, counted, and makes the exit status 1.
 */
#include "tb_mdtest.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_REPORTED = 10 }; /* failures of a rank by name; all are counted */

/* errno must still be that of the call. With --warningAsErrors the first failure ends all ranks. */
static void failed(struct tb_run *r, const char *what, const char *path)
{
    if (r->options->stop_at_failure)
        tb_fail(path, what, -1, strerror(errno));
    if (r->failures++ < MOST_REPORTED)
        fprintf(stderr, "%s: %s: %s: %s\n", TB_PROGRAM, path, what, strerror(errno));
}

/*
 * A tree with a directory missing would make every later phase count something else, so all
 * ranks end.
 */
static void make_directory(const struct tb_run *r, const char *path)
{
    if (tb_mkdir(r, path))
        tb_fail(path, "mkdir", -1, strerror(errno));
}

/* Without -u one tree is shared, and rank 0 makes it. */
static bool makes_trees(const struct tb_run *r)
{
    return r->options->unique_dir || r->rank == 0;
}

/* Of the ranks that share a directory of -d the first makes what all of them use. */
static bool is_first_of_base(const struct tb_run *r)
{
    return r->rank < tb_count_names(r->options->dir);
}

static void name_of_base(const struct tb_run *r, char base[PATH_MAX])
{
    const char *start;
    int length = tb_name_of(r->options->dir, r->rank, &start);
    snprintf(base, PATH_MAX, "%.*s", length, start);
}

/* True: this run made it, and removes it at the end. */
bool tb_base_create(struct tb_run *r)
{
    char base[PATH_MAX];
    name_of_base(r, base);
    bool missing = is_first_of_base(r) && !tb_exists(r, base);
    if (missing)
        make_directory(r, base);
    return missing;
}

/* Fails where anything else is left in it, which is then not removed. */
void tb_base_remove(struct tb_run *r)
{
    char base[PATH_MAX];
    name_of_base(r, base);
    if (tb_rmdir(r, base))
        failed(r, "rmdir", base);
}

/* What an earlier run left is used on. */
void tb_test_dirs_create(struct tb_run *r)
{
    for (int loop = 0; is_first_of_base(r) && loop < r->plan->loops; loop++) {
        const char *path = tb_test_dir(&r->namer, r->rank, loop);
        if (!tb_exists(r, path))
            make_directory(r, path);
    }
}

/* One rank a base directory removes it; a directory that an earlier run removed is no error. */
void tb_test_dirs_remove(struct tb_run *r)
{
    for (int loop = 0; is_first_of_base(r) && loop < r->plan->loops; loop++) {
        const char *path = tb_test_dir(&r->namer, r->rank, loop);
        if (tb_exists(r, path) && tb_rmdir(r, path))
            failed(r, "rmdir", path);
    }
}

/* In the plan's order, so that a parent comes before its children. */
int64_t tb_tree_create(struct tb_run *r)
{
    for (int loop = 0; makes_trees(r) && loop < r->plan->loops; loop++)
        for (int64_t i = 0; i < r->plan->dirs; i++)
            make_directory(r, tb_tree_dir(&r->namer, r->rank, loop, r->plan->order[i]));
    return r->plan->dirs * r->plan->loops;
}

/* Children first. */
static void remove_from_below(struct tb_run *r, int loop, int64_t dir)
{
    int branching = r->options->branching;
    for (int i = 1; i <= branching && dir * branching + i < r->plan->dirs; i++)
        remove_from_below(r, loop, dir * branching + i);
    const char *path = tb_tree_dir(&r->namer, r->rank, loop, dir);
    if (tb_rmdir(r, path))
        failed(r, "rmdir", path);
}

int64_t tb_tree_remove(struct tb_run *r)
{
    for (int loop = 0; makes_trees(r) && loop < r->plan->loops; loop++)
        remove_from_below(r, loop, 0);
    return r->plan->dirs * r->plan->loops;
}

/* A file is made by open and written, or by mknod where -k says so and nothing is written. */
static void create_item(struct tb_run *r, int owner, int loop, bool dir, int64_t item)
{
    const char *path = tb_item(&r->namer, owner, loop, dir, item);
    if (dir)
        make_directory(r, path);
    else if (!r->options->make_node)
        tb_file_create(r, path, tb_number(r->plan, item));
    else if (tb_mknod(r, path))
        tb_fail(path, "mknod", -1, strerror(errno));
}

/* Unlike creating, a removal that fails is only counted: later ones don't depend on it. */
static void remove_item(struct tb_run *r, int owner, int loop, bool dir, int64_t item)
{
    const char *path = tb_item(&r->namer, owner, loop, dir, item);
    if (dir ? tb_rmdir(r, path) : tb_unlink(r, path))
        failed(r, dir ? "rmdir" : "unlink", path);
}

/* The k-th item in the order in which the tree is walked. */
static int64_t walked(const struct tb_plan *p, int64_t k, int64_t *skipped)
{
    while (p->order[k / p->per_dir + *skipped] < p->first_dir)
        ++*skipped;
    return (p->order[k / p->per_dir + *skipped] - p->first_dir) * p->per_dir + k % p->per_dir;
}

typedef void item_work(struct tb_run *r, int owner, int loop, bool dir, int64_t item);

/* With a stonewall a tree isn't branched, so that the k-th item is the one with number k. */
static int64_t create_until_stonewall(struct tb_run *r, int loop, bool dirs)
{
    int64_t done = 0;
    while (done < r->plan->items && !tb_stonewall_hit(r))
        create_item(r, r->rank, loop, dirs, done++);
    for (int64_t goal = tb_stonewall_agree(r, done); done < goal; done++)
        create_item(r, r->rank, loop, dirs, done);
    return r->present = done;
}

/* Every item of the owner, in the order of the tree. */
static int64_t walk(struct tb_run *r, item_work *work, int owner, bool dirs)
{
    for (int loop = 0; loop < r->plan->loops; loop++)
        for (int64_t k = 0, skipped = 0; k < r->present; k++)
            work(r, owner, loop, dirs, walked(r->plan, k, &skipped));
    return r->present * r->plan->loops;
}

/* Rank 0 does the work of all ranks. */
static void walk_for_all(struct tb_run *r, item_work *work, bool dirs)
{
    for (int owner = 0; r->rank == 0 && owner < r->tasks; owner++)
        walk(r, work, owner, dirs);
}

/* -c: rank 0 makes the files, and their ranks write them afterwards. */
static void create_empty(struct tb_run *r, int owner, int loop, bool dir, int64_t item)
{
    const char *path = tb_item(&r->namer, owner, loop, dir, item);
    int fd = tb_open(r, path, O_RDWR | O_CREAT);
    if (fd < 0 || tb_close(r, fd))
        tb_fail(path, "create", -1, strerror(errno));
}

static void write_item(struct tb_run *r, int owner, int loop, bool dir, int64_t item)
{
    tb_file_write(r, tb_item(&r->namer, owner, loop, dir, item), tb_number(r->plan, item));
}

/* The stonewall has a loop of its own, since its end is not known before. */
int64_t tb_items_create(struct tb_run *r, bool dirs)
{
    r->present = r->plan->items;
    if (r->options->deadline_s)
        return create_until_stonewall(r, 0, dirs);
    if (!r->options->collective)
        return walk(r, create_item, r->rank, dirs);
    walk_for_all(r, dirs ? create_item : create_empty, dirs);
    MPI_Barrier(r->comm);
    return dirs ? r->present * r->plan->loops : walk(r, write_item, r->rank, dirs);
}

/* -N: so that a node does not find what its own cache holds. */
static int neighbour(const struct tb_run *r, int steps)
{
    return (int)((r->rank + (int64_t)r->options->stride * steps) % r->tasks);
}

/* Shared files are removed once, by rank 0. */
int64_t tb_items_remove(struct tb_run *r, bool dirs)
{
    if (!r->options->collective && !r->options->shared_file)
        return walk(r, remove_item, neighbour(r, 3), dirs);
    if (r->options->shared_file && r->rank == 0)
        walk(r, remove_item, 0, dirs);
    else if (!r->options->shared_file)
        walk_for_all(r, remove_item, dirs);
    return r->present * r->plan->loops;
}

/* -R: the order is shuffled once, before the timed phases. */
static int64_t number(const struct tb_run *r, int64_t i)
{
    return r->shuffle ? r->shuffle[i] : i;
}

/* The items of another rank with -N, so that no client has their attributes in its cache. */
int64_t tb_items_stat(struct tb_run *r, bool dirs)
{
    for (int loop = 0; loop < r->plan->loops; loop++)
        for (int64_t i = 0; i < r->present; i++) {
            const char *path = tb_item(&r->namer, neighbour(r, 1), loop, dirs, number(r, i));
            if (tb_stat(r, path))
                failed(r, "stat", path);
        }
    return r->present * r->plan->loops;
}

/* Of the rank 2N on: neither the one that wrote nor the one that looked has this file in its cache. */
int64_t tb_items_read(struct tb_run *r, bool dirs)
{
    int writer = neighbour(r, 2);
    for (int loop = 0; loop < r->plan->loops; loop++)
        for (int64_t i = 0; i < r->present; i++) {
            int64_t item = number(r, i);
            const char *path = tb_item(&r->namer, writer, loop, dirs, item);
            tb_file_read(r, path, writer, tb_number(r->plan, item));
        }
    return r->present * r->plan->loops;
}

static void rename_one(struct tb_run *r, const char *from, const char *to)
{
    if (tb_rename(r, from, to))
        failed(r, "rename", from);
}

/* The first item steps aside, each next one takes its predecessor's name, and the first takes the last but one. */
static int64_t rename_round(struct tb_run *r, int loop, bool dirs)
{
    char aside[PATH_MAX + 8], last[PATH_MAX], next[PATH_MAX];
    int owner = neighbour(r, 1);
    snprintf(last, sizeof(last), "%s", tb_item(&r->namer, owner, loop, dirs, 0));
    snprintf(aside, sizeof(aside), "%s-XX", last);
    rename_one(r, last, aside);
    for (int64_t i = 1; i < r->present - 1; i++) {
        snprintf(next, sizeof(next), "%s", tb_item(&r->namer, owner, loop, dirs, i));
        rename_one(r, next, last);
        snprintf(last, sizeof(last), "%s", next);
    }
    rename_one(r, aside, last);
    return r->present;
}

/* A single item has no other name to take: it is left alone, and counts as none. */
int64_t tb_items_rename(struct tb_run *r, bool dirs)
{
    int64_t done = 0;
    if (r->present > 1)
        for (int loop = 0; loop < r->plan->loops; loop++)
            done += rename_round(r, loop, dirs);
    return done;
}
