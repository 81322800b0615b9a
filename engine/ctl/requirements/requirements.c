/*
 * Reading requirements in XML by expat (requirements.h).  Only the two elements and their
 * attributes are allowed: a misspelled word would silently place nothing.  A document type is
 * refused, because its entities can make a small file as large as it likes.
 */
#include "requirements/requirements.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "requirements/ranks.h"
#include "text/sizes.h"
#include "text/text.h"

/*
 * By the first character that is no blank (and no byte order mark): Hermes' own format never begins with a `<`. A file
 * that cannot be read is none; its other reader says why.
 */
bool ctl_requirements_is_xml(const char *file)
{
    char directory[TB_PATH_MAX], *text;
    struct tb_error unused;
    if (tb_text_read(file, directory, &text, &unused))
        return false;
    bool is_xml = text[strspn(text, " \t\r\n\xEF\xBB\xBF")] == '<';
    free(text);
    return is_xml;
}

#ifdef TB_HAVE_EXPAT
#include <expat.h>

struct reader {
    XML_Parser parser;
    const char *file;
    const struct tb_config *tiers; /* their names are allowed; NULL: any */
    struct tb_config_placement *out;
    struct tb_error *err;
    int depth;
};

/* The attributes of a requirement, as written. */
struct requirement {
    const char *file, *pattern, *rank, *at_least, *at_most, *tiers;
};

/* The first message stays: after it nothing is read. */
static void refuse(struct reader *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The first finding counts: expat goes on for a moment after it is stopped. */
static void refuse(struct reader *r, const char *format, ...)
{
    va_list args;
    if (r->err->text[0])
        return;
    int n = snprintf(r->err->text, sizeof(r->err->text), "%.400s:%lu: ", r->file, (unsigned long)XML_GetCurrentLineNumber(r->parser));
    va_start(args, format);
    vsnprintf(r->err->text + n, sizeof(r->err->text) - (size_t)n, format, args);
    va_end(args);
    XML_StopParser(r->parser, XML_FALSE);
}

/* A message is one line: a control character of the file is shown as a `?`. */
static void refuse_value(struct reader *r, const char *attribute, const char *value, const char *allowed)
{
    char shown[101];
    snprintf(shown, sizeof(shown), "%s", value);
    for (char *c = shown; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7f)
            *c = '?';
    refuse(r, "<requirement> %s=\"%s\"; allowed: %.300s", attribute, shown, allowed);
}

/* The texts are expat's and last only until the element's handler returns, which is as long as they are used. */
static void take_attributes(struct reader *r, const char **attributes, struct requirement *q)
{
    const struct {
        const char *name, **into;
    } known[] = {
        {"file", &q->file},   {"pattern", &q->pattern}, {"rank", &q->rank}, {"size_at_least", &q->at_least}, {"size_at_most", &q->at_most},
        {"tiers", &q->tiers},
    };
    for (; *attributes; attributes += 2) {
        size_t i = 0, n = sizeof(known) / sizeof(known[0]);
        while (i < n && strcmp(known[i].name, attributes[0]) != 0)
            i++;
        if (i == n) {
            refuse_value(r, attributes[0], attributes[1], "file, pattern, rank, size_at_least, size_at_most, tiers");
            return;
        }
        *known[i].into = attributes[1];
    }
}

/* A size that is not there leaves the limit as it is: from 0, or without end. */
static void read_size(struct reader *r, const char *attribute, const char *value, uint64_t *out)
{
    const char *allowed = value ? tb_parse_size(value, out) : NULL;
    if (allowed)
        refuse_value(r, attribute, value, allowed);
}

/* Without a configuration any name may be right: rules alone are checked when they meet their tiers. */
static bool is_tier(const struct tb_config *c, const char *name)
{
    for (uint32_t t = 0; c && t < c->n_tiers; t++)
        if (strcmp(c->tiers[t].name, name) == 0)
            return true;
    return !c;
}

/* With a configuration its tiers are named, else what a name may be made of. */
static void refuse_tier(struct reader *r, const char *name)
{
    char allowed[300] = "names of tiers in letters, digits, - and _";
    size_t n = 0;
    for (uint32_t t = 0; r->tiers && t < r->tiers->n_tiers; t++)
        n += (size_t)snprintf(allowed + n, sizeof(allowed) - n, "%s%s", t ? ", " : "", r->tiers->tiers[t].name);
    refuse_value(r, "tiers", name, allowed);
}

/* Names between blanks, in the order of preference. */
static void read_tiers(struct reader *r, const char *at, struct tb_config_rule *rule)
{
    for (at += strspn(at, " "); *at; at += strspn(at, " ")) {
        size_t n = strcspn(at, " ");
        char name[TB_NAME_MAX];
        snprintf(name, sizeof(name), "%.*s", (int)(n < sizeof(name) ? n : sizeof(name) - 1), at);
        bool is_name = n < sizeof(name) && strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") == n;
        if (rule->n_tiers == TB_MAX_TIERS)
            return refuse_value(r, "tiers", at, "at most 8 names");
        if (!is_name || !is_tier(r->tiers, name))
            return refuse_tier(r, name);
        strcpy(rule->name[rule->n_tiers++], name);
        at += n;
    }
}

/* Such a name could not be shown in a message, and is nearly always a fault of the program that wrote the file. */
static bool has_control(const char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < ' ' || *text == 0x7f)
            return true;
    return false;
}

/* A file is a pattern in which every character means itself. */
static bool write_pattern(const struct requirement *q, char *out, size_t size)
{
    size_t n = 0;
    for (const char *c = q->file ? q->file : q->pattern; *c; c++) {
        if (q->file && strchr("*?[\\", *c) && n < size)
            out[n++] = '\\';
        if (n + 1 >= size)
            return false;
        out[n++] = *c;
    }
    out[n] = '\0';
    return true;
}

struct adding {
    struct reader *reader;
    const struct tb_config_rule *rule; /* all but its pattern */
};

/* One requirement may make several rules, since patterns have no numbers (ranks.c). */
static int add_rule(void *arg, const char *pattern)
{
    struct adding *a = arg;
    struct tb_config_placement *p = a->reader->out;
    if (p->n_rules == TB_MAX_RULES) {
        refuse(a->reader, "<requirement>: makes more than %d rules; allowed: %d of all requirements, a range of ranks may need several",
               TB_MAX_RULES, TB_MAX_RULES);
        return -EINVAL;
    }
    p->rules[p->n_rules] = *a->rule;
    snprintf(p->rules[p->n_rules++].pattern, sizeof(a->rule->pattern), "%s", pattern);
    return 0;
}

/* Values are checked before the ranks are expanded: a bad one is told once, and not for each rank. */
static void add_rules(struct reader *r, const struct requirement *q, const struct tb_config_rule *rule)
{
    char text[TB_PATTERN_MAX];
    const char *which = q->file ? "file" : "pattern", *value = q->file ? q->file : q->pattern;
    struct adding a = {r, rule};
    if (!*value || has_control(value) || tb_text_has_variable_mark(value) || !write_pattern(q, text, sizeof(text)))
        return refuse_value(r, which, value, "1 to 255 characters, none of them a control character, U+E000, U+E001");
    if (q->file && *q->file != '/')
        return refuse_value(r, which, value, "an absolute path; use pattern for others");
    const char *wrong = ctl_ranks_expand(text, q->rank, add_rule, &a);
    if (wrong)
        refuse(r, "<requirement> %s=\"%.100s\" rank=\"%.50s\": %s", which, value, q->rank ? q->rank : "", wrong);
}

/* Once something was refused, no rule is added. */
static void read_requirement(struct reader *r, const char **attributes)
{
    struct requirement q = {0};
    struct tb_config_rule rule = {.at_most = UINT64_MAX};
    take_attributes(r, attributes, &q);
    if (!q.file == !q.pattern)
        return refuse(r, "<requirement>: has %s of file and pattern; allowed: one of them", q.file ? "both" : "none");
    if (!q.tiers || !q.tiers[strspn(q.tiers, " ")])
        return refuse(r, "<requirement> tiers: is missing; allowed: names of tiers, the preferred one first");
    read_size(r, "size_at_least", q.at_least, &rule.at_least);
    read_size(r, "size_at_most", q.at_most, &rule.at_most);
    if (rule.at_least > rule.at_most)
        refuse_value(r, "size_at_most", q.at_most, "size_at_least or more");
    read_tiers(r, q.tiers, &rule);
    if (!r->err->text[0])
        add_rules(r, &q, &rule);
}

/* The depth says which element may come: the root, then requirements, and nothing in these. */
static void on_start(void *data, const char *element, const char **attributes)
{
    static const char *const elements[] = {"requirements", "requirement"};
    struct reader *r = data;
    int depth = r->depth++;
    if (depth > 1 || strcmp(element, elements[depth]) != 0)
        refuse(r, "<%.100s>: is no element here; allowed: %s", element,
               depth == 0   ? "<requirements>"
               : depth == 1 ? "<requirement>"
                            : "none in a <requirement>");
    else if (depth == 1)
        read_requirement(r, attributes);
    else if (*attributes)
        refuse(r, "<requirements> %.100s=\"%.100s\"; allowed: no attribute", attributes[0], attributes[1]);
}

/* Which element ends is expat's to check: it refuses one that was not begun. */
static void on_end(void *data, const char *element)
{
    struct reader *r = data;
    (void)element;
    r->depth--;
}

/* Blanks between elements are layout. Other text is most likely a value that its writer meant as an attribute. */
static void on_text(void *data, const char *text, int n)
{
    for (int i = 0; i < n; i++)
        if (!strchr(" \t\r\n", text[i]))
            return refuse(data, "%.*s: is text; allowed: elements with attributes", n - i < 100 ? n - i : 100, text + i);
}

/* Before any entity of it is read (see the top). */
static void on_document_type(void *data, const char *name, const char *system, const char *public, int internal)
{
    (void)system;
    (void)public;
    (void)internal;
    refuse(data, "<!DOCTYPE %.100s>: is a document type; allowed: none", name);
}

/*
 * What expat itself refuses comes as its own words, with the line. After a refusal of ours the parser was stopped, and its
 * error says nothing new.
 */
static int parse(struct reader *r, const char *text)
{
    XML_SetUserData(r->parser, r);
    XML_SetElementHandler(r->parser, on_start, on_end);
    XML_SetCharacterDataHandler(r->parser, on_text);
    XML_SetStartDoctypeDeclHandler(r->parser, on_document_type);
    if (XML_Parse(r->parser, text, (int)strlen(text), 1) != XML_STATUS_OK)
        refuse(r, "is no well-formed XML: %s; allowed: <requirements> with <requirement .../> in it",
               XML_ErrorString(XML_GetErrorCode(r->parser)));
    if (!r->out->n_rules)
        refuse(r, "<requirements>: is empty; allowed: at least one <requirement>");
    return r->err->text[0] ? -EINVAL : 0;
}

/* Read beside the configuration and copied at the end: after an error the configuration is as it was. */
int ctl_requirements_read(const char *file, bool has_tiers, struct tb_config *config, struct tb_error *err)
{
    char directory[TB_PATH_MAX], *text;
    struct tb_config_placement *out = calloc(1, sizeof(*out));
    struct reader r = {.parser = XML_ParserCreate(NULL), .file = file, .tiers = has_tiers ? config : NULL, .out = out, .err = err};
    err->text[0] = '\0';
    int rc = out && r.parser ? tb_text_read(file, directory, &text, err) : -ENOMEM;
    if (!rc) {
        rc = parse(&r, text);
        free(text);
    }
    if (!rc) {
        out->policy = TB_POLICY_USER_DEFINED;
        config->placement = *out;
    }
    if (r.parser)
        XML_ParserFree(r.parser);
    free(out);
    return rc;
}

#else

int ctl_requirements_read(const char *file, bool has_tiers, struct tb_config *config, struct tb_error *err)
{
    (void)has_tiers;
    (void)config;
    snprintf(err->text, sizeof(err->text), "%.900s: is XML; this tierctl was built without libexpat", file);
    return -ENOTSUP;
}

#endif
