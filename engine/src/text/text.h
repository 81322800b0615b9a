/*
 * What both configuration formats need: a file's text, paths relative to the
 * file, and ${NAME} in values.
 */
#ifndef TB_CONFIG_TEXT_H
#define TB_CONFIG_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include <tierbench/engine.h>

#include "base/error.h"

/* Characters that replace "${" and "}" of a variable after text/yaml_open.c: U+E000 and U+E001. No file may hold them. */
#define TB_VARIABLE_OPEN "\xEE\x80\x80"
#define TB_VARIABLE_CLOSE "\xEE\x80\x81"

/*
 * The text of `file` (allocated), and its directory (absolute, TB_PATH_MAX).
 * All files that a configuration consists of are read by this function: what is
 * no regular file, is longer than 1 MiB or holds a NUL byte is refused, so no
 * file can make a reader wait.  0, or -errno with `err` set.
 */
int tb_text_read(const char *file, char *directory, char **text, struct tb_error *err);

/* Has `text` one of the two characters above?  Then it could be taken for a variable. */
bool tb_text_has_variable_mark(const char *text);

/* `path` from `directory`, without ".", "..", double or trailing slashes.  0 or -ENAMETOOLONG. */
int tb_path_absolute(const char *directory, const char *path, char *out, size_t size);

/* Is `path` the directory `parent` or under it?  Both normalised. */
bool tb_path_is_under(const char *path, const char *parent);
/* The same of a parent that is not "/", and its length. "/a" is not the parent of "/ab": the next character must be a slash or the end. */
static inline bool tb_path_begins(const char *path, const char *parent, size_t n)
{
    return strncmp(path, parent, n) == 0 && (path[n] == '\0' || path[n] == '/');
}

/*
 * Of `n` rows of `size` bytes, each of which begins with the text of a prefix: which one is
 * the longest that the path is under?  -1: none.
 */
int tb_path_longest(const char *path, const void *rows, size_t n, size_t size);

/*
 * Replace variables in `text` by the environment.  0, -EINVAL where one is unset
 * (its name is then in `out`), or -ENAMETOOLONG.
 */
int tb_text_expand(const char *text, char *out, size_t size);

/* `text` as the user wrote it, variables in their ${NAME} form, shortened to `size` (at least 8). */
void tb_text_show(const char *text, char *out, size_t size);

#endif
