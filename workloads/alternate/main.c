/*
 * Alternating compute and I/O, the first synthetic workload of Hermes' evaluation (HPDC'18): in each of 16 phases
 * every rank computes and then appends 64 MiB to a file of its own. Only the I/O is timed, and with --flush the
 * time at the end until all of it has reached its device.
 */
#include "content.h"
#include "rank_file.h"

#include <fcntl.h>
#include <stdlib.h>

struct tb_options {
    struct tb_rank_file_options file;
    int phases, compute_us;
    bool flush;
    const char *json;
};

#define FIELD(name) offsetof(struct tb_options, name)
static const struct tb_option table[] = {
    {'\0', "phases", TB_INT, FIELD(phases), 1, 1000000, NULL, "how often compute and I/O alternate (16)"},
    {'b', "bytes", TB_SIZE, FIELD(file.bytes), 8, INT64_C(1) << 40, NULL, "a rank writes in a phase (64m)"},
    {'t', "transfer", TB_SIZE, FIELD(file.transfer), 8, INT64_C(1) << 30, NULL, "bytes of a write (1m)"},
    {'\0', "compute-us", TB_INT, FIELD(compute_us), 0, 1000000000, NULL, "microseconds of compute before each phase (0)"},
    {'\0', "flush", TB_FLAG, FIELD(flush), 0, 0, NULL, "at the end wait until all is on the device (fsync)"},
    {'\0', "json", TB_TEXT, FIELD(json), 0, 0, NULL, "the result as JSON, into this file"},
    {'\0', NULL, TB_FLAG, 0, 0, 0, NULL, NULL},
};

/* To make the content is the phase's compute. All ranks begin to write together, so the slowest one is the phase's time. */
static void run_phase(const struct tb_options *o, const struct tb_world *w, struct tb_posix_file *f, int phase, struct tb_steps *s)
{
    int64_t start = phase * o->file.bytes;
    double began = tb_step_begin(w);
    uint64_t *data = tb_buffer((size_t)o->file.bytes);
    tb_content_fill(data, (size_t)o->file.bytes, w->rank, start);
    tb_step_compute(began, o->compute_us);
    began = tb_step_begin(w);
    for (int64_t at = 0; at < o->file.bytes; at += o->file.transfer)
        tb_posix_write(f, data + at / 8, (size_t)o->file.transfer, start + at);
    tb_step_end(w, began, &s->write_s);
    free(data);
}

/*
 * One file a rank for all phases, opened once: each phase appends to it. The flush comes after the close and is a time of
 * its own.
 */
static struct tb_steps run(const void *options, const struct tb_world *w)
{
    const struct tb_options *o = options;
    struct tb_steps s = {.steps = o->phases, .files = w->tasks, .bytes_written = o->phases * o->file.bytes * w->tasks};
    struct tb_rank_file f;
    tb_rank_file_open(&f, o->file.prefix, O_WRONLY, w, &s.open_s);
    for (int phase = 0; phase < o->phases; phase++)
        run_phase(o, w, &f.file, phase, &s);
    tb_rank_file_close(&f, w, &s.close_s);
    if (o->flush)
        tb_step_flush(w, f.path, &s.flush_s);
    return s;
}

int main(int argc, char **argv)
{
    struct tb_options options = {.phases = 16, .file = {.bytes = 64 << 20, .transfer = 1 << 20}};
    const struct tb_steps_program program = {"tb-alternate PREFIX", &options, table,        tb_rank_file_rules,
                                             tb_rank_file_words,    run,      &options.json};
    return tb_steps_main(argc, argv, &program);
}
