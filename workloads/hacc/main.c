/*
 * tb-hacc: the checkpoint and restart of HACC, as HACC-IO makes them, written from that benchmark's documentation.
 * Its command line is the original's, `PARTICLES PREFIX`; options add the steps and the compute of Hermes' evaluation
 * (HPDC'18), where each of 16 checkpoints is written and read again. It is not HACC-IO, and says so.
 */
#include "tb_hacc.h"

#include <stdlib.h>

#define FIELD(name) offsetof(struct tb_options, name)
static const struct tb_option table[] = {
    {'\0', "mpiio", TB_FLAG, FIELD(mpiio), 0, 0, NULL, "independent MPI-IO instead of POSIX seek and write"},
    {'F', "file-per-process", TB_FLAG, FIELD(file_per_process), 0, 0, NULL, "a file for each rank"},
    {'\0', "no-read", TB_FLAG, FIELD(no_read), 0, 0, NULL, "checkpoints are not read again"},
    {'\0', "steps", TB_INT, FIELD(steps), 1, 1000000, NULL, "how many checkpoints (1)"},
    {'\0', "compute-us", TB_INT, FIELD(compute_us), 0, 1000000000, NULL, "microseconds of compute before each (0)"},
    {'\0', "header", TB_SIZE, FIELD(header), 256, INT64_C(1) << 30, NULL, "bytes of a file's header (24m)"},
    {'\0', "flush", TB_FLAG, FIELD(flush), 0, 0, NULL, "at the end wait until all is on the device (fsync)"},
    {'\0', "json", TB_TEXT, FIELD(json), 0, 0, NULL, "the result as JSON, into this file"},
    {'\0', NULL, TB_FLAG, 0, 0, 0, NULL, NULL},
};

#define RULES(RULE)                                                                           \
    RULE(words, o->header % 8, "--header must be a multiple of 8")                            \
    RULE(room, o->header / 8 < TB_HACC_META + 2 * (int64_t)(o->file_per_process ? 1 : tasks), \
         "--header must have room for two numbers a rank")
RULES(TB_RULE_FUNCTION)
static const struct tb_rule rules[] = {RULES(TB_RULE_ROW){NULL, NULL}};

static bool take_words(void *options, int n, char **words, struct tb_complaint *c)
{
    struct tb_options *o = options;
    if (n != 2)
        return tb_complain(c, "two words are expected, PARTICLES and PREFIX");
    o->prefix = words[1];
    return tb_steps_number("PARTICLES", words[0], &o->particles, c);
}

/* One variable after the other, each with one call, from this rank's place on. */
static void move_all(struct tb_hacc_file *f, const struct tb_options *o, const struct tb_hacc_part *p, struct tb_hacc_data *d, bool write)
{
    int64_t offset = p->start;
    for (int v = 0; v < TB_HACC_VARIABLES; v++) {
        int64_t bytes = o->particles * tb_hacc_width(v);
        if (write)
            tb_hacc_write(f, d->array[v], bytes, offset);
        else
            tb_hacc_read(f, d->array[v], bytes, offset);
        offset += bytes;
    }
}

/*
 * The header goes last: until the close a new file says that nothing is in it. One that was there already keeps its old
 * header until then.
 */
static void write_checkpoint(const struct tb_options *o, const struct tb_world *w, const char *path, struct tb_hacc_data *d,
                             struct tb_steps *s)
{
    struct tb_hacc_file f = {.path = path, .mpiio = o->mpiio};
    double began = tb_step_begin(w);
    struct tb_hacc_part p = tb_hacc_part(o, w);
    int64_t *header = tb_hacc_header(o, w, &p);
    tb_hacc_create(&f, &p);
    tb_step_end(w, began, &s->open_s);
    began = tb_step_begin(w);
    move_all(&f, o, &p, d, true);
    tb_step_end(w, began, &s->write_s);
    began = tb_step_begin(w);
    if (header)
        tb_hacc_write(&f, header, o->header, 0);
    tb_hacc_close(&f);
    tb_step_end(w, began, &s->close_s);
    free(header);
    s->bytes_written += p.bytes * p.parts;
}

/* A restart with other ranks than the checkpoint's is refused: the header says which rank wrote what. */
static bool header_fits(const struct tb_options *o, const struct tb_hacc_part *p, const int64_t *words)
{
    return words[2] == o->header && words[3] == TB_HACC_RECORD && words[4] == p->particles && words[6] == p->ranks &&
           words[TB_HACC_META] == o->particles;
}

/* As the original: the file's first rank reads the whole header before any rank reads particles. */
static bool read_header(const struct tb_options *o, const struct tb_hacc_part *p, struct tb_hacc_file *f)
{
    bool fits = true;
    if (p->rank == 0) {
        int64_t *words = tb_buffer((size_t)o->header);
        tb_hacc_read(f, words, o->header, 0);
        fits = header_fits(o, p, words);
        free(words);
    }
    return fits;
}

/* Into arrays of its own, which are compared with what was written after the time was taken. */
static void read_checkpoint(const struct tb_options *o, const struct tb_world *w, const char *path, const struct tb_hacc_data *d,
                            struct tb_steps *s)
{
    struct tb_hacc_file f = {.path = path, .mpiio = o->mpiio};
    struct tb_hacc_part p = tb_hacc_part(o, w);
    struct tb_hacc_data back = tb_hacc_arrays(o->particles);
    double began = tb_step_begin(w);
    tb_hacc_open(&f);
    bool fits = read_header(o, &p, &f);
    move_all(&f, o, &p, &back, false);
    tb_hacc_close(&f);
    tb_step_end(w, began, &s->read_s);
    s->wrong |= tb_step_any(w, !fits || !tb_hacc_same(d, &back, o->particles));
    s->bytes_read += p.bytes * p.parts;
    tb_hacc_free(&back);
}

/*
 * A checkpoint is read before the next one is written, as in the evaluation; flushing all of them is timed once, at the
 * end.
 */
static struct tb_steps run(const void *options, const struct tb_world *w)
{
    const struct tb_options *o = options;
    struct tb_hacc_part p = tb_hacc_part(o, w);
    struct tb_steps s = {.steps = o->steps, .files = o->steps * p.parts};
    struct tb_hacc_data d = tb_hacc_arrays(o->particles);
    char path[4200];
    for (int step = 0; step < o->steps; step++) {
        tb_hacc_name(o, &p, step, path, sizeof(path));
        double began = tb_step_begin(w);
        tb_hacc_fill(&d, o->particles, w->rank, step);
        tb_step_compute(began, o->compute_us);
        write_checkpoint(o, w, path, &d, &s);
        if (!o->no_read)
            read_checkpoint(o, w, path, &d, &s);
    }
    for (int step = 0; o->flush && step < o->steps; step++) {
        tb_hacc_name(o, &p, step, path, sizeof(path));
        tb_step_flush(w, p.rank == 0 ? path : NULL, &s.flush_s);
    }
    tb_hacc_free(&d);
    return s;
}

int main(int argc, char **argv)
{
    struct tb_options options = {.steps = 1, .header = TB_HACC_HEADER};
    const struct tb_steps_program program = {"tb-hacc PARTICLES PREFIX", &options, table, rules, take_words, run, &options.json};
    return tb_steps_main(argc, argv, &program);
}
