/*
 * The ranks of a run: how many, on how many nodes, with one clock; and the one way in which all of them end. A rank that fails
 * ends the others too, because they would wait for it in the next barrier.
 */
#include "driver.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

static double monotonic(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Rank 0's number of ranks a node counts for all. */
static void count_nodes(struct tb_world *w, MPI_Comm comm, MPI_Comm node)
{
    int local, first;
    MPI_Comm_rank(node, &local);
    MPI_Comm_size(node, &w->tasks_per_node);
    first = local == 0;
    MPI_Allreduce(&first, &w->nodes, 1, MPI_INT, MPI_SUM, comm);
    MPI_Bcast(&w->tasks_per_node, 1, MPI_INT, 0, comm);
}

/*
 * The ranks of a node have one clock. Those of other nodes are compared after a barrier, by the first rank of each: how
 * long it takes to leave the barrier remains as an error, microseconds on an idle node and many milliseconds where ranks
 * wait for a processor.
 */
static void agree_on_clock(struct tb_world *w, MPI_Comm comm, MPI_Comm node)
{
    double mine, first;
    MPI_Barrier(comm);
    first = mine = monotonic();
    MPI_Bcast(&first, 1, MPI_DOUBLE, 0, comm);
    w->clock_offset = first - mine;
    MPI_Bcast(&w->clock_offset, 1, MPI_DOUBLE, 0, node);
}

double tb_clock(const struct tb_world *w)
{
    return monotonic() + w->clock_offset;
}

/* A node is what shares memory. */
struct tb_world tb_look_around(MPI_Comm comm)
{
    struct tb_world w = {.comm = comm};
    MPI_Comm_rank(comm, &w.rank);
    MPI_Comm_size(comm, &w.tasks);
    MPI_Comm node;
    MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    count_nodes(&w, comm, node);
    agree_on_clock(&w, comm, node);
    MPI_Comm_free(&node);
    return w;
}

bool tb_answered(const struct tb_world *w, int argc, char **argv, const char *usage)
{
    bool version = argc == 2 && !strcmp(argv[1], "--version");
    if (!version && !(usage && argc == 2 && !strcmp(argv[1], "--help")))
        return false;
    if (w->rank == 0)
        printf("%s\n", version ? TB_PROGRAM " " TB_VERSION : usage);
    return true;
}

/* Ends all ranks: one that waits in a collective call for a dead one would wait forever. */
_Noreturn void tb_fail(const char *path, const char *what, int64_t offset, const char *reason)
{
    if (offset < 0)
        fprintf(stderr, "%s: %s: %s: %s\n", TB_PROGRAM, path, what, reason);
    else
        fprintf(stderr, "%s: %s: %s at offset %lld: %s\n", TB_PROGRAM, path, what, (long long)offset, reason);
    fflush(stderr);
    MPI_Abort(MPI_COMM_WORLD, TB_EXIT_IO);
    abort();
}

/* Aligned to pages, as O_DIRECT asks for. */
void *tb_buffer(size_t bytes)
{
    void *data = aligned_alloc(4096, (bytes + 4096) / 4096 * 4096);
    if (data)
        return data;
    fprintf(stderr, "%s: no memory for %zu bytes\n", TB_PROGRAM, bytes);
    MPI_Abort(MPI_COMM_WORLD, TB_EXIT_IO);
    abort();
}
