/*
 * The metadata program of Summit's burst buffer tutorial: every rank opens a file of its own, writes a value and
 * closes it, a million times; the seconds that took. One file a rank, in the directory where the program runs, so
 * that all the work is opens and closes. The files are removed at the end, outside of the time.
 *
 * usage: tb-metadata [COUNT]
 */
#include "driver.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PUBLISHED_COUNT = 1000000, COUNT_MAX = 1000000000 };
static const char usage[] = "usage: tb-metadata [COUNT]; COUNT is a whole number from 1 to 1000000000";

/* 0: it is no count. The published run made a million. */
static long count_of(int argc, char **argv)
{
    char *end = NULL;
    long count = argc > 1 ? strtol(argv[1], &end, 10) : PUBLISHED_COUNT;
    return argc > 2 || (end && (end == argv[1] || *end)) || count > COUNT_MAX ? 0 : count;
}

static _Noreturn void failed(const char *path, const char *what)
{
    tb_fail(path, what, -1, strerror(errno));
}

/* An open that makes or finds the file, one small write, a close: nothing else is timed. */
static void write_value(const char *path, int value)
{
    int fd = open(path, O_WRONLY | O_CREAT, 0644);
    if (fd < 0)
        failed(path, "open");
    if (write(fd, &value, sizeof(value)) != (ssize_t)sizeof(value))
        failed(path, "write");
    if (close(fd))
        failed(path, "close");
}

/* Short or missing is a failure like any other. */
static int read_value(const char *path)
{
    int value = -1, fd = open(path, O_RDONLY);
    if (fd < 0 || read(fd, &value, sizeof(value)) != (ssize_t)sizeof(value) || close(fd))
        failed(path, "read");
    return value;
}

/* The last value must be in the file: what was counted was done. */
static void check_and_remove(const char *path, int expected)
{
    if (read_value(path) != expected) {
        fprintf(stderr, "tb-metadata: %s: does not hold the last value, %d\n", path, expected);
        MPI_Abort(MPI_COMM_WORLD, TB_EXIT_DATA);
    }
    if (unlink(path))
        failed(path, "remove");
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    struct tb_world world = tb_look_around(MPI_COMM_WORLD);
    if (tb_answered(&world, argc, argv, usage)) {
        MPI_Finalize();
        return 0;
    }
    long count = count_of(argc, argv);
    if (count < 1) {
        if (world.rank == 0)
            fprintf(stderr, "tb-metadata: %s\n", usage);
        MPI_Finalize();
        return TB_EXIT_USAGE;
    }
    char path[64];
    snprintf(path, sizeof(path), "metadata.%08d", world.rank);
    MPI_Barrier(MPI_COMM_WORLD);
    double start = MPI_Wtime();
    for (long i = 1; i <= count; i++)
        write_value(path, (int)i);
    MPI_Barrier(MPI_COMM_WORLD);
    double seconds = MPI_Wtime() - start;
    check_and_remove(path, (int)count);
    if (world.rank == 0)
        printf(TB_PROGRAM "-" TB_VERSION ": %d ranks opened, wrote and closed a file %ld times each\nDuration: %10.4f\n", world.tasks,
               count, seconds);
    MPI_Finalize();
    return 0;
}
