/*
 * MPI-IO events: every call of each way is told once, with its offset in the file
 * and its bytes, also when it is made by the profiling name or by Fortran's.
 *
 *   events FILE         ends with 0 where all is as expected
 */
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../events.h"

#define TOLD_MAX 64

static struct tb_mpi_event told[TOLD_MAX];
static char paths[TOLD_MAX][256];
static int n_told, n_seen, rank, ranks, failed;
static const char *path;

/* Copies the event and its path, which may be gone after this call. */
static void note(const struct tb_mpi_event *event, void *argument)
{
    if (argument != &n_told || n_told == TOLD_MAX)
        abort();
    snprintf(paths[n_told], sizeof(paths[0]), "%s", event->path);
    told[n_told++] = *event;
}

/* The test goes on after a failure: one run shows all that is wrong. */
static void fail(const char *what, const char *which, long got, long expected)
{
    fprintf(stderr, "rank %d: %s: %s is %ld, not %ld\n", rank, what, which, got, expected);
    failed = 1;
}

static void compare(const char *what, const char *which, long got, long expected)
{
    if (got != expected)
        fail(what, which, got, expected);
}

/* The next event, and none after it. */
static const struct tb_mpi_event *expect(const char *what, enum tb_mpi_operation operation, enum tb_mpi_way way, long offset, long bytes)
{
    const struct tb_mpi_event *e = &told[n_seen];
    compare(what, "number of events", n_told, n_seen + 1);
    n_seen = n_told;
    compare(what, "operation", e->operation, operation);
    compare(what, "way", e->way, way);
    compare(what, "offset", e->offset, offset);
    compare(what, "bytes", (long)e->bytes, bytes);
    compare(what, "rank", e->rank, rank);
    compare(what, "ranks", e->ranks, ranks);
    compare(what, "file", (long)e->file, (long)told[0].file);
    compare(what, "error", e->error, 0);
    compare(what, "amode", e->amode, MPI_MODE_CREATE | MPI_MODE_RDWR);
    compare(what, "size", e->bytes_of_event, sizeof(*e));
    compare(what, "the path's", strcmp(paths[n_seen - 1], path), 0);
    compare(what, "its time's", e->end >= e->start && e->start > 0, 1);
    return e;
}

#define WRITE TB_MPI_WRITE
#define READ TB_MPI_READ
#define ALONE TB_MPI_INDEPENDENT
#define ALL TB_MPI_COLLECTIVE
#define NOWHERE TB_MPI_NO_OFFSET

static int n[100];

/* What all ranks of the file do is collective where there are several. */
static enum tb_mpi_way every_way(void)
{
    return ranks > 1 ? ALL : ALONE;
}

/* Offsets of the views below: each rank's ints follow after 1000 bytes, 100 ints a rank. */
static long at(int ints)
{
    return 1000 + rank * 400L + ints * 4L;
}

/* Offsets are given in ints of the view, and told in bytes of the file. */
static void blocking(MPI_File f)
{
    MPI_File_write_at(f, 3, n, 10, MPI_INT, MPI_STATUS_IGNORE);
    expect("write_at", WRITE, ALONE, at(3), 40);
    PMPI_File_write_at(f, 3, n, 10, MPI_INT, MPI_STATUS_IGNORE);
    expect("PMPI write_at", WRITE, ALONE, at(3), 40);
    MPI_File_read_at(f, 3, n, 10, MPI_INT, MPI_STATUS_IGNORE);
    expect("read_at", READ, ALONE, at(3), 40);
    MPI_File_write_at_all(f, 0, n, 100, MPI_INT, MPI_STATUS_IGNORE);
    expect("write_at_all", WRITE, ALL, at(0), 400);
    MPI_File_read_at_all(f, 50, n, 50, MPI_INT, MPI_STATUS_IGNORE);
    expect("read_at_all", READ, ALL, at(50), 200);
    MPI_File_seek(f, 7, MPI_SEEK_SET);
    MPI_File_write(f, n, 1, MPI_INT, MPI_STATUS_IGNORE);
    expect("write", WRITE, ALONE, at(7), 4);
    MPI_File_read(f, n, 2, MPI_INT, MPI_STATUS_IGNORE);
    expect("read", READ, ALONE, at(8), 8);
    MPI_File_write_all(f, n, 3, MPI_INT, MPI_STATUS_IGNORE);
    expect("write_all", WRITE, ALL, at(10), 12);
    MPI_File_read_all(f, n, 3, MPI_INT, MPI_STATUS_IGNORE);
    expect("read_all", READ, ALL, at(13), 12);
}

static void started(MPI_File f)
{
    MPI_Request r;
    MPI_File_iwrite_at(f, 1, n, 2, MPI_INT, &r);
    MPI_Wait(&r, MPI_STATUS_IGNORE);
    expect("iwrite_at", WRITE, TB_MPI_NONBLOCKING, at(1), 8);
    MPI_File_iread_at(f, 1, n, 2, MPI_INT, &r);
    MPI_Wait(&r, MPI_STATUS_IGNORE);
    expect("iread_at", READ, TB_MPI_NONBLOCKING, at(1), 8);
    MPI_File_seek(f, 20, MPI_SEEK_SET);
    MPI_File_iwrite(f, n, 2, MPI_INT, &r);
    MPI_Wait(&r, MPI_STATUS_IGNORE);
    expect("iwrite", WRITE, TB_MPI_NONBLOCKING, at(20), 8);
    const char *library = getenv("OMPI_MCA_io");
    if (library && strstr(library, "romio")) /* Open MPI 4's ROMIO has no nonblocking collective calls: it crashes */
        return;
    MPI_File_iwrite_at_all(f, 1, n, 2, MPI_INT, &r);
    MPI_Wait(&r, MPI_STATUS_IGNORE);
    expect("iwrite_at_all", WRITE, TB_MPI_NONBLOCKING, at(1), 8);
    MPI_File_iread_all(f, n, 2, MPI_INT, &r);
    MPI_Wait(&r, MPI_STATUS_IGNORE);
    expect("iread_all", READ, TB_MPI_NONBLOCKING, at(22), 8);
}

/* The two calls of a pair are one event. */
static void split(MPI_File f)
{
    MPI_File_write_at_all_begin(f, 5, n, 2, MPI_INT);
    MPI_File_write_at_all_end(f, n, MPI_STATUS_IGNORE);
    expect("write_at_all_begin", WRITE, TB_MPI_SPLIT, at(5), 8);
    MPI_File_seek(f, 5, MPI_SEEK_SET);
    MPI_File_read_all_begin(f, n, 2, MPI_INT);
    MPI_File_read_all_end(f, n, MPI_STATUS_IGNORE);
    expect("read_all_begin", READ, TB_MPI_SPLIT, at(5), 8);
}

/* The shared pointer needs the same view on all ranks. */
static void shared(MPI_File f)
{
    MPI_File_set_view(f, 5000, MPI_INT, MPI_INT, "native", MPI_INFO_NULL);
    compare("view", "hints", expect("set_view", TB_MPI_VIEW, every_way(), NOWHERE, 0)->hints, 0);
    MPI_File_write_shared(f, n, 2, MPI_INT, MPI_STATUS_IGNORE);
    expect("write_shared", WRITE, ALONE, NOWHERE, 8);
    MPI_File_write_ordered(f, n, 3, MPI_INT, MPI_STATUS_IGNORE);
    expect("write_ordered", WRITE, ALL, NOWHERE, 12);
    MPI_File_write_ordered_begin(f, n, 3, MPI_INT);
    MPI_File_write_ordered_end(f, n, MPI_STATUS_IGNORE);
    expect("write_ordered_begin", WRITE, TB_MPI_SPLIT, NOWHERE, 12);
}

/* By Open MPI's Fortran bindings, called as compiled Fortran calls them. */
static void fortran(MPI_File f)
{
    void *library = dlopen("libmpi_mpifh.so.40", RTLD_LAZY);
    typedef void write_at_function(MPI_Fint *, MPI_Offset *, void *, MPI_Fint *, MPI_Fint *, MPI_Fint *, MPI_Fint *);
    typedef void sync_function(MPI_Fint *, MPI_Fint *);
    write_at_function *write_at = library ? (write_at_function *)dlsym(library, "mpi_file_write_at_") : NULL;
    sync_function *sync = library ? (sync_function *)dlsym(library, "mpi_file_sync_") : NULL;
    MPI_Fint handle = MPI_File_c2f(f), count = 4, type = MPI_Type_c2f(MPI_INT), error = 0, status[sizeof(MPI_Status) / sizeof(MPI_Fint)];
    MPI_Offset offset = 2;
    if (!write_at || !sync) {
        if (rank == 0)
            printf("no Fortran bindings here\n");
        return;
    }
    write_at(&handle, &offset, n, &count, &type, status, &error);
    expect("Fortran's write_at", WRITE, ALONE, at(2), 16);
    sync(&handle, &error);
    expect("Fortran's sync", TB_MPI_SYNC, every_way(), NOWHERE, 0);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    tb_mpi_events_function *listen = (tb_mpi_events_function *)dlsym(RTLD_DEFAULT, "tb_mpi_events");
    MPI_File f;
    MPI_Info info;
    path = argc > 1 ? argv[1] : "events";
    /* A second consumer must be refused as long as the first one listens. */
    if (!listen || !listen(note, &n_told) || listen(note, NULL)) {
        fprintf(stderr, "no events, or two consumers of them\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    MPI_Info_create(&info);
    MPI_Info_set(info, "cb_nodes", "1");
    MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR, info, &f);
    compare("open", "hints", expect("open", TB_MPI_OPEN, every_way(), NOWHERE, 0)->hints, 1);
    MPI_File_set_view(f, at(0), MPI_INT, MPI_INT, "native", info);
    compare("view", "hints", expect("set_view", TB_MPI_VIEW, every_way(), NOWHERE, 0)->hints, 1);
    blocking(f);
    started(f);
    split(f);
    fortran(f);
    shared(f);
    MPI_File_set_info(f, info);
    expect("set_info", TB_MPI_INFO, every_way(), NOWHERE, 0);
    listen(NULL, NULL);
    MPI_File_write_at(f, 0, n, 1, MPI_INT, MPI_STATUS_IGNORE);
    compare("no listener", "number of events", n_told, n_seen);
    listen(note, &n_told);
    MPI_File_close(&f);
    expect("close", TB_MPI_CLOSE, every_way(), NOWHERE, 0);
    MPI_Info_free(&info);
    MPI_Allreduce(MPI_IN_PLACE, &failed, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    if (rank == 0 && !failed)
        printf("%d events as expected\n", n_told);
    MPI_Finalize();
    return failed;
}
