/*
 * Where each variable is in a file of HACC-IO, and the header that says so. The header comes first, with a fixed room; after it
 * each rank has one piece, in the order of the ranks, with its nine variables one after the other.
 */
#include "tb_hacc.h"

#include <stdlib.h>

static const int width[TB_HACC_VARIABLES] = {4, 4, 4, 4, 4, 4, 4, 8, 2}; /* xx yy zz vx vy vz phi, pid, mask */

int tb_hacc_width(int variable)
{
    return width[variable];
}

/* A partition is what shares a file: of the original all ranks, or with its file per process each rank alone. */
struct tb_hacc_part tb_hacc_part(const struct tb_options *o, const struct tb_world *w)
{
    struct tb_hacc_part p = {.comm = o->file_per_process ? MPI_COMM_SELF : w->comm};
    p.id = o->file_per_process ? w->rank : 0;
    p.parts = o->file_per_process ? w->tasks : 1;
    MPI_Comm_rank(p.comm, &p.rank);
    MPI_Comm_size(p.comm, &p.ranks);
    p.particles = o->particles * p.ranks;
    p.start = o->header + p.rank * o->particles * TB_HACC_RECORD;
    p.bytes = o->header + p.particles * TB_HACC_RECORD;
    return p;
}

/* The first step's name is the original's; it has no others. */
void tb_hacc_name(const struct tb_options *o, const struct tb_hacc_part *p, int step, char *name, size_t room)
{
    char of_step[32] = "";
    if (step > 0)
        snprintf(of_step, sizeof(of_step), "-Step%08d", step);
    snprintf(name, room, "%s%s-Part%08d-of-%08d.data", o->prefix, of_step, p->id, p->parts);
}

/*
 * Nine numbers, from word 16 on the particles of each rank, and after those each rank's number among all.
 * The first word would say that the file is valid, and is always 0.
 */
int64_t *tb_hacc_header(const struct tb_options *o, const struct tb_world *w, const struct tb_hacc_part *p)
{
    int64_t rank = w->rank, *words = p->rank == 0 ? calloc((size_t)o->header / 8, 8) : NULL;
    if (p->rank == 0 && !words)
        tb_fail(o->prefix, "header", -1, "no memory");
    int64_t *counts = words ? words + TB_HACC_META : NULL, *ranks = words ? counts + p->ranks : NULL;
    MPI_Gather(&o->particles, 1, MPI_INT64_T, counts, 1, MPI_INT64_T, 0, p->comm);
    MPI_Gather(&rank, 1, MPI_INT64_T, ranks, 1, MPI_INT64_T, 0, p->comm);
    if (!words)
        return NULL;
    const int64_t told[] = {0, TB_HACC_META, o->header, TB_HACC_RECORD, p->particles, o->particles * w->tasks, p->ranks, p->parts, p->id};
    for (size_t i = 0; i < sizeof(told) / sizeof(told[0]); i++)
        words[i] = told[i];
    return words;
}
