/*
 * Command lines, read by the table of their command. getopt does the reading; this file makes
 * its tables of ours and gives each kind of mistake one message, with the nearest option where
 * a letter is wrong.
 */
#include <ctype.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/command.h"
#include "common/ctl.h"
#include "common/help.h"

#define MOST_OPTIONS 16
#define LONGEST_WORD 32
#define NEAR 2 /* letters that may be wrong */

/* Says where the right use is described. */
int ctl_misused(const struct ctl_command *self, const char *format, ...)
{
    char what[512];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof(what), format, args);
    va_end(args);
    return ctl_fail("%s: %s; see: tierctl %s --help", self->name, what, self->name);
}

static int least(int a, int b, int c)
{
    int smaller = a < b ? a : b;
    return smaller < c ? smaller : c;
}

/* Letters to insert, remove or replace (Levenshtein), two that changed places counting as one. */
static int distance(const char *a, const char *b)
{
    int d[LONGEST_WORD + 1][LONGEST_WORD + 1], n = (int)strnlen(a, LONGEST_WORD), m = (int)strnlen(b, LONGEST_WORD);
    for (int i = 0; i <= n; i++)
        for (int j = 0; j <= m; j++) {
            if (i == 0 || j == 0) {
                d[i][j] = i + j;
                continue;
            }
            d[i][j] = least(d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                d[i][j] = least(d[i][j], d[i][j], d[i - 2][j - 2] + 1);
        }
    return d[n][m];
}

const struct ctl_command *ctl_find(const struct ctl_command *all, const char *name)
{
    for (; all->name; all++)
        if (strcmp(all->name, name) == 0)
            return all;
    return NULL;
}

/* NULL if none is near: a guess that is far off would mislead. */
const struct ctl_command *ctl_nearest(const struct ctl_command *all, const char *name)
{
    const struct ctl_command *near = NULL;
    for (int best = NEAR; all->name; all++) {
        int d = distance(name, all->name);
        if (d < best || (d == best && !near)) {
            near = all;
            best = d;
        }
    }
    return near;
}

/* As for commands: none that is more than NEAR letters away. */
static const char *nearest_option(const struct ctl_command *self, const char *name)
{
    const char *near = NULL;
    int best = NEAR;
    for (const struct ctl_option *o = self->options; o->key; o++)
        if (o->name && (distance(name, o->name) < best || (distance(name, o->name) == best && !near))) {
            near = o->name;
            best = distance(name, o->name);
        }
    return near;
}

/* Only long options have a near one: a letter is near to every letter. */
static int unknown_option(const struct ctl_command *self, const char *word)
{
    char name[LONGEST_WORD + 1];
    snprintf(name, sizeof(name), "%.*s", (int)strcspn(word + strspn(word, "-"), "="), word + strspn(word, "-"));
    const char *near = strncmp(word, "--", 2) == 0 ? nearest_option(self, name) : NULL;
    return near ? ctl_misused(self, "unknown option %s; the nearest is --%s", word, near) : ctl_misused(self, "unknown option %s", word);
}

/* As getopt wants it. */
struct getopt_tables {
    struct option names[MOST_OPTIONS + 2];
    char letters[3 * MOST_OPTIONS + 8];
    int operands; /* allowed; -1: any number */
};

/*
 * A leading ":" makes getopt tell a missing value from an unknown option, a leading "+" makes
 * it stop at the first word: what follows is the other program's.
 */
static void convert(const struct ctl_command *self, struct getopt_tables *out)
{
    int n = 0;
    char *letter = out->letters;
    *out = (struct getopt_tables){.names[0].name = NULL};
    letter += sprintf(letter, "%s:h", self->starts_another ? "+" : "");
    for (const struct ctl_option *o = self->options; o->key; o++) {
        if (!o->name) {
            out->operands++;
            continue;
        }
        bool has_value = o->value, may_miss = has_value && o->value[0] == '[';
        out->names[n++] = (struct option){o->name,
                                          may_miss    ? optional_argument
                                          : has_value ? required_argument
                                                      : no_argument,
                                          NULL, o->key};
        if (islower(o->key))
            letter += sprintf(letter, "%c%s", o->key, may_miss ? "::" : has_value ? ":" : "");
    }
    out->names[n] = (struct option){"help", no_argument, NULL, 'h'};
    if (self->starts_another)
        out->operands = -1;
}

/* `take` is given each option in order and may refuse its value; its status is the answer. */
int ctl_parse(const struct ctl_command *self, int argc, char **argv, ctl_take *take, void *into)
{
    struct getopt_tables tables;
    convert(self, &tables);
    optind = 1;
    opterr = 0;
    for (int c, rc; (c = getopt_long(argc, argv, tables.letters, tables.names, NULL)) != -1;) {
        if (c == 'h') {
            ctl_help(self, stdout);
            exit(0);
        }
        if (c == ':')
            return ctl_misused(self, "%s needs a value", argv[optind - 1]);
        if (c == '?' && optopt && strncmp(argv[optind - 1], "--", 2) != 0) {
            return ctl_misused(self, "unknown option -%c", optopt);
        }
        if (c == '?' && optopt)
            return ctl_misused(self, "%s takes no value", argv[optind - 1]);
        if (c == '?')
            return unknown_option(self, argv[optind - 1]);
        if ((rc = take(into, (char)c, optarg)))
            return rc;
    }
    if (tables.operands >= 0 && argc - optind > tables.operands)
        return ctl_misused(self, "unexpected word: %s", argv[optind + tables.operands]);
    return 0;
}
