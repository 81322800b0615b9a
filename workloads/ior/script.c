/*
 * Scripts of -f: between `IOR START` and `IOR STOP` lines of name=value, and RUN for a test with what holds so far.
 * Settings stay from test to test; what the command line says, before -f or after, holds from the start.
 */
#include "tb_ior.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

bool tb_tests_add(struct tb_tests *tests, const struct tb_options *o, struct tb_complaint *c)
{
    struct tb_options *more = realloc(tests->options, (tests->count + 1) * sizeof *more);
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

static char *load(const char *path)
{
    char *text = NULL, part[4096];
    size_t size, got;
    FILE *f = fopen(path, "r"), *into = f ? open_memstream(&text, &size) : NULL;
    while (into && (got = fread(part, 1, sizeof part, f)))
        fwrite(part, 1, got, into);
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

static bool take_setting(struct tb_options *o, char *line, struct tb_complaint *c)
{
    char *equals = strchr(line, '=');
    if (!equals)
        return tb_wrong(c, "line", line, "NAME=VALUE, RUN or IOR STOP");
    *equals = '\0';
    return tb_ior_directive(o, trim(line), trim(equals + 1), c);
}

/* Returns false for an error, and says in *open whether the script goes on. */
static bool take_line(struct tb_tests *tests, struct tb_options *o, char *line, bool *open, struct tb_complaint *c)
{
    if (!*line)
        return true;
    if (!*open) {
        *open = is_mark(line, "START");
        return *open || tb_wrong(c, "line", line, "IOR START");
    }
    if (is_mark(line, "STOP") || is_mark(line, "END")) {
        *open = false;
        return true;
    }
    return strcasecmp(line, "RUN") ? take_setting(o, line, c) : tb_tests_add(tests, o, c);
}

static bool take_lines(struct tb_tests *tests, struct tb_options *o, char *rest, const char *path, struct tb_complaint *c)
{
    struct tb_complaint why;
    bool open = false;
    for (int number = 1; rest; number++)
        if (!take_line(tests, o, trim(strsep(&rest, "\n")), &open, &why)) {
            snprintf(c->text, sizeof c->text, "-f: %.200s:%d: %.4000s", path, number, why.text);
            return false;
        }
    if (!open && tests->count)
        return true;
    snprintf(c->text, sizeof c->text, "-f: %.200s: %s", path, open ? "IOR STOP is missing" : "holds no test (RUN)");
    return false;
}

bool tb_script_read(struct tb_tests *tests, const struct tb_options *defaults, const char *path, struct tb_complaint *c)
{
    struct tb_options o = *defaults;
    tests->text = load(path);
    if (!tests->text) {
        snprintf(c->text, sizeof c->text, "-f: %.200s: %s", path, strerror(errno));
        return false;
    }
    return take_lines(tests, &o, tests->text, path, c);
}
