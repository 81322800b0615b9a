/*
 * The MPI layer: what POSIX cannot see of a program's MPI-IO.  It reads the
 * tierbench_ hints of MPI_Info and asks the preload library for what they say
 * (hints.c), and tells a trace what was asked of MPI (events.h).  The bytes go
 * their usual way: MPI library, POSIX calls, preload library.
 *
 * Each call is wrapped by both its names.  C programs use MPI_..., and Open MPI's
 * Fortran bindings of all three kinds call PMPI_... of libmpi.  Each name calls the
 * next library's same name, so that other tools in LD_PRELOAD still see it; the
 * thread that is in a wrapper already passes on.
 *
 * The library is preloaded into programs without MPI too.  So it needs no symbol
 * of libmpi to be loaded: functions and predefined handles are looked up when the
 * first wrapper is called.  Built for Open MPI's handles; under another MPI library
 * it passes everything on.
 *
 * Nothing here communicates: a rank that lacks the layer does no harm.
 */
#ifndef TB_MPI_LAYER_H
#define TB_MPI_LAYER_H

#include <limits.h>
#include <mpi.h>
#include <stdbool.h>

#include "../wrap.h"
#include "events.h"

/* The next library's function; ends the program where there is none. */
void *tb_mpi_next(const char *name);
#define NEXT(name) TB_FOUND_ONCE(tb_mpi_next, name, #name)
/* Not MPI_INFO_NULL, which is a symbol of the MPI library. */
bool tb_mpi_is_info(MPI_Info info);

/* The library that runs is the one this was built for, and this thread is in no wrapper. */
bool tb_mpi_enter(void);
void tb_mpi_leave(void);

/* An open file of this process. */
struct tb_mpi_file {
    MPI_File handle;
    struct tb_mpi_file *next;
    uint64_t number;
    int rank, ranks, amode;
    const char *access; /* the value of tierbench_access that holds, NULL: none */
    char path[PATH_MAX];
};
struct tb_mpi_file *tb_mpi_file_add(MPI_File handle, MPI_Comm comm, const char *name, int amode);
/* NULL: not opened through the layer. */
struct tb_mpi_file *tb_mpi_file_of(MPI_File handle);
/* Out of the table; the caller frees it. */
struct tb_mpi_file *tb_mpi_file_take(MPI_File handle);

/* Ask for what `info` says of the file; what cannot be had is said by rank 0, and the file stays as it was. */
void tb_mpi_hints_apply(struct tb_mpi_file *file, MPI_Info info);
/* The values that hold, into `info`. */
void tb_mpi_hints_show(const struct tb_mpi_file *file, MPI_Info info);
bool tb_mpi_has_hints(MPI_Info info);

/* A listener is set. */
bool tb_mpi_traces(void);
double tb_mpi_now(void);
/* Fills in what the file says. */
void tb_mpi_tell(const struct tb_mpi_file *file, struct tb_mpi_event *event);

#endif
