/* What the MPI-IO test programs share: rank and number of ranks, and how a wrong byte or a failed call ends the run. */
#ifndef TB_TEST_RANKS_H
#define TB_TEST_RANKS_H

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static int rank, size;
static const char *folder;

static inline void start(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    folder = argc > 1 ? argv[1] : ".";
}

static inline void finish(void)
{
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        printf("all bytes are right, %d ranks\n", size);
    MPI_Finalize();
}

static inline void fail(const char *what, long at, long got, long expected)
{
    fprintf(stderr, "rank %d: %s: at %ld is %ld, not %ld\n", rank, what, at, got, expected);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static inline void check(int rc, const char *what)
{
    char text[MPI_MAX_ERROR_STRING];
    int n;
    if (rc == MPI_SUCCESS)
        return;
    MPI_Error_string(rc, text, &n);
    fprintf(stderr, "rank %d: %s: %s\n", rank, what, text);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static inline MPI_File open_by(MPI_Comm comm, const char *name, int amode)
{
    char path[4096];
    MPI_File file;
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    check(MPI_File_open(comm, path, amode, MPI_INFO_NULL, &file), name);
    return file;
}

static inline MPI_File open_file(const char *name, int more)
{
    return open_by(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR | more);
}

static inline void close_file(MPI_File *file)
{
    check(MPI_File_close(file), "close");
}

/* After this all ranks see what any wrote before: MPI's own words for it. */
static inline void sync_barrier_sync(MPI_File file)
{
    check(MPI_File_sync(file), "sync");
    MPI_Barrier(MPI_COMM_WORLD);
    check(MPI_File_sync(file), "sync");
}

#endif
