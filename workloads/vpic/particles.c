/*
 * The particles. The original's are random; these are numbers of 24 bits made of step, variable and the particle's
 * place among those of all ranks, which a float holds exactly, so that a check knows each of them.
 */
#include "tb_vpic.h"

#include <stdlib.h>

const struct tb_vpic_variable tb_vpic_variables[TB_VPIC_VARIABLES] = {
    {"x", false}, {"y", false}, {"z", false}, {"id1", true}, {"id2", true}, {"px", false}, {"py", false}, {"pz", false},
};

struct tb_vpic_data tb_vpic_arrays(int64_t particles)
{
    struct tb_vpic_data d;
    for (int v = 0; v < TB_VPIC_VARIABLES; v++)
        d.array[v] = tb_buffer((size_t)particles * 4);
    return d;
}

void tb_vpic_free(struct tb_vpic_data *d)
{
    for (int v = 0; v < TB_VPIC_VARIABLES; v++)
        free(d->array[v]);
}

/* Knuth's multiplicative hash: its upper bits differ between neighbours. */
static uint32_t number(int step, int variable, int64_t particle)
{
    uint32_t key = (uint32_t)(step * TB_VPIC_VARIABLES + variable) * 0x9e3779b1u + (uint32_t)particle;
    return (key * 2654435761u) >> 8;
}

void tb_vpic_fill(struct tb_vpic_data *d, int64_t particles, int rank, int step)
{
    for (int v = 0; v < TB_VPIC_VARIABLES; v++) {
        float *floats = d->array[v];
        int32_t *numbers = d->array[v];
        for (int64_t i = 0; i < particles; i++) {
            uint32_t value = number(step, v, rank * particles + i);
            if (tb_vpic_variables[v].is_number)
                numbers[i] = (int32_t)value;
            else
                floats[i] = (float)value;
        }
    }
}
