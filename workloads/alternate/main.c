/*
 * Alternating compute and I/O, the first synthetic workload of Hermes' evaluation (HPDC'18): in each of 16 phases
 * every rank computes and then appends 64 MiB to a file of its own. Only the I/O is timed, and with --flush the
 * time at the end until all of it has reached its device.
 */
#include "content.h"
#include "steps.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct tb_options {
    const char *prefix;
    int phases, compute_us;
    int64_t bytes, transfer;
    bool flush;
    const char *json;
};

#define FIELD(name) offsetof(struct tb_options, name)
static const struct tb_option table[] = {
    {'\0', "phases", TB_INT, FIELD(phases), 1, 1000000, NULL, "how often compute and I/O alternate (16)"},
    {'b', "bytes", TB_SIZE, FIELD(bytes), 8, INT64_C(1) << 40, NULL, "a rank writes in a phase (64m)"},
    {'t', "transfer", TB_SIZE, FIELD(transfer), 8, INT64_C(1) << 30, NULL, "bytes of a write (1m)"},
    {'\0', "compute-us", TB_INT, FIELD(compute_us), 0, 1000000000, NULL, "microseconds of compute before each phase (0)"},
    {'\0', "flush", TB_FLAG, FIELD(flush), 0, 0, NULL, "at the end wait until all is on the device (fsync)"},
    {'\0', "json", TB_TEXT, FIELD(json), 0, 0, NULL, "the result as JSON, into this file"},
    {'\0', NULL, TB_FLAG, 0, 0, 0, NULL, NULL},
};

#define RULES(RULE)                                                                               \
    RULE(words, o->bytes % 8 || o->transfer % 8, "--bytes and --transfer must be multiples of 8") \
    RULE(whole, o->bytes % o->transfer, "--bytes must be a multiple of --transfer")
RULES(TB_RULE_FUNCTION)
static const struct tb_rule rules[] = {RULES(TB_RULE_ROW){NULL, NULL}};

static bool take_words(void *options, int n, char **words, struct tb_complaint *c)
{
    struct tb_options *o = options;
    o->prefix = words[0];
    return n == 1 || tb_complain(c, "one word is expected, PREFIX");
}

/* To make the content is the phase's compute. */
static void run_phase(const struct tb_options *o, const struct tb_world *w, struct tb_posix_file *f, int phase, struct tb_steps *s)
{
    int64_t start = phase * o->bytes;
    double began = tb_step_begin(w);
    uint64_t *data = tb_buffer((size_t)o->bytes);
    tb_content_fill(data, (size_t)o->bytes, w->rank, start);
    tb_step_compute(began, o->compute_us);
    began = tb_step_begin(w);
    for (int64_t at = 0; at < o->bytes; at += o->transfer)
        tb_posix_write(f, data + at / 8, (size_t)o->transfer, start + at);
    tb_step_end(w, began, &s->write_s);
    free(data);
}

static struct tb_steps run(const void *options, const struct tb_world *w)
{
    const struct tb_options *o = options;
    struct tb_steps s = {.steps = o->phases, .files = w->tasks, .bytes_written = o->phases * o->bytes * w->tasks};
    char path[4096];
    snprintf(path, sizeof path, "%s.%08d", o->prefix, w->rank);
    double began = tb_step_begin(w);
    struct tb_posix_file f = {.path = path, .fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644)};
    if (f.fd < 0)
        tb_fail(path, "open", -1, strerror(errno));
    tb_step_end(w, began, &s.open_s);
    for (int phase = 0; phase < o->phases; phase++)
        run_phase(o, w, &f, phase, &s);
    began = tb_step_begin(w);
    if (close(f.fd))
        tb_fail(path, "close", -1, strerror(errno));
    tb_step_end(w, began, &s.close_s);
    if (o->flush)
        tb_step_flush(w, path, &s.flush_s);
    return s;
}

int main(int argc, char **argv)
{
    struct tb_options options = {.phases = 16, .bytes = 64 << 20, .transfer = 1 << 20};
    const struct tb_steps_program program = {"tb-alternate PREFIX", &options, table, rules, take_words, run, &options.json};
    return tb_steps_main(argc, argv, &program);
}
