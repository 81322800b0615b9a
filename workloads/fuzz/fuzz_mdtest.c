/*
 * tb-mdtest's command line, and the plan of the tree that it asks for. A line that is accepted
 * must make a plan in which numbers are in range and each directory comes once. Large trees are
 * left out: their plans take too long.
 */
#include "fuzz_line.h"

#include "tb_mdtest.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool is_small(const struct tb_options *o)
{
    int64_t dirs = 1, level = 1;
    for (int depth = 0; depth < o->depth && dirs < 1 << 16; depth++)
        dirs += level *= o->branching;
    return dirs < 1 << 16;
}

/* The sum of all numbers tells that each directory comes once. */
static void check_plan(const struct tb_options *o)
{
    struct tb_plan plan;
    struct tb_complaint c;
    memset(&c, 'x', sizeof(c));
    bool good = tb_plan_make(&plan, o, &c);
    if (!good)
        fuzz_check_complaint(&c);
    fuzz_check(!good || (plan.items >= 0 && plan.items <= INT32_MAX && plan.loops > 0 && plan.first_dir < plan.dirs));
    int64_t sum = 0;
    for (int64_t i = 0; good && i < plan.dirs; i++)
        sum += plan.order[i];
    fuzz_check(!good || sum == plan.dirs * (plan.dirs - 1) / 2);
    tb_plan_free(&plan);
}

/* Up to 64 ranks: a name is taken by the rank's number alone, and more of them take the time of many inputs. */
static void check(const struct tb_options *o, int tasks)
{
    const char *base;
    fuzz_check(o->dir && *o->dir && o->iterations > 0 && o->step_tasks > 0 && !(o->dirs_only && o->files_only));
    fuzz_check(o->first_tasks > 0 && o->first_tasks <= tasks && o->last_tasks <= tasks);
    for (int rank = 0; rank < tasks && rank < 64; rank++)
        fuzz_check(tb_name_of(o->dir, rank, &base) >= 0 && base >= o->dir && base <= o->dir + strlen(o->dir));
    if (is_small(o))
        check_plan(o);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_line line;
    struct tb_options o;
    struct tb_complaint c;
    memset(&c, 'x', sizeof(c));
    fuzz_line_make(&line, data, size);
    if (!tb_mdtest_options(&o, line.argc, line.argv, line.tasks, &c))
        fuzz_check_complaint(&c);
    else if (!o.help && !o.version)
        check(&o, line.tasks);
    fuzz_line_free(&line);
    return 0;
}
