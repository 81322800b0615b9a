/*
 * Scripts of -f: between `IOR START` and `IOR STOP`, or the end, lines of name=value,... and RUN for a test with what holds
 * so far. Settings stay from test to test; what the command line says, before -f or after, holds from the start. As in
 * IOR, settings after the last RUN are a test too, and so is a script without any RUN.
 */
#include "tb_ior.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* A copy: settings that come later don't change a test that was added. */
bool tb_tests_add(struct tb_tests *tests, const struct tb_options *o, struct tb_complaint *c)
{
    struct tb_options *more = realloc(tests->options, (tests->count + 1) * sizeof(*more));
    if (!more)
        return tb_complain(c, "no memory for the tests");
    tests->options = more;
    tests->options[tests->count++] = *o;
    return true;
}

void tb_tests_free(struct tb_tests *tests)
{
    free(tests->text);
    free(tests->options);
}

enum { MOST_BYTES = 1 << 20 }; /* of a script; a device has no end */

/*
 * Read as a stream, so that a pipe will do. It may return a little more than MOST_BYTES, which
 * the caller refuses.
 */
static char *load(const char *path, size_t *size)
{
    char *text = NULL, part[4096];
    size_t all = 0, got;
    FILE *f = fopen(path, "r"), *into = f ? open_memstream(&text, size) : NULL;
    while (into && all <= MOST_BYTES && (got = fread(part, 1, sizeof(part), f)))
        all += fwrite(part, 1, got, into);
    bool good = into && !ferror(f);
    if (f)
        fclose(f);
    if (into && fclose(into))
        good = false;
    if (!good) {
        free(text);
        text = NULL;
    }
    return text;
}

/* A comment begins at # anywhere in a line; the \r is of files made on Windows. */
static char *trim(char *text)
{
    text[strcspn(text, "#\r")] = '\0';
    while (isspace((unsigned char)*text))
        text++;
    size_t length = strlen(text);
    while (length && isspace((unsigned char)text[length - 1]))
        text[--length] = '\0';
    return text;
}

static bool is_mark(const char *line, const char *word)
{
    return !strncasecmp(line, "IOR", 3) && isspace((unsigned char)line[3]) && !strcasecmp(line + 3 + strspn(line + 3, " \t"), word);
}

/* A name and a value between commas. They hold for this test and all after it. */
static bool take_settings(struct tb_options *o, char *line, struct tb_complaint *c)
{
    while (line) {
        char *word = strsep(&line, ","), *equals = strchr(word, '=');
        if (!equals)
            return tb_wrong(c, "line", word, "NAME=VALUE, RUN or IOR STOP");
        *equals = '\0';
        if (!tb_ior_directive(o, trim(word), trim(equals + 1), c))
            return false;
    }
    return true;
}

/* Where a script is: outside of START and STOP, or inside, and then whether the settings have had their RUN. */
enum place { OUTSIDE, SET, RAN };

/* Outside of the marks only IOR START is allowed. IOR STOP runs a test only if something was set since the last RUN. */
static bool take_line(struct tb_tests *tests, struct tb_options *o, char *line, enum place *place, struct tb_complaint *c)
{
    bool end = is_mark(line, "STOP") || is_mark(line, "END"), run = !strcasecmp(line, "RUN"), set = *place == SET;
    if (!*line)
        return true;
    if (*place == OUTSIDE) {
        *place = SET;
        return is_mark(line, "START") || tb_wrong(c, "line", line, "IOR START");
    }
    *place = end ? OUTSIDE : run ? RAN : SET;
    if (!end && !run)
        return take_settings(o, line, c);
    return (end && !set) || tb_tests_add(tests, o, c);
}

/* A message names the script and its line, counted from 1. */
static bool take_lines(struct tb_tests *tests, struct tb_options *o, char *rest, const char *path, struct tb_complaint *c)
{
    struct tb_complaint why;
    enum place place = OUTSIDE;
    for (int number = 1; rest; number++)
        if (!take_line(tests, o, trim(strsep(&rest, "\n")), &place, &why)) {
            snprintf(c->text, sizeof(c->text), "-f: %.200s:%d: %.4000s", path, number, why.text);
            return false;
        }
    if (place == SET)
        return tb_tests_add(tests, o, c);
    if (tests->count)
        return true;
    snprintf(c->text, sizeof(c->text), "-f: %.200s: IOR START is missing", path);
    return false;
}

/* `tests->text` stays until the tests are freed: options point into it. */
bool tb_script_read(struct tb_tests *tests, const struct tb_options *defaults, const char *path, struct tb_complaint *c)
{
    struct tb_options o = *defaults;
    size_t size;
    tests->text = load(path, &size);
    if (!tests->text) {
        snprintf(c->text, sizeof(c->text), "-f: %.200s: %s", path, strerror(errno));
        return false;
    }
    if (size > MOST_BYTES || strlen(tests->text) < size) {
        snprintf(c->text, sizeof(c->text), "-f: %.200s: more than 1 MiB, or with a NUL byte, which no script has", path);
        return false;
    }
    return take_lines(tests, &o, tests->text, path, c);
}
