/*
 * The text file of a schedule, read line by line into a list of ranges. A wrong line is refused
 * with its number, and nothing of the file is used then: half a schedule would look like a
 * whole one that is not kept.
 */
#include "config/schedule_text.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text/lines.h"
#include "text/text.h"

static int refuse(const struct tb_config *c, uint32_t line, const char *value, const char *why, struct tb_error *err)
{
    snprintf(err->text, sizeof(err->text), "%.400s:%u: %.300s: %s", c->organizer.schedule, line, value, why);
    return -EINVAL;
}

static bool parse_bytes(const char *text, uint64_t *out)
{
    const char *rest;
    return tb_digits_read(text, out, &rest) && !*rest;
}

/* Takes the last word off a line, in place. NULL: there is one word or none, so no path is left of it. */
static char *last_word(char *line)
{
    size_t n = strlen(line);
    while (n && strchr(" \t", line[n - 1]))
        line[--n] = 0;
    while (n && !strchr(" \t", line[n - 1]))
        n--;
    if (!n)
        return NULL;
    line[n - 1] = 0;
    return line + n;
}

/*
 * The longest prefix counts, as for a program's own paths. What is not buffered cannot be
 * staged, so a schedule that names it was made for another configuration.
 */
static bool is_buffered(const struct tb_config *c, const char *path)
{
    int i = tb_path_longest(path, c->prefixes, c->n_prefixes, sizeof(c->prefixes[0]));
    return i >= 0 && (c->prefixes[i].mode == TB_MODE_PERSISTENT_ASYNC || c->prefixes[i].mode == TB_MODE_PERSISTENT_SYNC);
}

/* A path may hold blanks: offset and length are the last two words. */
static int read_line(const struct tb_config *c, uint32_t number, char *line, struct tb_range *out, struct tb_error *err)
{
    char path[TB_PATH_MAX];
    char *length = last_word(line), *offset = length ? last_word(line) : NULL;
    if (!offset)
        return refuse(c, number, line, "allowed: PATH OFFSET LENGTH", err);
    if (!parse_bytes(offset, &out->offset))
        return refuse(c, number, offset, "is no offset; allowed: whole bytes", err);
    if (!parse_bytes(length, &out->length) || !out->length || out->length > INT64_MAX - out->offset)
        return refuse(c, number, length, "is no length; allowed: whole bytes, at least 1", err);
    if (tb_path_absolute(c->pfs.path, line, path, sizeof(path)) || !is_buffered(c, path))
        return refuse(c, number, line, "allowed: a path under a prefix in mode persistent-async or persistent-sync", err);
    out->path = strdup(path);
    return out->path ? 0 : -ENOMEM;
}

struct reading {
    const struct tb_config *config;
    struct tb_schedule *schedule;
    struct tb_error *err;
};

/* A range counts only when its path is allocated, so tb_schedule_free frees what there is after any failure. */
static int add_line(void *arg, uint32_t number, char *line)
{
    const struct reading *r = arg;
    struct tb_schedule *s = r->schedule;
    if ((s->n & (s->n - 1)) == 0) { /* full at each power of two */
        struct tb_range *more = realloc(s->range, (s->n ? 2 * s->n : 1) * sizeof(*more));
        if (!more)
            return -ENOMEM;
        s->range = more;
    }
    int rc = read_line(r->config, number, line, &s->range[s->n], r->err);
    s->n += rc == 0;
    return rc;
}

/* Without the key there is an empty schedule, which is no error. */
int tb_schedule_read(const struct tb_config *c, struct tb_schedule *out, struct tb_error *err)
{
    struct reading r = {c, out, err};
    *out = (struct tb_schedule){.fd = -1};
    if (!c->organizer.schedule[0])
        return 0;
    int rc = tb_lines_read(c->organizer.schedule, add_line, &r, err);
    if (rc)
        tb_schedule_free(out);
    return rc;
}

void tb_schedule_free(struct tb_schedule *s)
{
    assert(s->range || !s->n);
    for (uint32_t i = 0; i < s->n; i++)
        free(s->range[i].path);
    free(s->range);
    *s = (struct tb_schedule){.fd = -1};
}
