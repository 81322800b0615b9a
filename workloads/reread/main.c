/*
 * Repetitive read, the second synthetic workload of Hermes' evaluation (HPDC'18): every rank writes temporary data
 * to a file of its own and reads all of it again, once (32 MiB), four times (8 MiB) or sixteen times (2 MiB). What
 * was read is compared after each pass, outside of the time.
 */
#include "content.h"
#include "rank_file.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

struct tb_options {
    struct tb_rank_file_options file;
    int times;
    const char *json;
};

#define FIELD(name) offsetof(struct tb_options, name)
static const struct tb_option table[] = {
    {'b', "bytes", TB_SIZE, FIELD(file.bytes), 8, INT64_C(1) << 40, NULL, "of a rank's file (32m)"},
    {'\0', "times", TB_INT, FIELD(times), 1, 1000000, NULL, "how often it is read (1)"},
    {'t', "transfer", TB_SIZE, FIELD(file.transfer), 8, INT64_C(1) << 30, NULL, "bytes of a write or read (1m)"},
    {'\0', "json", TB_TEXT, FIELD(json), 0, 0, NULL, "the result as JSON, into this file"},
    {'\0', NULL, TB_FLAG, 0, 0, 0, NULL, NULL},
};

/* The content is made before the time begins. */
static void write_file(const struct tb_options *o, const struct tb_world *w, struct tb_posix_file *f, uint64_t *data, struct tb_steps *s)
{
    tb_content_fill(data, (size_t)o->file.bytes, w->rank, 0);
    double began = tb_step_begin(w);
    for (int64_t at = 0; at < o->file.bytes; at += o->file.transfer)
        tb_posix_write(f, data + at / 8, (size_t)o->file.transfer, at);
    tb_step_end(w, began, &s->write_s);
}

/* Bytes of the pass before are wiped: a read that moves nothing must not look right. */
static void read_file(const struct tb_options *o, const struct tb_world *w, struct tb_posix_file *f, uint64_t *data, struct tb_steps *s)
{
    memset(data, 0, (size_t)o->file.bytes);
    double began = tb_step_begin(w);
    for (int64_t at = 0; at < o->file.bytes; at += o->file.transfer)
        tb_posix_read(f, data + at / 8, (size_t)o->file.transfer, at);
    tb_step_end(w, began, &s->read_s);
    s->wrong |= tb_step_any(w, !tb_content_is_right(data, (size_t)o->file.bytes, w->rank, 0));
}

/* The file stays open between the passes: opening is a time of its own and is paid once. */
static struct tb_steps run(const void *options, const struct tb_world *w)
{
    const struct tb_options *o = options;
    struct tb_steps s = {.steps = 1, .files = w->tasks};
    uint64_t *data = tb_buffer((size_t)o->file.bytes);
    struct tb_rank_file f;
    s.bytes_written = o->file.bytes * w->tasks;
    s.bytes_read = s.bytes_written * o->times;
    tb_rank_file_open(&f, o->file.prefix, O_RDWR, w, &s.open_s);
    write_file(o, w, &f.file, data, &s);
    for (int i = 0; i < o->times; i++)
        read_file(o, w, &f.file, data, &s);
    tb_rank_file_close(&f, w, &s.close_s);
    free(data);
    return s;
}

/* The table of options has all that differs from the other programs of steps. */
int main(int argc, char **argv)
{
    struct tb_options options = {.times = 1, .file = {.bytes = 32 << 20, .transfer = 1 << 20}};
    const struct tb_steps_program program = {"tb-reread PREFIX", &options, table,        tb_rank_file_rules,
                                             tb_rank_file_words, run,      &options.json};
    return tb_steps_main(argc, argv, &program);
}
