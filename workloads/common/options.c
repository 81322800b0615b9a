/*
 * Command lines from tables. Values follow their letter in any of the field's ways: -n 4, -n4, -n=4, --name=4; flags
 * may share a dash.
 */
#include "driver.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Always false, so that a parser can return it. */
bool tb_wrong(struct tb_complaint *c, const char *option, const char *value, const char *allowed)
{
    snprintf(c->text, sizeof(c->text), "%s: '%s' is not allowed, expected %s", option, value, allowed);
    return false;
}

bool tb_complain(struct tb_complaint *c, const char *text)
{
    snprintf(c->text, sizeof(c->text), "%s", text);
    return false;
}

/* The first broken rule is enough: later ones may follow from it. */
bool tb_rules_hold(const struct tb_rule *rules, const void *options, int tasks, struct tb_complaint *c)
{
    while (rules->is_broken && !rules->is_broken(options, tasks))
        rules++;
    return !rules->is_broken || tb_complain(c, rules->text);
}

/* Of k, KB and KiB and the like, all of which are 1024 to IOR; -1: none of them. */
static int suffix_shift(const char *suffix)
{
    static const char letters[] = "kmgt";
    const char *at = *suffix ? strchr(letters, tolower((unsigned char)*suffix)) : NULL;
    if (!*suffix)
        return 0;
    if (!at || (suffix[1] && strcasecmp(suffix + 1, "b") && strcasecmp(suffix + 1, "ib")))
        return -1;
    return 10 * (int)(at - letters + 1);
}

/* `shift` may make a number too large for 64 bits: that is out of range, not another number. */
static bool in_range(int64_t value, int shift, const struct tb_option *o)
{
    int64_t scaled;
    return !__builtin_mul_overflow(value, (int64_t)1 << shift, &scaled) && scaled >= o->least && scaled <= o->most;
}

/* The range is checked after the suffix, and without overflow. */
static bool take_number(const struct tb_option *o, const char *option, const char *text, int64_t *out, struct tb_complaint *c)
{
    char *end, allowed[128];
    errno = 0;
    long long v = strtoll(text, &end, 10);
    int shift = o->kind == TB_SIZE ? suffix_shift(end) : *end ? -1 : 0;
    bool good = end != text && !errno && shift >= 0 && in_range(v, shift, o);
    if (good) {
        *out = (int64_t)v * ((int64_t)1 << shift);
        return true;
    }
    snprintf(allowed, sizeof(allowed), "a whole number from %lld to %lld%s", (long long)o->least, (long long)o->most,
             o->kind == TB_SIZE ? ", also as 4k, 2m, 1g or 1t" : "");
    return tb_wrong(c, option, text, allowed);
}

/*
 * Flags, counts and refused options take no word after them.
 */
static bool has_value(enum tb_kind kind)
{
    return kind != TB_FLAG && kind != TB_COUNT && kind != TB_IGNORED_FLAG && kind != TB_REFUSED;
}

/* A flag of the command line has no value; as a directive of -O it has 0 or 1. */
static bool set_flag(const struct tb_option *o, void *field, const char *option, const char *value, struct tb_complaint *c)
{
    if (value && strcmp(value, "0") && strcmp(value, "1"))
        return tb_wrong(c, option, value, "0 or 1");
    if (o->kind == TB_FLAG)
        *(bool *)field = !value || *value == '1';
    return true;
}

/* -v -v -v, or a number. */
static bool set_count(int *field, const char *option, const char *value, struct tb_complaint *c)
{
    const struct tb_option range = {.kind = TB_INT, .least = 0, .most = 9};
    int64_t number = *field + 1;
    if (value && !take_number(&range, option, value, &number, c))
        return false;
    *field = (int)number;
    return true;
}

static bool not_supported(const struct tb_option *o, const char *option, struct tb_complaint *c)
{
    snprintf(c->text, sizeof(c->text), "%s: not supported: %s", option, o->help);
    return false;
}

/*
 * One row, one field. Ignored options are read all the same, so that their values are not
 * taken for words.
 */
static bool set(const struct tb_option *o, void *options, const char *option, const char *value, struct tb_complaint *c)
{
    void *field = (char *)options + o->offset;
    int64_t number;
    switch (o->kind) {
    case TB_FLAG:
    case TB_IGNORED_FLAG: return set_flag(o, field, option, value, c);
    case TB_COUNT: return set_count(field, option, value, c);
    case TB_TAKE: return o->take(options, option, value, c);
    case TB_IGNORED: return true;
    case TB_REFUSED: return not_supported(o, option, c);
    case TB_TEXT:
        /* Room for the rank's directory, the rank and the repetition that are added to a path. */
        if (!*value || strlen(value) > 4000)
            return tb_wrong(c, option, value, "1 to 4000 characters");
        *(const char **)field = value;
        return true;
    case TB_INT:
    case TB_SIZE: break;
    }
    if (!take_number(o, option, value, &number, c))
        return false;
    if (o->kind == TB_INT)
        *(int *)field = (int)number;
    else
        *(int64_t *)field = number;
    return true;
}

static bool is_row(const struct tb_option *o)
{
    return o->letter || o->name;
}

/* `name` may go on after `length`, as in name=value. */
static const struct tb_option *by_name(const struct tb_option *table, const char *name, size_t length, bool any_case)
{
    for (const struct tb_option *o = table; is_row(o); o++) {
        if (!o->name || strlen(o->name) != length)
            continue;
        if (any_case ? !strncasecmp(o->name, name, length) : !strncmp(o->name, name, length))
            return o;
    }
    return NULL;
}

/* Letters are told apart by case, names of directives are not. */
static const struct tb_option *by_letter(const struct tb_option *table, char letter)
{
    for (const struct tb_option *o = table; is_row(o); o++)
        if (o->letter == letter)
            return o;
    return NULL;
}

/* Also with the dashes of the command line. What has no name (-O itself) is no directive. */
static const struct tb_option *by_directive(const struct tb_option *table, const char *name)
{
    const struct tb_option *o = name[0] == '-' && name[1] && !name[2] ? by_letter(table, name[1]) : NULL;
    if (o && o->name)
        return o;
    name += strncmp(name, "--", 2) ? 0 : 2;
    return by_name(table, name, strlen(name), true);
}

/* As a script or -O names it; the message names it with -O, as it can be given on a command line. */
bool tb_directive(const struct tb_option *table, void *options, const char *name, const char *value, struct tb_complaint *c)
{
    char option[128];
    const struct tb_option *o = by_directive(table, name);
    snprintf(option, sizeof(option), "-O %s", name);
    if (!o) {
        snprintf(c->text, sizeof(c->text), "%s: no such directive (see --help)", option);
        return false;
    }
    return set(o, options, option, value, c);
}

/* The value of an option that ends at `rest`: what is glued to it, else the next word. */
static const char *value_of(const char *rest, int argc, char **argv, int *at)
{
    if (*rest)
        return rest + (*rest == '=');
    return *at + 1 < argc ? argv[++*at] : NULL;
}

static bool refuse(struct tb_complaint *c, const char *what, const char *word)
{
    snprintf(c->text, sizeof(c->text), "%s %s (see --help)", what, word);
    return false;
}

/* --name=value or --name value. */
static bool take_long(const struct tb_option *table, void *options, int argc, char **argv, int *at, struct tb_complaint *c)
{
    const char *word = argv[*at], *name = word + 2;
    size_t length = strcspn(name, "=");
    const struct tb_option *o = by_name(table, name, length, false);
    if (!o)
        return refuse(c, "unknown option", word);
    const char *value = name[length] ? name + length + 1 : NULL;
    if (has_value(o->kind) && !(value = value_of(name + length, argc, argv, at)))
        return refuse(c, "a value is missing after", word);
    return set(o, options, word, value, c);
}

/* Flags may share a dash; the first option that takes a value takes the rest of the word. */
static bool take_letters(const struct tb_option *table, void *options, int argc, char **argv, int *at, struct tb_complaint *c)
{
    const char *word = argv[*at];
    for (const char *letter = word + 1; *letter; letter++) {
        const struct tb_option *o = by_letter(table, *letter);
        char option[] = {'-', *letter, '\0'};
        const char *value = NULL;
        if (!o)
            return refuse(c, "unknown option", word);
        if (has_value(o->kind) && !(value = value_of(letter + 1, argc, argv, at)))
            return refuse(c, "a value is missing after", option);
        if (!set(o, options, option, value, c))
            return false;
        if (value)
            break;
    }
    return true;
}

/* Words without a dash are refused: a forgotten one would silently change the test. */
bool tb_options_read(const struct tb_option *table, void *options, int argc, char **argv, struct tb_complaint *c)
{
    for (int at = 1; at < argc; at++) {
        const char *word = argv[at];
        if (word[0] != '-' || !word[1])
            return tb_wrong(c, "argument", word, "only options (see --help)");
        bool (*take)(const struct tb_option *, void *, int, char **, int *, struct tb_complaint *) =
            word[1] == '-' ? take_long : take_letters;
        if (!take(table, options, argc, argv, &at, c))
            return false;
    }
    return true;
}

/* Options without a text are other names of the row before. */
void tb_options_help(const struct tb_option *table, const char *program, FILE *out)
{
    fprintf(out, "usage: %s [options]\n\n", program);
    for (const struct tb_option *o = table; is_row(o); o++) {
        char left[64], letter[] = {'-', o->letter, '\0'};
        if (!o->help || o->kind == TB_REFUSED)
            continue;
        snprintf(left, sizeof(left), "%s%s%s%s%s", o->letter ? letter : "", o->letter && o->name ? ", " : "", o->name ? "--" : "",
                 o->name ? o->name : "", has_value(o->kind) ? "=VALUE" : "");
        fprintf(out, "  %-38s %s\n", left, o->help);
    }
}
