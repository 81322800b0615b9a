/*
 * The lines of a job script that ask for storage: DataWarp's (jobdw, persistentdw, stage_in,
 * stage_out, create_persistent, destroy_persistent) and Rabbit's (copy_in, copy_out, name=,
 * profile=), after the word #DW or another one.
 */
#ifndef TB_CTL_DIRECTIVES_H
#define TB_CTL_DIRECTIVES_H

#include <limits.h>
#include <stddef.h>
#include <stdint.h>

#include <tierbench/engine.h>

enum directive_verb {
    DIRECTIVE_JOB,
    DIRECTIVE_PERSISTENT,
    DIRECTIVE_CREATE,
    DIRECTIVE_DESTROY,
    DIRECTIVE_STAGE_IN,
    DIRECTIVE_STAGE_OUT,
    DIRECTIVE_COPY_IN,
    DIRECTIVE_COPY_OUT,
};

#define DIRECTIVE_KEYS 10
#define DIRECTIVE_NAME_MAX 64

struct directive {
    enum directive_verb verb;
    unsigned line;
    char text[4096]; /* its values are in it */
    const char *value[DIRECTIVE_KEYS];
};

enum directive_key { KEY_TYPE, KEY_ACCESS, KEY_CAPACITY, KEY_NAME, KEY_PROFILE, KEY_SOURCE, KEY_DESTINATION, KEY_POOL, KEY_CONFIGURATION };

struct directives {
    const char *script, *word;
    struct directive **one;
    size_t n;
};

/* 0, or EXIT_BAD_INPUT with line, key, value and what is allowed said. */
int directives_read(struct directives *all, const char *script, const char *word);
void directives_free(struct directives *all);

const char *directive_name(enum directive_verb verb);

/* "script:line: #DW verb: ..."; EXIT_BAD_INPUT. */
int directive_refuse(const struct directives *all, const struct directive *one, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* 100GiB, 1TB or 500MB: both systems take decimal units. 0 or -EINVAL. */
int directive_capacity(const char *text, uint64_t *bytes);

#endif
