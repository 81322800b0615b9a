/*
 * How many directories and items a test has, and what they are called. Tree directories are numbered level by level
 * from the root (0), items on from one directory to the next, so that an item's number says where it is.
 */
#include "tb_mdtest.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_DIRS = 1 << 28 }; /* of one tree: beyond it the numbering itself would take gigabytes */

/* Stops as soon as it is too many, before the numbers overflow. */
static bool count_dirs(struct tb_plan *plan, const struct tb_options *o, int64_t *leaves)
{
    int64_t level = 1;
    plan->dirs = 1;
    for (int depth = 0; depth < o->depth; depth++) {
        level *= o->branching;
        plan->dirs += level;
        if (plan->dirs > MAX_DIRS)
            return false;
    }
    *leaves = level;
    return true;
}

/*
 * -n items are spread over the directories that hold any; -I says how many each holds, and -n
 * then how many such trees.
 */
static bool share_items(struct tb_plan *plan, const struct tb_options *o, int64_t holders, struct tb_complaint *c)
{
    plan->loops = 1;
    if (!o->items_per_dir) {
        plan->per_dir = o->items / holders;
    } else {
        plan->per_dir = o->items_per_dir;
        if (o->items % o->items_per_dir)
            return tb_complain(c, "-n: must be a multiple of -I");
        if (o->items)
            plan->loops = (int)(o->items / o->items_per_dir);
    }
    plan->items = plan->per_dir * holders;
    return plan->items <= INT32_MAX || tb_complain(c, "-I, -z, -b: more than 2147483647 items for each rank");
}

/* Depth first, the order in which mdtest makes directories and fills them. */
static int64_t visit(struct tb_plan *plan, int branching, int64_t dir, int64_t at)
{
    plan->order[at++] = dir;
    for (int i = 1; i <= branching; i++) {
        int64_t child = dir * branching + i;
        if (child >= plan->dirs)
            break;
        at = visit(plan, branching, child, at);
    }
    return at;
}

/* Every rank makes the same plan from the same options, without a word to the others. */
bool tb_plan_make(struct tb_plan *plan, const struct tb_options *o, struct tb_complaint *c)
{
    int64_t leaves;
    *plan = (struct tb_plan){0};
    if (!count_dirs(plan, o, &leaves))
        return tb_complain(c, "-z, -b: a tree of more than 268435456 directories");
    plan->first_dir = o->leaf_only ? plan->dirs - leaves : 0;
    if (!share_items(plan, o, plan->dirs - plan->first_dir, c))
        return false;
    plan->order = malloc((size_t)plan->dirs * sizeof(*plan->order));
    if (!plan->order)
        return tb_complain(c, "-z, -b: no memory for the directories of the tree");
    int64_t visited = visit(plan, o->branching, 0, 0);
    assert(visited == plan->dirs);
    (void)visited;
    return true;
}

/* The order is all that a plan allocates. */
void tb_plan_free(struct tb_plan *plan)
{
    free(plan->order);
}

/* -1: no directory's path is kept yet. */
void tb_namer_start(struct tb_namer *n, const struct tb_options *o, const struct tb_plan *plan, int tasks, int iteration)
{
    *n = (struct tb_namer){.options = o, .plan = plan, .tasks = tasks, .iteration = iteration, .dir = -1};
}

/* One for each iteration and loop, below the base of the rank. */
const char *tb_test_dir(struct tb_namer *n, int rank, int loop)
{
    const char *base;
    int length = tb_name_of(n->options->dir, rank, &base);
    n->dir = -1;
    n->length = (size_t)snprintf(n->path, sizeof(n->path), "%.*s/test-dir.%d-%d", length, base, n->iteration, loop);
    return n->path;
}

/* With -u the rank is in the name, since trees of several ranks are side by side. */
static void add_component(struct tb_namer *n, int rank, int64_t dir)
{
    size_t room = sizeof(n->path) - n->length;
    int length = n->options->unique_dir ? snprintf(n->path + n->length, room, "/mdtest_tree.%d.%lld", rank, (long long)dir)
                                        : snprintf(n->path + n->length, room, "/mdtest_tree.%lld", (long long)dir);
    if ((size_t)length >= room)
        tb_fail(n->path, "name", -1, "the tree is too deep for a path");
    n->length += (size_t)length;
}

/* From the root down; the number of a directory tells its parent. */
static void add_tree_path(struct tb_namer *n, int rank, int64_t dir)
{
    if (dir)
        add_tree_path(n, rank, (dir - 1) / n->options->branching);
    add_component(n, rank, dir);
}

/* Items of one directory follow each other, so the path is kept until another one is asked for. */
const char *tb_tree_dir(struct tb_namer *n, int rank, int loop, int64_t dir)
{
    if (n->dir == dir && n->loop == loop && n->owner == rank) {
        n->path[n->length] = '\0';
        return n->path;
    }
    tb_test_dir(n, rank, loop);
    add_tree_path(n, rank, dir);
    n->dir = dir;
    n->loop = loop;
    n->owner = rank;
    return n->path;
}

/* With -u and -N an item's tree is that of N ranks on, as mdtest has it. */
const char *tb_item(struct tb_namer *n, int owner, int loop, bool is_dir, int64_t item)
{
    const struct tb_options *o = n->options;
    int64_t number = tb_number(n->plan, item);
    int tree = o->unique_dir ? (int)(((int64_t)owner + o->stride) % n->tasks) : 0;
    tb_tree_dir(n, tree, loop, number / n->plan->per_dir);
    /* The name first and then the path, as mdtest does: done in one step, items a microsecond long would be faster here. */
    const char *kind = is_dir ? "dir" : "file";
    char *at = n->path + n->length, name[64];
    size_t room = sizeof(n->path) - n->length;
    if (o->shared_file)
        snprintf(name, sizeof(name), "%s.mdtest.shared.%lld", kind, (long long)number);
    else
        snprintf(name, sizeof(name), "%s.mdtest.%d.%lld", kind, owner, (long long)number);
    int length = snprintf(at, room, "/%s", name);
    if ((size_t)length >= room)
        tb_fail(n->path, "name", -1, "the tree is too deep for a path");
    return n->path;
}
