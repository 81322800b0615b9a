/*
 * MPI-IO events: what a program asks of its files through MPI, seen above the MPI library,
 * for a library that writes a trace. libtierbench_mpi.so tells one consumer in the same
 * process. Find the function by its name, so that a process without MPI needs nothing:
 *
 *   tb_mpi_events_function *f = (tb_mpi_events_function *)dlsym(RTLD_DEFAULT, "tb_mpi_events");
 *   if (f) f(consumer, argument);
 *
 * The consumer is called in the thread that made the MPI call, after the call, so by
 * several at once in a program with threads. It may do I/O and must make no MPI call.
 */
#ifndef TB_MPI_EVENTS_H
#define TB_MPI_EVENTS_H

#include <stdbool.h>
#include <stdint.h>

enum tb_mpi_operation {
    TB_MPI_OPEN,  /* `way` is collective where the file was opened by more than one rank */
    TB_MPI_CLOSE, /* after this `file` may be another's */
    TB_MPI_READ,
    TB_MPI_WRITE,
    TB_MPI_SYNC,
    TB_MPI_VIEW, /* MPI_File_set_view */
    TB_MPI_INFO, /* MPI_File_set_info */
};

enum tb_mpi_way {
    TB_MPI_INDEPENDENT,
    TB_MPI_COLLECTIVE,
    TB_MPI_SPLIT,       /* told at ..._begin */
    TB_MPI_NONBLOCKING, /* told when it was started; collective ones too */
};

#define TB_MPI_NO_OFFSET (-1)

struct tb_mpi_event {
    uint32_t bytes_of_event; /* sizeof(struct tb_mpi_event); it only grows */
    enum tb_mpi_operation operation;
    enum tb_mpi_way way;
    int rank, ranks;   /* in the communicator that opened the file */
    int amode;         /* MPI_MODE_...: as opened */
    int error;         /* what the call gave; MPI_SUCCESS is 0 */
    bool hints;        /* it was given an MPI_Info */
    uint64_t file;     /* the same from an open to its close, in this process */
    const char *path;  /* absolute, without "ufs:" and the like; valid during the call */
    int64_t offset;    /* reads and writes: of the first byte in the file, through the view; TB_MPI_NO_OFFSET: by the shared pointer */
    uint64_t bytes;    /* reads and writes: count times the size of the type, as asked for */
    double start, end; /* of the call, seconds of CLOCK_MONOTONIC */
};

typedef void tb_mpi_consumer(const struct tb_mpi_event *event, void *argument);
/* One consumer; NULL: none from now on.  False: there is another. */
typedef bool tb_mpi_events_function(tb_mpi_consumer *consumer, void *argument);

#endif
