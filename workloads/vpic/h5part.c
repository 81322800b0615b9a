/*
 * H5Part's layout by parallel HDF5: the calls that the library makes for the kernel, without the library. Transfers
 * are collective as H5Part's are, or independent where that is asked for.
 */
#include "tb_vpic.h"

#include <string.h>

/* HDF5 prints its own stack of reasons before. */
static hid_t must(const struct tb_h5part *h, const char *what, hid_t id)
{
    if (id < 0)
        tb_fail(h->path, what, -1, "HDF5 failed (see above)");
    return id;
}

/* H5Part names the program in an attribute of the file. */
static void write_origin(const struct tb_h5part *h)
{
    static const char origin[] = TB_PROGRAM;
    hid_t type = must(h, "attribute", H5Tcopy(H5T_C_S1)), space = must(h, "attribute", H5Screate(H5S_SCALAR));
    must(h, "attribute", H5Tset_size(type, sizeof(origin)));
    hid_t attribute = must(h, "attribute", H5Acreate2(h->file, "Origin", type, space, H5P_DEFAULT, H5P_DEFAULT));
    must(h, "attribute", H5Awrite(attribute, type, origin));
    must(h, "attribute", H5Aclose(attribute));
    H5Sclose(space);
    H5Tclose(type);
}

/*
 * All ranks have one block of each variable, in the order of the ranks. The selections are made once and serve all steps.
 * Metadata is written collectively, as otherwise every rank would write the same few bytes.
 */
void tb_h5part_create(struct tb_h5part *h, const struct tb_options *o, const struct tb_world *w)
{
    hsize_t mine = (hsize_t)o->particles, all = mine * (hsize_t)w->tasks, start = mine * (hsize_t)w->rank;
    h->path = o->path;
    hid_t access = must(h, "open", H5Pcreate(H5P_FILE_ACCESS));
    must(h, "open", H5Pset_fapl_mpio(access, w->comm, MPI_INFO_NULL));
    must(h, "open", H5Pset_coll_metadata_write(access, true));
    h->file = must(h, "open", H5Fcreate(o->path, H5F_ACC_TRUNC, H5P_DEFAULT, access));
    H5Pclose(access);
    h->memory = must(h, "space", H5Screate_simple(1, &mine, NULL));
    h->space = must(h, "space", H5Screate_simple(1, &all, NULL));
    must(h, "space", H5Sselect_hyperslab(h->space, H5S_SELECT_SET, &start, NULL, &mine, NULL));
    h->transfer = must(h, "transfer", H5Pcreate(H5P_DATASET_XFER));
    must(h, "transfer", H5Pset_dxpl_mpio(h->transfer, o->independent ? H5FD_MPIO_INDEPENDENT : H5FD_MPIO_COLLECTIVE));
    write_origin(h);
}

/* A step is a group, which is H5Part's name for it. */
void tb_h5part_begin(struct tb_h5part *h, int step)
{
    char name[32];
    snprintf(name, sizeof(name), "Step#%d", step);
    h->step = must(h, name, H5Gcreate2(h->file, name, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
}

/* The dataset is closed at once: nothing of a step stays open. */
void tb_h5part_write(struct tb_h5part *h, const char *name, hid_t type, const void *data)
{
    hid_t set = must(h, name, H5Dcreate2(h->step, name, type, h->space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    must(h, name, H5Dwrite(set, type, h->memory, h->space, h->transfer, data));
    must(h, name, H5Dclose(set));
}

void tb_h5part_end(struct tb_h5part *h)
{
    must(h, "close step", H5Gclose(h->step));
}

void tb_h5part_close(struct tb_h5part *h)
{
    H5Pclose(h->transfer);
    H5Sclose(h->space);
    H5Sclose(h->memory);
    must(h, "close", H5Fclose(h->file));
}
