/*
 * IOR's JSON, written whole at the end, so that it is either valid or not there. Names and
 * their order are IOR's, with its misspelled ones, because programs read them; numbers have
 * four decimals, as there.
 */
#include "tb_ior.h"

#include <stdarg.h>

/* Writes the comma between members and remembers whether one is due. */
struct writer {
    FILE *f;
    int depth;
    bool comma;
};

/* A member may be the first of its object, so the comma comes before it and not after. */
static void next(struct writer *w)
{
    fprintf(w->f, "%s\n%*s", w->comma ? "," : "", w->depth * 2, "");
    w->comma = true;
}

/* Any name must give valid JSON, or a script cannot read the run at all. */
static void quote(struct writer *w, const char *text)
{
    putc('"', w->f);
    for (const unsigned char *c = (const unsigned char *)text; *c; c++) {
        if (*c == '"' || *c == '\\')
            fprintf(w->f, "\\%c", *c);
        else if (*c < 0x20 || *c >= 0x7f) /* names are bytes, not always UTF-8: Latin-1 code points keep them */
            fprintf(w->f, "\\u%04x", *c);
        else
            putc(*c, w->f);
    }
    putc('"', w->f);
}

/* A member: what comes next is its value. */
static void key(struct writer *w, const char *name)
{
    next(w);
    quote(w, name);
    fputs(": ", w->f);
}

/* The three kinds of values that IOR has. */
static void string(struct writer *w, const char *name, const char *text)
{
    key(w, name);
    quote(w, text);
}

static void whole(struct writer *w, const char *name, int64_t value)
{
    key(w, name);
    fprintf(w->f, "%lld", (long long)value);
}

static void real(struct writer *w, const char *name, double value)
{
    key(w, name);
    fprintf(w->f, "%.4f", value);
}

/* For values that IOR prints as text although they are numbers. */
static __attribute__((format(printf, 3, 4))) void format(struct writer *w, const char *name, const char *form, ...)
{
    char text[256];
    va_list arguments;
    va_start(arguments, form);
    vsnprintf(text, sizeof(text), form, arguments);
    va_end(arguments);
    string(w, name, text);
}

/* Without a name it is an element of a list. */
static void enter(struct writer *w, const char *name, char bracket)
{
    if (name)
        key(w, name);
    else
        next(w);
    putc(bracket, w->f);
    w->depth++;
    w->comma = false;
}

/* The member after it needs a comma, whatever was inside. */
static void leave(struct writer *w, char bracket)
{
    w->depth--;
    fprintf(w->f, "\n%*s%c", w->depth * 2, "", bracket);
    w->comma = true;
}

/* Rows that the text alone has are left out, and so are rows with a condition that does not hold. */
static void fields(struct writer *w, const struct tb_field *f, const struct tb_test *t)
{
    for (; f->name; f++) {
        if (f->text_only || (f->when && !f->when(t->options)))
            continue;
        struct tb_value v = tb_field_value(f, t);
        if (v.is_text)
            string(w, f->name, v.text ? v.text : v.room);
        else
            whole(w, f->name, v.number);
    }
}

/* One row of the table a member, with IOR's own names. */
static void object(struct writer *w, const char *name, const struct tb_field *f, const struct tb_test *t)
{
    enter(w, name, '{');
    fields(w, f, t);
    leave(w, '}');
}

/* A removal has a time and nothing else. */
static void one_result(struct writer *w, const struct tb_test *t, const struct tb_result *x)
{
    enter(w, NULL, '{');
    string(w, "access", x->removal ? "remove" : x->write ? "write" : "read");
    if (x->removal) {
        real(w, "totalTime", x->total_s);
        leave(w, '}');
        return;
    }
    real(w, "bwMiB", x->bandwidth_mib);
    real(w, "blockKiB", (double)t->options->block / 1024);
    real(w, "xferKiB", (double)t->options->transfer / 1024);
    real(w, "iops", x->iops);
    real(w, "latency", x->latency_s);
    real(w, "openTime", x->open_s);
    real(w, "wrRdTime", x->transfer_s);
    real(w, "closeTime", x->close_s);
    real(w, "totalTime", x->total_s);
    leave(w, '}');
}

/* Only of what was measured: a test may have no writes or no reads. */
static void maxima(struct writer *w, const struct tb_test *t)
{
    enter(w, "max", '{');
    for (int write = 1; write >= 0; write--) {
        struct tb_statistics s = tb_summarize(t, write);
        if (!s.count)
            continue;
        real(w, write ? "writeMiB" : "readMiB", s.max);
        real(w, write ? "writeMB" : "readMB", s.max * TB_MIB / 1e6);
    }
    leave(w, '}');
}

/* Results have no number of their repetition, as in IOR: their order tells it. */
static void one_test(struct writer *w, const struct tb_test *t)
{
    enter(w, NULL, '{');
    whole(w, "TestID", t->id);
    string(w, "StartTime", t->began);
    string(w, "Path", t->path);
    format(w, "Capacity", "%.1f GiB", t->fs.capacity_gib);
    format(w, "Used Capacity", "%.1f%%", t->fs.used_percent);
    format(w, "Inodes", "%.1f Mi", t->fs.inodes_mi);
    format(w, "Used Inodes", "%.1f%%", t->fs.used_inodes_percent);
    object(w, "Parameters", tb_parameters, t);
    object(w, "Options", tb_option_fields, t);
    enter(w, "Results", '[');
    for (size_t i = 0; i < t->count; i++)
        one_result(w, t, &t->results[i]);
    leave(w, ']');
    if (t->options->verbose)
        maxima(w, t);
    leave(w, '}');
}

/* The names mix MIB and MiB, as IOR's do. */
static void statistics(struct writer *w, const struct tb_options *o, const struct tb_statistics *s)
{
    real(w, "bwMaxMIB", s->max);
    real(w, "bwMinMIB", s->min);
    real(w, "bwMeanMIB", s->mean);
    real(w, "bwStdMIB", s->deviation);
    real(w, "OPsMax", s->ops_max);
    real(w, "OPsMin", s->ops_min);
    real(w, "OPsMean", s->ops_mean);
    real(w, "OPsSD", s->ops_deviation);
    real(w, "MeanTime", s->time_s);
    if (o->wear_out) {
        real(w, "StoneWallTime", s->stonewall_s);
        real(w, "StoneWallbwMeanMIB", s->stonewall_mib);
    }
    real(w, "xsizeMiB", s->moved_mib);
}

/* What was not measured has no row: zeros would be read as numbers. */
static void summary(struct writer *w, const struct tb_test *t, bool write)
{
    struct tb_statistics s = tb_summarize(t, write);
    if (!s.count)
        return;
    enter(w, NULL, '{');
    string(w, "operation", write ? "write" : "read");
    fields(w, tb_summary_fields, t);
    statistics(w, t->options, &s);
    leave(w, '}');
}

/* One object for the run; tests and summaries are two lists in the same order. */
static void end(struct tb_report *r)
{
    struct writer w = {r->out, 1, false};
    char finished[32];
    tb_now(finished);
    putc('{', r->out);
    string(&w, "Version", TB_PROGRAM "-" TB_VERSION);
    string(&w, "Began", r->began);
    string(&w, "Command line", r->command_line);
    string(&w, "Machine", r->machine);
    enter(&w, "tests", '[');
    for (size_t i = 0; i < r->count; i++)
        one_test(&w, &r->tests[i]);
    leave(&w, ']');
    enter(&w, "summary", '[');
    for (size_t i = 0; i < r->count; i++) {
        summary(&w, &r->tests[i], true);
        summary(&w, &r->tests[i], false);
    }
    leave(&w, ']');
    string(&w, "Finished", finished);
    fputs("\n}\n", r->out);
}

const struct tb_output tb_json = {.name = "JSON", .at_end = true, .end = end};
