/*
 * Transfers by parallel HDF5. A segment is a dataset of 64-bit integers, Dataset-0000.SSSS, and a transfer a range of
 * it; the datasets are made at open, because that needs all ranks of a shared file.
 */
#include "tb_ior.h"

#include <hdf5.h>

/* HDF5 prints its own stack of reasons before. */
static void check(const struct tb_file *f, const char *what, int64_t offset, int64_t code)
{
    if (code < 0)
        tb_fail(f->path, what, offset, "HDF5 failed (see above)");
}

static const char *hdf5_version(void)
{
    static char text[64];
    unsigned major, minor, release;
    H5get_libversion(&major, &minor, &release);
    snprintf(text, sizeof(text), "%u.%u.%u (Parallel)", major, minor, release);
    return text;
}

/* Bytes of one segment: of this rank alone, or of all ranks in a shared file. */
static int64_t set_bytes(const struct tb_file *f)
{
    return f->options->block * (f->options->file_per_process ? 1 : f->world->tasks);
}

static void name_set(char name[40], int64_t segment)
{
    snprintf(name, 40, "Dataset-0000.%04lld", (long long)segment);
}

/* All datasets at once: collective metadata must not be part of the transfers. */
static void create_sets(struct tb_file *f)
{
    char name[40];
    hid_t properties = H5Pcreate(H5P_DATASET_CREATE);
    if (f->options->no_fill)
        check(f, "no fill", -1, H5Pset_fill_time(properties, H5D_FILL_TIME_NEVER));
    for (int64_t segment = 0; segment < f->options->segments; segment++) {
        name_set(name, segment);
        hid_t set = H5Dcreate2(f->hdf5_file, name, H5T_NATIVE_LLONG, f->hdf5_space, H5P_DEFAULT, properties, H5P_DEFAULT);
        check(f, "create dataset", -1, set);
        check(f, "close dataset", -1, H5Dclose(set));
    }
    H5Pclose(properties);
}

/* Only data of that size is aligned, as in IOR: headers are where they fit. */
static int64_t set_alignment(hid_t access, hsize_t alignment)
{
    return H5Pset_alignment(access, alignment, alignment);
}

/* MPI's hints are not passed on. The file has no dataset open yet (-1). */
static void hdf5_open(struct tb_file *f, bool create, bool shared)
{
    hid_t access = H5Pcreate(H5P_FILE_ACCESS);
    check(f, "open", -1, H5Pset_fapl_mpio(access, shared ? f->world->comm : MPI_COMM_SELF, MPI_INFO_NULL));
    if (f->options->alignment > 1)
        check(f, "set alignment", -1, set_alignment(access, (hsize_t)f->options->alignment));
    /* Made again even with -E, as IOR does: the datasets of an old file may have another size. */
    f->hdf5_file = create ? H5Fcreate(f->path, H5F_ACC_TRUNC, H5P_DEFAULT, access) : H5Fopen(f->path, H5F_ACC_RDONLY, access);
    check(f, "open", -1, f->hdf5_file);
    H5Pclose(access);
    hsize_t words = (hsize_t)set_bytes(f) / 8, transfer = (hsize_t)f->options->transfer / 8;
    f->hdf5_space = H5Screate_simple(1, &words, NULL);
    f->hdf5_memory = H5Screate_simple(1, &transfer, NULL);
    f->hdf5_access = H5Pcreate(H5P_DATASET_XFER);
    check(f, "open", -1, H5Pset_dxpl_mpio(f->hdf5_access, f->options->collective ? H5FD_MPIO_COLLECTIVE : H5FD_MPIO_INDEPENDENT));
    f->hdf5_segment = -1;
    if (create)
        create_sets(f);
}

static void leave_set(struct tb_file *f)
{
    if (f->hdf5_segment >= 0)
        check(f, "close dataset", -1, H5Dclose(f->hdf5_set));
    f->hdf5_segment = -1;
}

/* Opened when the first transfer reaches it, and kept until another segment comes. */
static void enter_set(struct tb_file *f, const char *what, int64_t segment, int64_t offset)
{
    char name[40];
    if (f->hdf5_segment == segment)
        return;
    leave_set(f);
    name_set(name, segment);
    f->hdf5_set = H5Dopen2(f->hdf5_file, name, H5P_DEFAULT);
    check(f, what, offset, f->hdf5_set);
    f->hdf5_segment = segment;
}

/* Offsets of the pattern are bytes of all segments; a dataset counts words of its own. */
static void select_range(struct tb_file *f, const char *what, size_t bytes, int64_t offset)
{
    hsize_t start = (hsize_t)(offset % set_bytes(f)) / 8, count = bytes / 8;
    enter_set(f, what, offset / set_bytes(f), offset);
    check(f, what, offset, H5Sselect_hyperslab(f->hdf5_space, H5S_SELECT_SET, &start, NULL, &count, NULL));
}

static void hdf5_write(struct tb_file *f, const void *data, size_t bytes, int64_t offset)
{
    select_range(f, "write", bytes, offset);
    check(f, "write", offset, H5Dwrite(f->hdf5_set, H5T_NATIVE_LLONG, f->hdf5_memory, f->hdf5_space, f->hdf5_access, data));
}

static void hdf5_read(struct tb_file *f, void *data, size_t bytes, int64_t offset)
{
    select_range(f, "read", bytes, offset);
    check(f, "read", offset, H5Dread(f->hdf5_set, H5T_NATIVE_LLONG, f->hdf5_memory, f->hdf5_space, f->hdf5_access, data));
}

/* The flush of HDF5 writes what the library holds; whether it also syncs is up to MPI-IO. */
static void hdf5_sync(struct tb_file *f)
{
    check(f, "flush", -1, H5Fflush(f->hdf5_file, H5F_SCOPE_LOCAL));
}

/* Handles of spaces and sets go first, because HDF5 keeps a file open as long as any of them is. */
static void hdf5_close(struct tb_file *f)
{
    leave_set(f);
    H5Sclose(f->hdf5_space);
    H5Sclose(f->hdf5_memory);
    H5Pclose(f->hdf5_access);
    check(f, "close", -1, H5Fclose(f->hdf5_file));
}

const struct tb_backend tb_hdf5 = {"HDF5", hdf5_version, true, hdf5_open, hdf5_write, hdf5_read, hdf5_sync, hdf5_sync, hdf5_close, false};
