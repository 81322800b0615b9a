/*
 * Files from open to close: hints are taken from MPI_Info and shown in it, and a trace is
 * told. The MPI library does all the work; what is added here happens after its call, and
 * changes none of its results.
 */
#include <stdlib.h>

#include "wrap.h"

/* All ranks of the file take part in these. */
static void tell(const struct tb_mpi_file *f, enum tb_mpi_operation operation, double start, int error, bool hints)
{
    struct tb_mpi_event event = {.operation = operation,
                                 .way = f->ranks > 1 ? TB_MPI_COLLECTIVE : TB_MPI_INDEPENDENT,
                                 .error = error,
                                 .hints = hints,
                                 .start = start,
                                 .end = tb_mpi_now(),
                                 .offset = TB_MPI_NO_OFFSET};
    tb_mpi_tell(f, &event);
}

/* Only a file that was opened is known from here on; hints are asked for when it is. */
static int file_open(__typeof__(&MPI_File_open) next, MPI_Comm comm, const char *name, int amode, MPI_Info info, MPI_File *handle)
{
    if (!tb_mpi_enter())
        return next(comm, name, amode, info, handle);
    double start = tb_mpi_now();
    int rc = next(comm, name, amode, info, handle);
    struct tb_mpi_file *f = rc ? NULL : tb_mpi_file_add(*handle, comm, name, amode);
    if (f) {
        tell(f, TB_MPI_OPEN, start, rc, tb_mpi_is_info(info));
        tb_mpi_hints_apply(f, info);
    }
    tb_mpi_leave();
    return rc;
}

static int file_close(__typeof__(&MPI_File_close) next, MPI_File *handle)
{
    if (!tb_mpi_enter())
        return next(handle);
    double start = tb_mpi_now();
    struct tb_mpi_file *f = tb_mpi_file_take(*handle); /* the handle is another file's as soon as it is closed */
    int rc = next(handle);
    if (f)
        tell(f, TB_MPI_CLOSE, start, rc, false);
    free(f);
    tb_mpi_leave();
    return rc;
}

/* Hints hold from now on, as MPI has it. */
static int file_set_info(__typeof__(&MPI_File_set_info) next, MPI_File handle, MPI_Info info)
{
    if (!tb_mpi_enter())
        return next(handle, info);
    double start = tb_mpi_now();
    int rc = next(handle, info);
    struct tb_mpi_file *f = tb_mpi_file_of(handle);
    if (f) {
        tell(f, TB_MPI_INFO, start, rc, tb_mpi_is_info(info));
        tb_mpi_hints_apply(f, info);
    }
    tb_mpi_leave();
    return rc;
}

/* The library's own hints, with what holds of ours. */
static int file_get_info(__typeof__(&MPI_File_get_info) next, MPI_File handle, MPI_Info *info)
{
    if (!tb_mpi_enter())
        return next(handle, info);
    int rc = next(handle, info);
    const struct tb_mpi_file *f = tb_mpi_file_of(handle);
    if (f && !rc)
        tb_mpi_hints_show(f, *info);
    tb_mpi_leave();
    return rc;
}

/* The info of a view is one of the file, too. */
static int file_set_view(__typeof__(&MPI_File_set_view) next, MPI_File handle, MPI_Offset at, MPI_Datatype unit, MPI_Datatype type,
                         const char *representation, MPI_Info info)
{
    if (!tb_mpi_enter())
        return next(handle, at, unit, type, representation, info);
    double start = tb_mpi_now();
    int rc = next(handle, at, unit, type, representation, info);
    struct tb_mpi_file *f = tb_mpi_file_of(handle);
    if (f) {
        tell(f, TB_MPI_VIEW, start, rc, tb_mpi_is_info(info));
        tb_mpi_hints_apply(f, info);
    }
    tb_mpi_leave();
    return rc;
}

/* Told with its time: it is what MPI-IO has in the place of fsync. */
static int file_sync(__typeof__(&MPI_File_sync) next, MPI_File handle)
{
    if (!tb_mpi_enter())
        return next(handle);
    double start = tb_mpi_now();
    int rc = next(handle);
    const struct tb_mpi_file *f = tb_mpi_file_of(handle);
    if (f)
        tell(f, TB_MPI_SYNC, start, rc, false);
    tb_mpi_leave();
    return rc;
}

TB_WRAP(File_open, file_open, (MPI_Comm comm, const char *name, int amode, MPI_Info info, MPI_File *handle),
        (comm, name, amode, info, handle))
TB_WRAP(File_close, file_close, (MPI_File * handle), (handle))
TB_WRAP(File_set_info, file_set_info, (MPI_File handle, MPI_Info info), (handle, info))
TB_WRAP(File_get_info, file_get_info, (MPI_File handle, MPI_Info *info), (handle, info))
TB_WRAP(File_set_view, file_set_view,
        (MPI_File handle, MPI_Offset at, MPI_Datatype unit, MPI_Datatype type, const char *representation, MPI_Info info),
        (handle, at, unit, type, representation, info))
TB_WRAP(File_sync, file_sync, (MPI_File handle), (handle))
