/*
 * One access pattern of a scenario file, and whether the patterns of a job make sense one after the other: FORGE reads
 * and writes whatever file is open, here that is refused where none is, or another one is named.
 */
#include "tb_forge.h"

#include <stdlib.h>
#include <string.h>

static const int64_t MOST_BYTES = INT64_C(1) << 60, MOST_REQUEST = INT64_C(1) << 30, MOST_SECONDS = 1000000;

static const char *const operation_words[] = {"open", "close", "write", "read", NULL};

/* FORGE looks for these words in the text, in this order, so that "write_all" is a write. */
static bool operation_of(const struct tb_json *node, enum tb_operation *out, struct tb_complaint *c)
{
    static const enum tb_operation order[] = {TB_OPEN, TB_CLOSE, TB_WRITE, TB_READ};
    const char *text = json_string_value(node->value);
    for (size_t i = 0; text && i < sizeof(order) / sizeof(*order); i++)
        if (strstr(text, operation_words[order[i]])) {
            *out = order[i];
            return true;
        }
    return tb_json_refuse(node, "open, close, write or read", c);
}

/* Leaves the value as it is where the key is missing. */
static bool optional_whole(const struct tb_json *object, const char *key, int64_t most, int64_t *out, struct tb_complaint *c)
{
    struct tb_json node = tb_json_member(object, key);
    return !node.value || tb_json_whole(&node, 0, most, out, c);
}

/* 0 or 1, as FORGE's files have it, not true and false. */
static bool flag(const struct tb_json *object, const char *key, bool *out, struct tb_complaint *c)
{
    int64_t value = 0;
    bool good = optional_whole(object, key, 1, &value, c);
    *out = value != 0;
    return good;
}

/* Only an open needs the name. FORGE's files repeat it at each use, where it has to be the same. */
static bool path_of(const struct tb_json *object, bool needed, char **out, struct tb_complaint *c)
{
    struct tb_json node = tb_json_member(object, "path");
    const char *text = NULL;
    if (!node.value && !needed)
        return true;
    if (!tb_json_text(&node, &text, c))
        return false;
    *out = strdup(text);
    return *out || tb_complain(c, "no memory for the scenario");
}

static bool layout_of(const struct tb_json *object, bool *shared, struct tb_complaint *c)
{
    static const char *const words[] = {"individual", "shared", NULL};
    struct tb_json node = tb_json_member(object, "number_of_files");
    int word = 0;
    bool good = tb_json_word(&node, words, "individual or shared", &word, c);
    *shared = word == 1;
    return good;
}

/* In a file of one's own FORGE's strides are none, so that is what is measured and told. */
static bool spatiality_of(const struct tb_json *object, bool shared, bool *strided, struct tb_complaint *c)
{
    static const char *const words[] = {"contiguous", "strided", NULL};
    struct tb_json node = tb_json_member(object, "spatiality");
    int word = 0;
    bool good = tb_json_word(&node, words, "contiguous or strided", &word, c);
    *strided = shared && word == 1;
    return good;
}

/* The largest request is what each buffer of an I/O node has to hold, so it has a limit of its own. */
static bool sizes_of(struct tb_access *p, const struct tb_json *object, struct tb_complaint *c)
{
    struct tb_json total = tb_json_member(object, "total_size"), request = tb_json_member(object, "request_size");
    return tb_json_whole(&total, 1, MOST_BYTES, &p->total, c) && tb_json_whole(&request, 1, MOST_REQUEST, &p->request, c);
}

static bool settings_of(struct tb_access *p, const struct tb_json *object, struct tb_complaint *c)
{
    return flag(object, "validation", &p->validate, c) && flag(object, "direct_io", &p->direct, c) &&
           optional_whole(object, "stone_wall", MOST_SECONDS, &p->stonewall, c);
}

/* In this order: whether strides count depends on the layout. */
static bool transfer_of(struct tb_access *p, const struct tb_json *node, struct tb_complaint *c)
{
    return layout_of(node, &p->shared, c) && spatiality_of(node, p->shared, &p->strided, c) && sizes_of(p, node, c) &&
           settings_of(p, node, c);
}

/* An open and a close have a name and no sizes; what else FORGE's files say there is read and means nothing. */
bool tb_pattern_read(struct tb_access *p, const struct tb_json *node, struct tb_complaint *c)
{
    static const char *const keys[] = {"path",         "operation",  "number_of_files", "spatiality", "total_size",
                                       "request_size", "validation", "stone_wall",      "direct_io",  NULL};
    struct tb_json operation = tb_json_member(node, "operation");
    if (!tb_json_object(node, keys, c) || !operation_of(&operation, &p->operation, c) ||
        !path_of(node, p->operation == TB_OPEN, &p->path, c))
        return false;
    if (p->operation == TB_OPEN)
        return layout_of(node, &p->shared, c) && settings_of(p, node, c);
    return p->operation == TB_CLOSE || transfer_of(p, node, c);
}

/* Each pattern has a path of its own to free, also where it was refused. */
static bool copy_with(struct tb_access *to, const struct tb_access *from, enum tb_operation operation, struct tb_complaint *c)
{
    *to = *from;
    to->operation = operation;
    to->path = strdup(from->path);
    return to->path || tb_complain(c, "no memory for the scenario");
}

/* Without the key, a write and then a read, as the examples of that time print. */
static bool flat_operations(const struct tb_json *node, bool *write, bool *read, struct tb_complaint *c)
{
    struct tb_json operations = tb_json_member(node, "operations");
    const char *text = operations.value ? json_string_value(operations.value) : "write, read";
    *write = text && strstr(text, "write");
    *read = text && strstr(text, "read");
    return *write || *read || tb_json_refuse(&operations, "text with write or read", c);
}

/* The older format is one phase: open, what it says, close. */
bool tb_flat_read(struct tb_phase *phase, const struct tb_json *node, struct tb_complaint *c)
{
    struct tb_access p = {0};
    bool write, read, good;
    phase->repetitions = 1;
    phase->patterns = calloc(4, sizeof(*phase->patterns));
    if (!phase->patterns)
        return tb_complain(c, "no memory for the scenario");
    good = path_of(node, true, &p.path, c) && transfer_of(&p, node, c) && flat_operations(node, &write, &read, c) &&
           copy_with(&phase->patterns[phase->count++], &p, TB_OPEN, c) &&
           (!write || copy_with(&phase->patterns[phase->count++], &p, TB_WRITE, c)) &&
           (!read || copy_with(&phase->patterns[phase->count++], &p, TB_READ, c)) &&
           copy_with(&phase->patterns[phase->count++], &p, TB_CLOSE, c);
    free(p.path);
    return good;
}

/*
 * A use gets the name of the open file; whether it is shared must be as it was opened. O_DIRECT is asked for with a
 * transfer and needed at the open, so it is handed back to there.
 */
static bool use(struct tb_access *p, struct tb_access *open, const struct tb_json *node, struct tb_complaint *c)
{
    struct tb_json operation = tb_json_member(node, "operation"), path = tb_json_member(node, "path");
    struct tb_json files = tb_json_member(node, "number_of_files");
    if (!open)
        return tb_json_refuse(&operation, "open, as no file is open here", c);
    if (p->path && strcmp(p->path, open->path))
        return tb_json_refuse(&path, "the path of the file that is open, or none", c);
    if (p->operation != TB_CLOSE && p->shared != open->shared)
        return tb_json_refuse(&files, open->shared ? "shared, as the file was opened" : "individual, as the file was opened", c);
    p->shared = open->shared;
    open->direct |= p->direct;
    if (!p->path)
        p->path = strdup(open->path);
    return p->path || tb_complain(c, "no memory for the scenario");
}

/* One file is open at a time, as in FORGE. */
static bool step(struct tb_access *p, struct tb_access **open, const struct tb_json *node, struct tb_complaint *c)
{
    struct tb_json operation = tb_json_member(node, "operation");
    if (p->operation != TB_OPEN && !use(p, *open, node, c))
        return false;
    if (p->operation == TB_OPEN && *open)
        return tb_json_refuse(&operation, "close, write or read, as a file is open here", c);
    if (p->operation == TB_OPEN || p->operation == TB_CLOSE)
        *open = p->operation == TB_OPEN ? p : NULL;
    return true;
}

/* A repeated phase is gone through twice: what one repetition leaves open the next one finds. */
bool tb_patterns_resolve(struct tb_job *job, const struct tb_json *phases, struct tb_complaint *c)
{
    struct tb_access *open = NULL;
    for (size_t i = 0; i < job->count; i++) {
        struct tb_phase *phase = &job->phases[i];
        struct tb_json one = tb_json_element(phases, i), patterns = tb_json_member(&one, "patterns");
        for (int round = 0; round < 2 && round < phase->repetitions; round++)
            for (size_t k = 0; k < phase->count; k++) {
                struct tb_json node = tb_json_element(&patterns, k);
                if (!step(&phase->patterns[k], &open, &node, c))
                    return false;
            }
    }
    return true;
}
