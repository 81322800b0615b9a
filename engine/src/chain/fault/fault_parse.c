/*
 * TB_FAULT's text, read into a fault; see chain/fault/fault.h. The text has keys and values between commas. Names of
 * operations are those of the table, so a new one is known here by itself.
 */
#include "chain/fault/fault_parse.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "chain/fault/fault.h"
#include "text/lines.h"

#define NAME(type, op, parameters, ...) #op,
static const char *const op_names[] = {"any", TB_IO_OPERATIONS(NAME)};

/* An operation of the table: the names are made from its list. */
static int parse_op(const char *text, struct tb_fault *out)
{
    for (size_t i = 0; i < sizeof(op_names) / sizeof(op_names[0]); i++) {
        if (strcmp(text, op_names[i]) == 0) {
            strcpy(out->op, text);
            return 0;
        }
    }
    return -EINVAL;
}

static int parse_number(const char *text, uint64_t *out)
{
    const char *rest;
    return tb_digits_read(text, out, &rest) && *rest == '\0' ? 0 : -EINVAL;
}

/* By name, as errno numbers differ between systems. 133 is the last of Linux. */
static int parse_errno(const char *text, uint64_t *out)
{
    for (int number = 1; number < 134; number++) {
        const char *name = strerrorname_np(number);
        if (name != NULL && strcmp(name, text) == 0) {
            *out = (uint64_t)number;
            return 0;
        }
    }
    return -EINVAL;
}

/* Absolute, because descriptors are compared by what /proc says. */
static int parse_path(const char *text, struct tb_fault *out)
{
    if (*text != '/' || strlen(text) >= sizeof(out->path))
        return -EINVAL;
    strcpy(out->path, text);
    return 0;
}

/*
 * `n_kinds` counts errno, short and signal: exactly one of them is a fault. Of another key that comes twice the later one
 * holds.
 */
static int parse_key(const char *key, const char *value, struct tb_fault *out, int *n_kinds)
{
    if (strcmp(key, "op") == 0)
        return parse_op(value, out);
    if (strcmp(key, "after") == 0)
        return parse_number(value, &out->after);
    if (strcmp(key, "count") == 0)
        return parse_number(value, &out->count);
    if (strcmp(key, "path") == 0)
        return parse_path(value, out);
    ++*n_kinds;
    if (strcmp(key, "errno") == 0) {
        out->kind = TB_FAULT_ERRNO;
        return parse_errno(value, &out->value);
    }
    out->kind = strcmp(key, "short") == 0 ? TB_FAULT_SHORT : TB_FAULT_SIGNAL;
    if (out->kind == TB_FAULT_SHORT || strcmp(key, "signal") == 0)
        return parse_number(value, &out->value);
    return -EINVAL;
}

/*
 * Cuts the next `key=value` off `*rest`; a path runs to the end. NULL in `*rest`: that was the last one. After a comma
 * there must be another, so a text that was cut off in between is refused.
 */
static bool next_pair(char **rest, char **key, char **value)
{
    assert(*rest != NULL);
    *key = *rest;
    char *equals = strchr(*rest, '=');
    if (equals == NULL)
        return false;
    *equals = '\0';
    *value = equals + 1;
    char *comma = strcmp(*key, "path") == 0 ? NULL : strchr(*value, ',');
    *rest = comma != NULL ? comma + 1 : NULL;
    if (comma != NULL)
        *comma = '\0';
    return true;
}

/*
 * Exactly one kind of fault and one operation. Anything else is refused, because a fault that never hits would make a test
 * pass. The text is cut in a copy, since it is the environment's own.
 */
int tb_fault_parse(const char *text, struct tb_fault *out)
{
    char copy[512], *rest = copy, *key, *value;
    int n_kinds = 0;
    *out = (struct tb_fault){.count = 1};
    if (strlen(text) >= sizeof(copy))
        return -EINVAL;
    strcpy(copy, text);
    while (rest != NULL) {
        if (!next_pair(&rest, &key, &value) || parse_key(key, value, out, &n_kinds) < 0)
            return -EINVAL;
    }
    return n_kinds == 1 && out->op[0] != '\0' ? 0 : -EINVAL;
}
