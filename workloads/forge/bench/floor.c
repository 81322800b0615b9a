/*
 * tb-forge-floor FILE REQUEST TOTAL: the least that forwarding can cost. Rank 1 sends each request as one message, rank 0
 * writes it and answers with 64 bytes, and nothing else is done. Prints MiB/s.
 */
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { HEAD = 64 }; /* the fixed part of a tb-forge message */

/* The file is made anew, so that each run writes new blocks. A short write has no figure. */
static void serve(const char *file, char *bytes, size_t request, long total)
{
    int fd = open(file, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    for (long at = 0; at < total; at += (long)request) {
        MPI_Recv(bytes, (int)(request + HEAD), MPI_BYTE, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (pwrite(fd, bytes + HEAD, request, at) != (ssize_t)request)
            MPI_Abort(MPI_COMM_WORLD, 3);
        MPI_Send(bytes, HEAD, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
    }
    close(fd);
}

/* One request at a time, each waiting for its answer: so is the default of tb-forge (in-flight 1). */
static void ask(char *bytes, size_t request, long total)
{
    char answer[HEAD];
    double began = MPI_Wtime();
    for (long at = 0; at < total; at += (long)request) {
        MPI_Send(bytes, (int)(request + HEAD), MPI_BYTE, 0, 0, MPI_COMM_WORLD);
        MPI_Recv(answer, HEAD, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    printf("%.2f\n", (double)total / 1048576 / (MPI_Wtime() - began));
}

/* Both numbers are read without a check of what comes after the digits: the benchmark that calls this makes them. */
int main(int argc, char **argv)
{
    int rank, ranks;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    long request = argc == 4 ? atol(argv[2]) : 0, total = argc == 4 ? atol(argv[3]) : 0;
    char *bytes = request > 0 && ranks == 2 ? malloc((size_t)request + HEAD) : NULL;
    if (!bytes) {
        fprintf(stderr, "usage: tb-forge-floor FILE REQUEST TOTAL, on two ranks\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    } else {
        memset(bytes, 1, (size_t)request + HEAD);
        if (rank == 0)
            serve(argv[1], bytes, (size_t)request, total);
        else
            ask(bytes, (size_t)request, total);
    }
    free(bytes);
    return MPI_Finalize();
}
