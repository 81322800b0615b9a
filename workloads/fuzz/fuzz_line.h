/*
 * A command line out of an input: its first byte says how many ranks there are, the second how many words follow; each
 * word ends with a NUL, and what is left after the last one is the script.
 */
#ifndef TB_FUZZ_LINE_H
#define TB_FUZZ_LINE_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "driver.h"

enum { FUZZ_WORDS = 32 };

struct fuzz_line {
    char *bytes; /* which parsers cut */
    size_t size;
    int tasks, argc;
    char *argv[FUZZ_WORDS + 2];
    const char *script;
};

static inline void fuzz_line_make(struct fuzz_line *line, const uint8_t *data, size_t size)
{
    static char program[] = "program";
    char *at = line->bytes = calloc(1, size + 1), *end = at + size;
    memcpy(at, data, size);
    line->size = size;
    line->tasks = size ? 1 << (data[0] % 20) : 1;
    line->argc = 1;
    line->argv[0] = program;
    int words = size > 1 ? data[1] % (FUZZ_WORDS + 1) : 0;
    for (at += size > 1 ? 2 : size; at < end && line->argc <= words; at += strlen(at) + 1)
        line->argv[line->argc++] = at;
    line->argv[line->argc] = NULL;
    line->script = at < end ? at : end;
}

static inline void fuzz_line_free(struct fuzz_line *line)
{
    free(line->bytes);
}

/* A function of its own, so that the report names the line. */
__attribute__((noinline)) static void fuzz_check(bool holds)
{
    if (!holds)
        __builtin_trap();
}

/* A refusal says why. */
static inline void fuzz_check_complaint(const struct tb_complaint *c)
{
    fuzz_check(c->text[0] && memchr(c->text, '\0', sizeof(c->text)));
}

#endif
