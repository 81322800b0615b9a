/*
 * One table says which keys each directive takes and which values; a line is read by it, and
 * what it does not have is refused. A key that was skipped would be a wish of the user that
 * nothing fulfils.
 */
#include "staging/directives.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/ctl.h"
#include "staging/input.h"

static const char *const key_names[DIRECTIVE_KEYS] = {"type",   "access_mode", "capacity", "name",         "profile",
                                                      "source", "destination", "pool",     "configuration"};

#define BIT(key) (1u << (key))
/*
 * What the two directives that make storage take. Keys of DataWarp and of Rabbit may be mixed: a script is moved from one
 * system to the other.
 */
#define STORAGE \
    (BIT(KEY_TYPE) | BIT(KEY_ACCESS) | BIT(KEY_CAPACITY) | BIT(KEY_NAME) | BIT(KEY_PROFILE) | BIT(KEY_POOL) | BIT(KEY_CONFIGURATION))
#define TWO (BIT(KEY_SOURCE) | BIT(KEY_DESTINATION))
#define STORAGE_TYPES "scratch, xfs, gfs2, lustre"

static const struct verb {
    const char *name;
    unsigned allowed, required;
    const char *types; /* of type= */
} verbs[] = {
    [DIRECTIVE_JOB] = {"jobdw", STORAGE, BIT(KEY_TYPE) | BIT(KEY_CAPACITY), STORAGE_TYPES},
    [DIRECTIVE_PERSISTENT] = {"persistentdw", BIT(KEY_NAME), BIT(KEY_NAME), ""},
    [DIRECTIVE_CREATE] = {"create_persistent", STORAGE, BIT(KEY_NAME) | BIT(KEY_TYPE) | BIT(KEY_CAPACITY), STORAGE_TYPES},
    [DIRECTIVE_DESTROY] = {"destroy_persistent", BIT(KEY_NAME), BIT(KEY_NAME), ""},
    [DIRECTIVE_STAGE_IN] = {"stage_in", TWO | BIT(KEY_TYPE), TWO | BIT(KEY_TYPE), "file, directory, list"},
    [DIRECTIVE_STAGE_OUT] = {"stage_out", TWO | BIT(KEY_TYPE), TWO | BIT(KEY_TYPE), "file, directory, list"},
    [DIRECTIVE_COPY_IN] = {"copy_in", TWO | BIT(KEY_PROFILE), TWO, ""},
    [DIRECTIVE_COPY_OUT] = {"copy_out", TWO | BIT(KEY_PROFILE), TWO, ""},
};
#define N_VERBS (sizeof(verbs) / sizeof(verbs[0]))

const char *directive_name(enum directive_verb verb)
{
    return verbs[verb].name;
}

/* Every message has the script and the line, because the directives of a job are often made by another program. */
int directive_refuse(const struct directives *all, const struct directive *one, const char *format, ...)
{
    char text[1500];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    return ctl_fail("%s:%u: %s %s: %s", all->script, one->line, all->word, directive_name(one->verb), text);
}

/*
 * Decimal and binary units, as both systems' manuals have them. A number without a unit is refused. One that is larger than any file
 * system becomes the largest that can be said: no place has so much.
 */
int directive_capacity(const char *text, uint64_t *bytes)
{
    static const char letters[] = "KMGTP";
    char *end;
    double number = isdigit((unsigned char)*text) ? strtod(text, &end) : -1;
    if (number <= 0 || end != text + strspn(text, "0123456789.")) /* strtod takes 0x10 and 1e3 as well */
        return -EINVAL;
    const char *letter = *end ? strchr(letters, *end) : NULL;
    bool binary = letter && end[1] == 'i';
    if (!letter || strcmp(end + 1 + binary, "B") != 0)
        return -EINVAL;
    for (const char *l = letters; l <= letter; l++)
        number *= binary ? 1024 : 1000;
    *bytes = number < 0x1p64 ? (uint64_t)number : UINT64_MAX;
    return 0;
}

/* Is the word one of "a, b, c"? */
static bool is_one_of(const char *word, const char *list)
{
    size_t n = strlen(word);
    for (const char *p = list; (p = strstr(p, word)); p++)
        if ((p == list || p[-1] == ' ') && (p[n] == ',' || !p[n]))
            return n > 0;
    return false;
}

/* The names of keys in `set`, "a, b, c". */
static const char *list_keys(unsigned set, char *out, size_t size)
{
    size_t n = 0;
    out[0] = '\0';
    for (int k = 0; k < DIRECTIVE_KEYS; k++)
        if (set & BIT(k) && n < size)
            n += (size_t)snprintf(out + n, size - n, "%s%s", n ? ", " : "", key_names[k]);
    return out;
}

static bool is_access_mode(const char *value)
{
    return is_one_of(value, "striped, private") || strcmp(value, "striped,private") == 0 || strcmp(value, "private,striped") == 0;
}

/* A name becomes a folder and a part of a variable's name, so it holds nothing that a shell or a path would read. */
static bool is_name(const char *value)
{
    size_t n = strlen(value);
    return n > 0 && n <= DIRECTIVE_NAME_MAX && strspn(value, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") == n;
}

/* The pools of a site are not known here, so pool= takes any value that is not empty. */
static int check_value(const struct directives *all, const struct directive *d, enum directive_key key, const char *value)
{
    uint64_t bytes;
    if (key == KEY_TYPE && !is_one_of(value, verbs[d->verb].types))
        return directive_refuse(all, d, "type=%s; allowed: %s", value, verbs[d->verb].types);
    if (key == KEY_ACCESS && !is_access_mode(value))
        return directive_refuse(all, d, "access_mode=%s; allowed: striped, private, striped,private", value);
    if (key == KEY_CAPACITY && directive_capacity(value, &bytes))
        return directive_refuse(all, d, "capacity=%s; allowed: a size as 100GiB or 1TB", value);
    if (key == KEY_NAME && !is_name(value))
        return directive_refuse(all, d, "name=%s; allowed: letters, digits, - and _, at most %d", value, DIRECTIVE_NAME_MAX);
    if (key == KEY_PROFILE && !is_one_of(value, "default, polite, verified"))
        return directive_refuse(all, d, "profile=%s; allowed: default, polite, verified", value);
    if (key == KEY_CONFIGURATION && strcmp(value, "scratch") != 0)
        return directive_refuse(all, d, "configuration=%s; allowed: scratch", value);
    if (!*value)
        return directive_refuse(all, d, "%s= has no value", key_names[key]);
    return 0;
}

/* KEY=VALUE */
static int take_word(const struct directives *all, struct directive *d, char *word)
{
    char allowed[200];
    const struct verb *verb = &verbs[d->verb];
    char *value = strchr(word, '=');
    if (!value)
        return directive_refuse(all, d, "%s; allowed: KEY=VALUE with the keys %s", word,
                                list_keys(verb->allowed, allowed, sizeof(allowed)));
    *value++ = '\0';
    for (int k = 0; k < DIRECTIVE_KEYS; k++) {
        if (!key_names[k] || strcmp(key_names[k], word) != 0 || !(verb->allowed & BIT(k)))
            continue;
        if (d->value[k])
            return directive_refuse(all, d, "%s= is there twice", word);
        d->value[k] = value;
        return check_value(all, d, (enum directive_key)k, value);
    }
    return directive_refuse(all, d, "%s: unknown key; allowed: %s", word, list_keys(verb->allowed, allowed, sizeof(allowed)));
}

/* The verb is found first: which keys are allowed depends on it. */
static int take_verb(const struct directives *all, struct directive *d, const char *name)
{
    for (size_t v = 0; v < N_VERBS; v++)
        if (strcmp(verbs[v].name, name) == 0)
            return d->verb = (enum directive_verb)v, 0;
    return ctl_fail("%s:%u: %s %s: unknown directive; allowed: jobdw, persistentdw, create_persistent, destroy_persistent, stage_in, "
                    "stage_out, copy_in, copy_out",
                    all->script, d->line, all->word, name);
}

/* The words are cut in a copy that the directive keeps: its values point into it. */
static int take_line(const struct directives *all, struct directive *d, const char *rest)
{
    char missing[200], *save;
    if ((size_t)snprintf(d->text, sizeof(d->text), "%s", rest) >= sizeof(d->text))
        return ctl_fail("%s:%u: longer than %zu bytes", all->script, d->line, sizeof(d->text) - 1);
    const char *name = strtok_r(d->text, " \t\r\n", &save);
    if (!name)
        return ctl_fail("%s:%u: %s without a directive; allowed: one of jobdw, stage_in, copy_in ...", all->script, d->line, all->word);
    int rc = take_verb(all, d, name);
    for (char *word; !rc && (word = strtok_r(NULL, " \t\r\n", &save));)
        rc = take_word(all, d, word);
    unsigned lacks = verbs[d->verb].required;
    for (int k = 0; k < DIRECTIVE_KEYS; k++)
        lacks &= d->value[k] ? ~BIT(k) : ~0u;
    if (!rc && lacks)
        return directive_refuse(all, d, "%s is missing", list_keys(lacks, missing, sizeof(missing)));
    return rc;
}

/* The line's text after the word; NULL: it is none of ours. */
static const char *after_word(const char *line, const char *word)
{
    size_t n = strlen(word);
    return strncmp(line, word, n) == 0 && (isspace((unsigned char)line[n]) || !line[n]) ? line + n : NULL;
}

/*
 * The directive counts before its line is read, so directives_free finds it also after a refusal. `n`: bytes of the line; what is after
 * a zero byte would be passed over without a word.
 */
static int add_line(struct directives *all, const char *line, size_t n, unsigned number)
{
    const char *rest = after_word(line, all->word);
    if (!rest)
        return 0;
    if (strlen(line) != n)
        return ctl_fail("%s:%u: a zero byte in the line; allowed: text", all->script, number);
    struct directive **more = realloc(all->one, (all->n + 1) * sizeof(struct directive *));
    if (more)
        all->one = more;
    struct directive *new = more ? calloc(1, sizeof(*new)) : NULL;
    if (!new)
        return ctl_fail("%s", strerror(ENOMEM));
    new->line = number;
    all->one[all->n++] = new;
    return take_line(all, new, rest);
}

/* The whole script is read, not only its head: DataWarp's directives may be anywhere in it. */
int directives_read(struct directives *all, const char *script, const char *word)
{
    *all = (struct directives){.script = script, .word = word};
    const char *why;
    FILE *in = ctl_input_open(script, &why);
    char *line = NULL;
    size_t room = 0;
    ssize_t n;
    int rc = in ? 0 : ctl_fail("%s: %s", script, why);
    unsigned number = 0;
    while (!rc && (n = getline(&line, &room, in)) > 0)
        rc = add_line(all, line, (size_t)n, ++number);
    if (in && (why = ctl_input_close(in)) && !rc)
        rc = ctl_fail("%s: %s", script, why);
    if (!rc && !number)
        rc = ctl_fail("%s: is empty; allowed: a job script", script);
    free(line);
    return rc;
}

void directives_free(struct directives *all)
{
    for (size_t i = 0; i < all->n; i++)
        free(all->one[i]);
    free(all->one);
    *all = (struct directives){0};
}
