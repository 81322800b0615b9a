/*
 * tb-vpic: what the particle-in-cell code VPIC writes, as the kernel `vpicio_uni` makes it, written from that
 * benchmark's documentation. Its command line is the original's, `FILE [N]`, N in Mi particles a rank and 32 where it
 * is left out; options add the 16 time steps and the compute of Hermes' evaluation (HPDC'18).
 */
#include "tb_vpic.h"

#define FIELD(name) offsetof(struct tb_options, name)
static const struct tb_option table[] = {
    {'\0', "particles", TB_SIZE, FIELD(particles), 1, INT64_C(1) << 40, NULL, "of a rank, in the place of N Mi"},
    {'\0', "steps", TB_INT, FIELD(steps), 1, 1000000, NULL, "time steps (1)"},
    {'\0', "compute-us", TB_INT, FIELD(compute_us), 0, 1000000000, NULL, "microseconds of compute before each step (0)"},
    {'\0', "independent", TB_FLAG, FIELD(independent), 0, 0, NULL, "independent transfers instead of collective ones"},
    {'\0', "flush", TB_FLAG, FIELD(flush), 0, 0, NULL, "at the end wait until all is on the device (fsync)"},
    {'\0', "json", TB_TEXT, FIELD(json), 0, 0, NULL, "the result as JSON, into this file"},
    {'\0', NULL, TB_FLAG, 0, 0, 0, NULL, NULL},
};

static const struct tb_rule rules[] = {{NULL, NULL}};

/* As the original: without N, 32 Mi. */
static bool take_words(void *options, int n, char **words, struct tb_complaint *c)
{
    struct tb_options *o = options;
    int64_t mi = TB_VPIC_MI;
    if (n < 1 || n > 2)
        return tb_complain(c, "one or two words are expected, FILE and N");
    o->path = words[0];
    if (n == 2 && !tb_steps_number("N", words[1], &mi, c))
        return false;
    o->particles = mi << 20;
    return true;
}

/* Each variable is a data set of its own, written by all ranks together. */
static void write_step(struct tb_h5part *h, const struct tb_vpic_data *d, int step)
{
    tb_h5part_begin(h, step);
    for (int v = 0; v < TB_VPIC_VARIABLES; v++)
        tb_h5part_write(h, tb_vpic_variables[v].name, tb_vpic_variables[v].is_number ? H5T_NATIVE_INT32 : H5T_NATIVE_FLOAT, d->array[v]);
    tb_h5part_end(h);
}

/* One file for the whole run, a group for each step. */
static struct tb_steps run(const void *options, const struct tb_world *w)
{
    const struct tb_options *o = options;
    struct tb_steps s = {.steps = o->steps, .files = 1};
    struct tb_vpic_data d = tb_vpic_arrays(o->particles);
    struct tb_h5part h;
    s.bytes_written = TB_VPIC_RECORD * o->particles * w->tasks * o->steps;
    double began = tb_step_begin(w);
    tb_h5part_create(&h, o, w);
    tb_step_end(w, began, &s.open_s);
    for (int step = 0; step < o->steps; step++) {
        began = tb_step_begin(w);
        tb_vpic_fill(&d, o->particles, w->rank, step);
        tb_step_compute(began, o->compute_us);
        began = tb_step_begin(w);
        write_step(&h, &d, step);
        tb_step_end(w, began, &s.write_s);
    }
    began = tb_step_begin(w);
    tb_h5part_close(&h);
    tb_step_end(w, began, &s.close_s);
    if (o->flush)
        tb_step_flush(w, w->rank == 0 ? o->path : NULL, &s.flush_s);
    tb_vpic_free(&d);
    return s;
}

int main(int argc, char **argv)
{
    struct tb_options options = {.steps = 1};
    const struct tb_steps_program program = {"tb-vpic FILE [N]", &options, table, rules, take_words, run, &options.json};
    return tb_steps_main(argc, argv, &program);
}
