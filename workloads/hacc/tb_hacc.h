/*
 * The file of HACC-IO: one for all ranks (or one a rank), a header of 24 MiB, then the ranks' particles, of each rank
 * its nine variables one after the other. layout.c says where each variable is, content.c what it is, file.c moves it.
 */
#ifndef TB_HACC_H
#define TB_HACC_H

#include "steps.h"

enum { TB_HACC_VARIABLES = 9, TB_HACC_RECORD = 38, TB_HACC_HEADER = 25165824, TB_HACC_META = 16 };

struct tb_options {
    int64_t particles, header;
    const char *prefix, *json;
    int steps, compute_us;
    bool mpiio, file_per_process, no_read, flush;
};

/* One file: the ranks that share it, and where this rank's particles begin in it. */
struct tb_hacc_part {
    MPI_Comm comm; /* the ranks of the file */
    int id, parts, rank, ranks;
    int64_t particles; /* of all ranks of the file */
    int64_t start;     /* of this rank's bytes */
    int64_t bytes;     /* of the file */
};

/* layout.c */
struct tb_hacc_part tb_hacc_part(const struct tb_options *o, const struct tb_world *w);
int tb_hacc_width(int variable); /* bytes of one particle's value */
void tb_hacc_name(const struct tb_options *o, const struct tb_hacc_part *p, int step, char *name, size_t room);
/* Of the file's first rank; the others only tell it what they have. NULL on those. The caller frees it. */
int64_t *tb_hacc_header(const struct tb_options *o, const struct tb_world *w, const struct tb_hacc_part *p);

/* content.c: one array a variable. */
struct tb_hacc_data {
    void *array[TB_HACC_VARIABLES];
};
struct tb_hacc_data tb_hacc_arrays(int64_t particles);
void tb_hacc_free(struct tb_hacc_data *d);
void tb_hacc_fill(struct tb_hacc_data *d, int64_t particles, int rank, int step);
bool tb_hacc_same(const struct tb_hacc_data *a, const struct tb_hacc_data *b, int64_t particles);

/* file.c */
struct tb_hacc_file {
    const char *path;
    bool mpiio;
    int fd;
    MPI_File file;
};
void tb_hacc_create(struct tb_hacc_file *f, const struct tb_hacc_part *p);
void tb_hacc_open(struct tb_hacc_file *f);
void tb_hacc_write(struct tb_hacc_file *f, const void *data, int64_t bytes, int64_t offset);
void tb_hacc_read(struct tb_hacc_file *f, void *data, int64_t bytes, int64_t offset);
void tb_hacc_close(struct tb_hacc_file *f);

#endif
