/*
 * The file of the VPIC kernel: parallel HDF5 as H5Part lays it out, a group `Step#n` for each time step with eight
 * one-dimensional datasets of 4 bytes a particle, in which the ranks' particles follow one another.
 */
#ifndef TB_VPIC_H
#define TB_VPIC_H

#include "steps.h"

#include <hdf5.h>

enum { TB_VPIC_VARIABLES = 8, TB_VPIC_RECORD = 32, TB_VPIC_MI = 32 };

struct tb_options {
    int64_t particles; /* of a rank */
    const char *path, *json;
    int steps, compute_us;
    bool independent, flush;
};

/* h5part.c */
struct tb_h5part {
    const char *path;
    hid_t file, step, memory, space, transfer; /* `space` has this rank's particles selected */
};
void tb_h5part_create(struct tb_h5part *h, const struct tb_options *o, const struct tb_world *w);
void tb_h5part_begin(struct tb_h5part *h, int step);
void tb_h5part_write(struct tb_h5part *h, const char *name, hid_t type, const void *data);
void tb_h5part_end(struct tb_h5part *h);
void tb_h5part_close(struct tb_h5part *h);

/* particles.c: one array a variable, in the order of the file. */
struct tb_vpic_variable {
    const char *name;
    bool is_number; /* int32; else float32 */
};
extern const struct tb_vpic_variable tb_vpic_variables[TB_VPIC_VARIABLES];
struct tb_vpic_data {
    void *array[TB_VPIC_VARIABLES];
};
struct tb_vpic_data tb_vpic_arrays(int64_t particles);
void tb_vpic_free(struct tb_vpic_data *d);
void tb_vpic_fill(struct tb_vpic_data *d, int64_t particles, int rank, int step);

#endif
