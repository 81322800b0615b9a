/*
 * Parallel HDF5 by MPI-IO: contiguous, chunked, compressed and growing data sets of
 * all ranks, written by hyperslabs independently and collectively, and attributes;
 * with each rank's own metadata operations and with collective ones.  Flushed, closed,
 * opened again and changed, opened again and compared.  Ends with 0 where all is right.
 *
 *   phdf5 FILE
 */
#include <hdf5.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#define ROWS 300 /* of a rank */
#define COLUMNS 257

/* PACKED is shuffled and compressed; GROWING begins without rows and gets them step by step. */
enum kind { CONTIGUOUS, CHUNKED, PACKED, GROWING };

static int rank, size;

/* Ends all ranks: the others would wait forever in their next collective call. */
static void fail(const char *what)
{
    fprintf(stderr, "rank %d: %s\n", rank, what);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static hid_t must(hid_t id, const char *what)
{
    if (id < 0)
        fail(what);
    return id;
}

static hid_t transfer(int collective)
{
    hid_t list = must(H5Pcreate(H5P_DATASET_XFER), "transfer list");
    H5Pset_dxpl_mpio(list, collective ? H5FD_MPIO_COLLECTIVE : H5FD_MPIO_INDEPENDENT);
    return list;
}

/* This rank's rows of the data set; `shift`: another rank's. */
static hid_t rows_of(hid_t set, int shift)
{
    hsize_t start[2] = {(hsize_t)((rank + shift) % size) * ROWS, 0}, count[2] = {ROWS, COLUMNS};
    hid_t space = must(H5Dget_space(set), "space");
    H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, count, NULL);
    return space;
}

/*
 * Chunks of 64 x 100 fit neither the rows of a rank nor the columns: ranks share chunks, and
 * those at the edges are filled in part.
 */
static hid_t layout_of(enum kind kind)
{
    hid_t made = must(H5Pcreate(H5P_DATASET_CREATE), "list");
    hsize_t chunk[2] = {64, 100};
    H5Pset_obj_track_times(made, 0); /* two runs make the same file */
    if (kind != CONTIGUOUS)
        H5Pset_chunk(made, 2, chunk);
    if (kind == PACKED) {
        H5Pset_shuffle(made);
        H5Pset_deflate(made, 4);
    }
    return made;
}

/* GROWING is extended by half a rank's rows at a time, by all ranks together. */
static hid_t make_set(hid_t file, const char *name, enum kind kind)
{
    hsize_t all[2] = {(hsize_t)size * ROWS, COLUMNS}, none[2] = {0, COLUMNS}, most[2] = {H5S_UNLIMITED, COLUMNS};
    hid_t space = must(kind == GROWING ? H5Screate_simple(2, none, most) : H5Screate_simple(2, all, NULL), "space");
    hid_t set = must(H5Dcreate2(file, name, H5T_NATIVE_DOUBLE, space, H5P_DEFAULT, layout_of(kind), H5P_DEFAULT), name);
    for (hsize_t rows = ROWS / 2; kind == GROWING && rows <= all[0]; rows += ROWS / 2)
        if (H5Dset_extent(set, (hsize_t[]){rows, COLUMNS}) < 0)
            fail("set_extent");
    return set;
}

/* Each place and each pass has a value of its own; the halves tell the passes apart. */
static double value(int row, int column, int pass)
{
    return row * 1000.0 + column + pass * 0.5;
}

static void write_rows(hid_t set, const char *name, int collective, int pass)
{
    static double values[ROWS][COLUMNS];
    hsize_t mine[2] = {ROWS, COLUMNS};
    hid_t memory = must(H5Screate_simple(2, mine, NULL), "memory");
    for (int i = 0; i < ROWS; i++)
        for (int k = 0; k < COLUMNS; k++)
            values[i][k] = value(rank * ROWS + i, k, pass);
    if (H5Dwrite(set, H5T_NATIVE_DOUBLE, memory, rows_of(set, 0), transfer(collective), values) < 0)
        fail(name);
}

static void write_set(hid_t file, const char *name, enum kind kind, int collective)
{
    hid_t set = make_set(file, name, kind), scalar = must(H5Screate(H5S_SCALAR), "scalar");
    hid_t attribute = must(H5Acreate2(set, "kind", H5T_NATIVE_INT, scalar, H5P_DEFAULT, H5P_DEFAULT), "attribute");
    H5Awrite(attribute, H5T_NATIVE_INT, &(int){kind});
    H5Aclose(attribute);
    write_rows(set, name, collective, 0);
    H5Dclose(set);
}

/* The values that a second pass changes. */
static void change_set(hid_t file, const char *name, int collective)
{
    hid_t set = must(H5Dopen2(file, name, H5P_DEFAULT), name);
    write_rows(set, name, collective, 1);
    H5Dclose(set);
}

/* A rank reads its neighbour's rows, which no cache of its own can hold. */
static void compare_set(hid_t file, const char *name, int collective, int pass)
{
    hsize_t mine[2] = {ROWS, COLUMNS};
    static double values[ROWS][COLUMNS];
    hid_t set = must(H5Dopen2(file, name, H5P_DEFAULT), name), memory = must(H5Screate_simple(2, mine, NULL), "memory");
    if (H5Dread(set, H5T_NATIVE_DOUBLE, memory, rows_of(set, 1), transfer(collective), values) < 0)
        fail(name);
    for (int i = 0; i < ROWS; i++)
        for (int k = 0; k < COLUMNS; k++)
            if (values[i][k] != value((rank + 1) % size * ROWS + i, k, pass))
                fail(name);
    H5Dclose(set);
}

/* Metadata is read and written by each rank for itself, or by all ranks in one collective call. */
static hid_t by_mpi(int collective_metadata)
{
    hid_t list = must(H5Pcreate(H5P_FILE_ACCESS), "access list");
    H5Pset_fapl_mpio(list, MPI_COMM_WORLD, MPI_INFO_NULL);
    H5Pset_coll_metadata_write(list, collective_metadata);
    H5Pset_all_coll_metadata_ops(list, collective_metadata);
    return list;
}

static void close_file(hid_t file)
{
    if (H5Fclose(file) < 0)
        fail("close");
}

static void round_trip(const char *path, int collective_metadata)
{
    hid_t file = must(H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, by_mpi(collective_metadata)), "create");
    write_set(file, "independent", CONTIGUOUS, 0);
    write_set(file, "collective", CONTIGUOUS, 1);
    write_set(file, "chunked", CHUNKED, 1);
    if (H5Fflush(file, H5F_SCOPE_GLOBAL) < 0)
        fail("flush");
    write_set(file, "packed", PACKED, 1); /* parallel filters are collective */
    write_set(file, "growing", GROWING, 1);
    close_file(file);
    file = must(H5Fopen(path, H5F_ACC_RDWR, by_mpi(collective_metadata)), "open");
    compare_set(file, "growing", 1, 0);
    change_set(file, "independent", 0);
    change_set(file, "packed", 1);
    close_file(file);
    file = must(H5Fopen(path, H5F_ACC_RDONLY, by_mpi(collective_metadata)), "open");
    compare_set(file, "independent", 1, 1);
    compare_set(file, "collective", 0, 0);
    compare_set(file, "chunked", 1, 0);
    compare_set(file, "packed", 1, 1);
    compare_set(file, "growing", 0, 0);
    close_file(file);
}

int main(int argc, char **argv)
{
    char second[4096];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const char *path = argc > 1 ? argv[1] : "phdf5.h5";
    snprintf(second, sizeof(second), "%s.together", path);
    round_trip(path, 0);
    round_trip(second, 1);
    if (rank == 0)
        printf("all values are right, %d ranks\n", size);
    H5close();
    MPI_Finalize();
    return 0;
}
