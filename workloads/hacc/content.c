/*
 * The particles. Those of the first step are the original's: the seven floats and pid are the particle's index, mask
 * is the rank, so that both programs write the same file. Later steps differ by step, rank and variable.
 */
#include "tb_hacc.h"

#include <stdlib.h>
#include <string.h>

enum { PID = 7, MASK = 8 };

struct tb_hacc_data tb_hacc_arrays(int64_t particles)
{
    struct tb_hacc_data d;
    for (int v = 0; v < TB_HACC_VARIABLES; v++) {
        d.array[v] = tb_buffer((size_t)(particles * tb_hacc_width(v)));
        memset(d.array[v], 0, (size_t)(particles * tb_hacc_width(v)));
    }
    return d;
}

void tb_hacc_free(struct tb_hacc_data *d)
{
    for (int v = 0; v < TB_HACC_VARIABLES; v++)
        free(d->array[v]);
}

static void fill_floats(float *array, int64_t particles, int64_t first)
{
    for (int64_t i = 0; i < particles; i++)
        array[i] = (float)(first + i);
}

/* `first` is 0 in the first step. */
void tb_hacc_fill(struct tb_hacc_data *d, int64_t particles, int rank, int step)
{
    int64_t *pid = d->array[PID];
    uint16_t *mask = d->array[MASK];
    for (int v = 0; v < PID; v++)
        fill_floats(d->array[v], particles, (int64_t)step * (16 * rank + v));
    for (int64_t i = 0; i < particles; i++) {
        pid[i] = (int64_t)step * (16 * rank + PID) + i;
        mask[i] = (uint16_t)rank;
    }
}

bool tb_hacc_same(const struct tb_hacc_data *a, const struct tb_hacc_data *b, int64_t particles)
{
    for (int v = 0; v < TB_HACC_VARIABLES; v++)
        if (memcmp(a->array[v], b->array[v], (size_t)(particles * tb_hacc_width(v))))
            return false;
    return true;
}
