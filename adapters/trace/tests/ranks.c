/*
 * Ranks on a shared file, on files of their own and on one through MPI-IO.  Arguments: a
 * folder, and how it ends: "well", "abort" by the last rank, "kill" of rank 1.
 */
#include <fcntl.h>
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define BLOCK 8192

static char bytes[BLOCK];

static void must(int condition, const char *what)
{
    if (condition)
        return;
    perror(what);
    exit(1);
}

static int open_in(const char *folder, const char *name, int number)
{
    char path[4096];
    snprintf(path, sizeof(path), number < 0 ? "%s/%s" : "%s/%s.%d", folder, name, number);
    int fd = open(path, O_RDWR | O_CREAT, 0644);
    must(fd >= 0, path);
    return fd;
}

/* Called after the writes and before the barrier, where the other ranks wait when one ends. */
static void end_early(const char *how, int rank, int ranks)
{
    if (strcmp(how, "abort") == 0 && rank == ranks - 1)
        MPI_Abort(MPI_COMM_WORLD, 3);
    if (strcmp(how, "kill") == 0 && rank == 1)
        kill(getpid(), SIGKILL);
}

int main(int argc, char **argv)
{
    int rank, ranks;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    must(argc == 3, "arguments");
    int fd = open_in(argv[1], "shared", -1);
    /* Ranks differ in the number of their writes and in their size, so their sums differ too. */
    for (int i = 0; i < 10 + rank; i++)
        must(pwrite(fd, bytes, BLOCK / (rank % 2 + 1), (off_t)(i * ranks + rank) * BLOCK) > 0, "pwrite");
    end_early(argv[2], rank, ranks);
    MPI_Barrier(MPI_COMM_WORLD);
    /* Rank 2 makes 200 times as many reads as the others, so that it is the slowest. */
    for (int i = 0; i < (rank == 2 ? 2000 : 10); i++)
        must(pread(fd, bytes, BLOCK, (off_t)(rank + ranks) % ranks * BLOCK) > 0, "pread");
    must(close(fd) == 0, "close");
    fd = open_in(argv[1], "own", rank);
    must(write(fd, bytes, 100u * (unsigned)(rank + 1)) > 0 && close(fd) == 0, "own");
    MPI_File file;
    char path[4096];
    snprintf(path, sizeof(path), "%s/mpiio", argv[1]);
    MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file);
    MPI_File_write_at_all(file, (MPI_Offset)rank * BLOCK, bytes, BLOCK, MPI_CHAR, MPI_STATUS_IGNORE);
    MPI_File_read_at(file, 0, bytes, 100, MPI_CHAR, MPI_STATUS_IGNORE);
    MPI_File_close(&file);
    MPI_Finalize();
    return 0;
}
