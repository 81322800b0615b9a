/*
 * The stonewall of -W: every rank looks at the clock after each item it creates; when its time is over it waits for
 * the others and goes on to the count of the fastest, so that all later phases have the same items.
 */
#include "tb_mdtest.h"

#include <errno.h>
#include <string.h>

bool tb_stonewall_hit(const struct tb_run *r)
{
    return MPI_Wtime() - r->start >= r->options->deadline_s;
}

/* The fastest rank's count is the goal of all: `present` is then the same everywhere. */
int64_t tb_stonewall_agree(struct tb_run *r, int64_t done)
{
    struct tb_result *x = &r->result;
    double sum = (double)done;
    MPI_Allreduce(&done, &x->stonewall_min, 1, MPI_INT64_T, MPI_MIN, r->comm);
    MPI_Allreduce(&done, &x->stonewall_max, 1, MPI_INT64_T, MPI_MAX, r->comm);
    MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_DOUBLE, MPI_SUM, r->comm);
    x->stonewall_mean = sum / r->tasks;
    x->stonewalled = x->stonewall_min < r->plan->items;
    return x->stonewall_max;
}

/* It must have a place before anything is created. */
void tb_count_file_prepare(const struct tb_run *r)
{
    const char *path = r->options->status_file;
    if (!path || r->rank || !tb_selected(r->options, r->options->create_only))
        return;
    FILE *f = fopen(path, "a");
    if (!f || fclose(f))
        tb_fail(path, "open", -1, strerror(errno));
}

/* Written when the creation is over: an older count is replaced, never added to. */
void tb_count_file_save(const struct tb_run *r)
{
    const char *path = r->options->status_file;
    if (!path || r->rank)
        return;
    FILE *f = fopen(path, "w");
    if (!f)
        tb_fail(path, "open", -1, strerror(errno));
    fprintf(f, "%lld", (long long)r->present);
    bool written = !ferror(f);
    if (fclose(f) || !written)
        tb_fail(path, "write", -1, strerror(errno));
}

/* Rank 0 reads for all. A count above this run's items is of another test, and refused. */
int64_t tb_count_file_load(const struct tb_run *r)
{
    const char *path = r->options->status_file;
    long long count = 0;
    if (r->rank == 0) {
        FILE *f = fopen(path, "r");
        if (!f)
            tb_fail(path, "open", -1, strerror(errno));
        if (fscanf(f, "%lld", &count) != 1 || count < 0 || count > r->plan->items)
            tb_fail(path, "read", -1, "expected the count of items that a run with the same -n left");
        fclose(f);
    }
    MPI_Bcast(&count, 1, MPI_LONG_LONG, 0, r->comm);
    return count;
}
