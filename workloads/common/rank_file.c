/*
 * The command line of a program with a file for each rank, and that file's making and closing. Writing and reading programs
 * share it, so a rank finds its own file again by its number.
 */
#include "rank_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

/* Contents are made in words of 8 bytes, so a transfer never ends within one. */
static bool cuts_a_word(const void *options, int tasks)
{
    const struct tb_rank_file_options *o = options;
    (void)tasks;
    return o->bytes % 8 || o->transfer % 8;
}

static bool cuts_a_transfer(const void *options, int tasks)
{
    const struct tb_rank_file_options *o = options;
    (void)tasks;
    return o->bytes % o->transfer;
}

const struct tb_rule tb_rank_file_rules[] = {{cuts_a_word, "--bytes and --transfer must be multiples of 8"},
                                             {cuts_a_transfer, "--bytes must be a multiple of --transfer"},
                                             {NULL, NULL}};

bool tb_rank_file_words(void *options, int n, char **words, struct tb_complaint *c)
{
    struct tb_rank_file_options *o = options;
    o->prefix = words[0];
    return n == 1 || tb_complain(c, "one word is expected, PREFIX");
}

/* A new file each time: bytes of an older run must not pass for those of this one. */
void tb_rank_file_open(struct tb_rank_file *f, const char *prefix, int access, const struct tb_world *w, double *seconds)
{
    snprintf(f->path, sizeof(f->path), "%s.%08d", prefix, w->rank);
    double began = tb_step_begin(w);
    f->file = (struct tb_posix_file){.path = f->path, .fd = open(f->path, access | O_CREAT | O_TRUNC, 0644)};
    if (f->file.fd < 0)
        tb_fail(f->path, "open", -1, strerror(errno));
    tb_step_end(w, began, seconds);
}

/* The close is timed, because it is where some file systems write. */
void tb_rank_file_close(struct tb_rank_file *f, const struct tb_world *w, double *seconds)
{
    double began = tb_step_begin(w);
    if (close(f->file.fd))
        tb_fail(f->path, "close", -1, strerror(errno));
    tb_step_end(w, began, seconds);
}
