/*
 * YAML into structures, by tables of keys.
 *
 * A table says for every key where its value goes and what is allowed, so that
 * each refusal can name file, line, key (as tiers[1].slabs[0].share), value and
 * what would have been right; unknown and double keys are refused the same way.
 * libyaml's documents rather than libcyaml: `mode` is a word or a list, and
 * libcyaml's errors carry neither the line nor what is allowed.
 *
 * ${NAME} is replaced in values by the environment variable; one that is unset
 * is refused.  A replaced value is never read as YAML itself.
 */
#ifndef TB_CONFIG_YAML_H
#define TB_CONFIG_YAML_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <yaml.h>

#include <tierbench/engine.h>

#include "base/error.h"

struct tb_yaml {
    const char *file;            /* as the user wrote it, for messages */
    char directory[TB_PATH_MAX]; /* absolute; relative paths in the file start here */
    struct tb_error *err;
    yaml_document_t document;
};

enum tb_yaml_type {
    TB_YAML_TEXT,     /* char[width] */
    TB_YAML_PATH,     /* char[width], made absolute and normalised */
    TB_YAML_SIZE,     /* bytes; uint32_t or uint64_t by width */
    TB_YAML_RATE,     /* double, bytes per second */
    TB_YAML_TIME,     /* double, seconds */
    TB_YAML_COUNT,    /* uint32_t, min..max */
    TB_YAML_FRACTION, /* double, 0..1 */
    TB_YAML_FLAG,     /* bool */
    TB_YAML_CHOICE,   /* an enum; `choices` are its names in order */
    TB_YAML_MAP,      /* a mapping by `keys` into the same target at `offset` */
    TB_YAML_LIST,     /* 1..max mappings by `keys`; element i at offset + i * width, their number at count_offset */
    TB_YAML_CUSTOM,   /* by `read` */
};

struct tb_yaml_key {
    const char *name; /* NULL ends a table */
    enum tb_yaml_type type;
    bool required;
    size_t offset, width;
    uint32_t min, max;
    const char *const *choices; /* NULL ended */
    const struct tb_yaml_key *keys;
    size_t count_offset;
    void (*start)(void *element); /* a list's element before its keys are read: its defaults */
    int (*read)(struct tb_yaml *yaml, yaml_node_t *node, const char *path, void *target);
};

#define TB_YAML_FIELD(type, member) .offset = offsetof(type, member), .width = sizeof(((type *)0)->member)

/* The whole document as a mapping by `keys` into `target`. */
int tb_yaml_read(struct tb_yaml *yaml, const struct tb_yaml_key *keys, void *target);

/* One value; for `read` functions.  `path` names the key in messages. */
int tb_yaml_value(struct tb_yaml *yaml, const struct tb_yaml_key *key, yaml_node_t *node, const char *path, void *target);

/* The line of a key such as tiers[1].path, or of the nearest key above it that is there. */
unsigned tb_yaml_line(struct tb_yaml *yaml, const char *path);

/* Refuse `node`: sets the message and returns -EINVAL. */
int tb_yaml_refuse(struct tb_yaml *yaml, yaml_node_t *node, const char *path, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

#endif
