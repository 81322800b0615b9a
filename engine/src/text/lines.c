/*
 * Reading a text file entry by entry: the schedule and the dispersion units. Comments and
 * empty lines are counted, so that messages have the right number. Carriage returns at the
 * end are taken off: the file may come from another system.
 */
#include "text/lines.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <tierbench/engine.h>

#include "text/text.h"

/* In place; NULL: a comment, or nothing. */
static char *entry_of(char *line)
{
    size_t n = strlen(line);
    while (n && strchr(" \t\r", line[n - 1]))
        line[--n] = 0;
    line += strspn(line, " \t");
    return *line && *line != '#' ? line : NULL;
}

int tb_lines_read(const char *file, tb_line_taker *take, void *arg, struct tb_error *err)
{
    char directory[TB_PATH_MAX], *text, *line;
    int rc = tb_text_read(file, directory, &text, err);
    if (rc)
        return rc;
    char *rest = text;
    for (uint32_t number = 1; !rc && (line = strsep(&rest, "\n")); number++) {
        char *entry = entry_of(line);
        rc = entry ? take(arg, number, entry) : 0;
    }
    free(text);
    return rc;
}

/* strtoull alone would also take a sign and blanks in front. */
bool tb_digits_read(const char *text, uint64_t *out, const char **rest)
{
    char *end;
    assert(text && out && rest);
    if (*text < '0' || *text > '9')
        return false;
    errno = 0;
    *out = strtoull(text, &end, 10);
    *rest = end;
    return !errno && *out <= INT64_MAX;
}
