/*
 * YAML into structures by tables of keys: one walk over the document sets the values, and
 * refuses unknown keys, double keys and wrong values with file, line, key and what is
 * allowed.
 *
 * The first refusal ends the walk, and what was stored by then counts for nothing: the
 * caller throws the target away. A table is code, so what is wrong in one is an assert.
 */
#include "text/yaml.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text/sizes.h"
#include "text/text.h"

#define VALUE_SHOWN 80 /* characters of a value that a message repeats */
#define KEY_MAX 192    /* of a key's path, as tiers[1].slabs[0].share */

/* libyaml counts from 0, editors from 1. */
static unsigned line_of(const yaml_node_t *node)
{
    return (unsigned)node->start_mark.line + 1;
}

/* The one place that makes messages: file, line, key, text. */
int tb_yaml_refuse(struct tb_yaml *yaml, yaml_node_t *node, const char *path, const char *format, ...)
{
    char text[TB_ERROR_MAX / 2];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    snprintf(yaml->err->text, sizeof(yaml->err->text), "%.300s:%u: %s%s%s", yaml->file, line_of(node), path, *path ? ": " : "", text);
    return -EINVAL;
}

/* Refuse a scalar, repeating it as the user wrote it: with the variable's name, which is in the file, not its value. */
static int refuse_value(struct tb_yaml *yaml, yaml_node_t *node, const char *path, const char *why)
{
    char shown[VALUE_SHOWN];
    tb_text_show((const char *)node->data.scalar.value, shown, sizeof(shown));
    return tb_yaml_refuse(yaml, node, path, "\"%s\": %s", shown, why);
}

/* In the words of the documentation, not in those of YAML. */
static const char *kind_of(const yaml_node_t *node)
{
    static const char *const kinds[] = {"nothing", "a single value", "a list", "a mapping"};
    assert((size_t)node->type < sizeof(kinds) / sizeof(kinds[0]));
    return kinds[node->type];
}

/*
 * A scalar with its variables replaced. What is empty after that has no value, whatever its
 * spelling: "", ~, or a variable that is set to nothing. A "${" that is still there is a
 * variable with a misspelled name.
 */
static int read_scalar(struct tb_yaml *yaml, yaml_node_t *node, const char *path, char *out, size_t size)
{
    if (node->type != YAML_SCALAR_NODE)
        return tb_yaml_refuse(yaml, node, path, "is %s; allowed: a single value", kind_of(node));
    const char *text = (const char *)node->data.scalar.value;
    if (strlen(text) != node->data.scalar.length)
        return tb_yaml_refuse(yaml, node, path, "holds a NUL character");
    int rc = tb_text_expand(text, out, size);
    if (rc == -EINVAL) {
        char name[VALUE_SHOWN];
        snprintf(name, sizeof(name), "%.60s", out);
        char why[2 * VALUE_SHOWN];
        snprintf(why, sizeof(why), "the environment variable %s is not set", name);
        return refuse_value(yaml, node, path, why);
    }
    if (rc)
        return refuse_value(yaml, node, path, "too long");
    if (strstr(out, "${"))
        return refuse_value(yaml, node, path, "a variable is written ${NAME}, of letters, digits and _");
    if (*out == '\0' || (node->data.scalar.style == YAML_PLAIN_SCALAR_STYLE && strcmp(out, "~") == 0))
        return tb_yaml_refuse(yaml, node, path, "has no value");
    return 0;
}

/*
 * Paths become absolute here, from the directory of the file that holds them. A text that is
 * too long is refused and not cut: a cut name may be another's.
 */
static int store_text(struct tb_yaml *yaml, const struct tb_yaml_key *key, yaml_node_t *node, const char *path, const char *text, char *to)
{
    char why[64];
    snprintf(why, sizeof(why), "longer than %zu characters", key->width - 1);
    if (key->type == TB_YAML_PATH)
        return tb_path_absolute(yaml->directory, text, to, key->width) ? refuse_value(yaml, node, path, why) : 0;
    if (strlen(text) >= key->width)
        return refuse_value(yaml, node, path, why);
    memcpy(to, text, strlen(text) + 1);
    return 0;
}

/* A field of 32 bits gets at most a quarter of its range, so that sums of it cannot overflow. */
static int store_size(struct tb_yaml *yaml, const struct tb_yaml_key *key, yaml_node_t *node, const char *path, const char *text, void *to)
{
    uint64_t bytes;
    const char *wrong = tb_parse_size(text, &bytes);
    assert(key->width == sizeof(uint32_t) || key->width == sizeof(uint64_t));
    if (!wrong && key->width == sizeof(uint32_t) && bytes > UINT32_MAX / 4)
        wrong = "too large: allowed up to 1023MiB";
    if (wrong)
        return refuse_value(yaml, node, path, wrong);
    if (key->width == sizeof(uint32_t))
        *(uint32_t *)to = (uint32_t)bytes;
    else
        *(uint64_t *)to = bytes;
    return 0;
}

/*
 * Numbers have no units, and quoted ones are refused: they are text. The test for a whole
 * number comes after that of the range, or the conversion would be undefined.
 */
static int store_number(struct tb_yaml *yaml, const struct tb_yaml_key *key, yaml_node_t *node, const char *path, const char *text,
                        void *to)
{
    double number = -1;
    char why[96];
    bool plain = node->data.scalar.style == YAML_PLAIN_SCALAR_STYLE && !tb_parse_number(text, &number);
    if (key->type == TB_YAML_FRACTION) {
        if (!plain || number > 1)
            return refuse_value(yaml, node, path, "allowed: a number from 0 to 1");
        *(double *)to = number;
        return 0;
    }
    if (plain && number >= key->min && number <= key->max && number == (uint32_t)number) {
        *(uint32_t *)to = (uint32_t)number;
        return 0;
    }
    if (key->min == key->max)
        snprintf(why, sizeof(why), "allowed: %u", key->min);
    else
        snprintf(why, sizeof(why), "allowed: a whole number from %u to %u", key->min, key->max);
    return refuse_value(yaml, node, path, why);
}

/* The message lists all allowed words. They are few and short, by the tables; snprintf cuts what is more. */
static int store_word(struct tb_yaml *yaml, const char *const *words, yaml_node_t *node, const char *path, const char *text, int *index)
{
    char why[256] = "allowed:";
    for (int i = 0; words[i]; i++) {
        if (strcmp(text, words[i]) == 0) {
            *index = i;
            return 0;
        }
        size_t used = strlen(why);
        snprintf(why + used, sizeof(why) - used, "%s %s", i ? "," : "", words[i]);
    }
    return refuse_value(yaml, node, path, why);
}

static int store_choice(struct tb_yaml *yaml, const struct tb_yaml_key *key, yaml_node_t *node, const char *path, const char *text,
                        void *to)
{
    static const char *const flags[] = {"false", "true", NULL};
    int index = 0;
    int rc = store_word(yaml, key->type == TB_YAML_FLAG ? flags : key->choices, node, path, text, &index);
    if (rc)
        return rc;
    if (key->type == TB_YAML_FLAG)
        *(bool *)to = index;
    else
        *(int *)to = index; /* enums are ints on every ABI we build for */
    return 0;
}

/* `wrong`: what text/sizes.c returns is what is allowed, so it is the message as it is. */
static int store_scalar(struct tb_yaml *yaml, const struct tb_yaml_key *key, yaml_node_t *node, const char *path, void *to)
{
    char text[2 * TB_PATH_MAX];
    const char *wrong = NULL;
    int rc = read_scalar(yaml, node, path, text, sizeof(text));
    if (rc)
        return rc;
    switch (key->type) {
    case TB_YAML_TEXT:
    case TB_YAML_PATH: return store_text(yaml, key, node, path, text, to);
    case TB_YAML_SIZE: return store_size(yaml, key, node, path, text, to);
    case TB_YAML_COUNT:
    case TB_YAML_FRACTION: return store_number(yaml, key, node, path, text, to);
    case TB_YAML_FLAG:
    case TB_YAML_CHOICE: return store_choice(yaml, key, node, path, text, to);
    case TB_YAML_RATE: wrong = tb_parse_rate(text, to); break;
    case TB_YAML_TIME: wrong = tb_parse_time(text, to); break;
    default: assert(!"not a scalar"); break;
    }
    return wrong ? refuse_value(yaml, node, path, wrong) : 0;
}

/* `used` may pass `size` with the last key, which is cut then. */
static void allowed_keys(const struct tb_yaml_key *keys, char *out, size_t size)
{
    size_t used = 0;
    for (const struct tb_yaml_key *key = keys; key->name && used < size; key++)
        used += (size_t)snprintf(out + used, size - used, "%s%s", key == keys ? "" : ", ", key->name);
}

/* An unknown key is an error: a misspelled key would otherwise silently keep its default. */
static int find_key(struct tb_yaml *yaml, const struct tb_yaml_key *keys, yaml_node_t *name, const char *path,
                    const struct tb_yaml_key **out)
{
    if (name->type != YAML_SCALAR_NODE)
        return tb_yaml_refuse(yaml, name, path, "a key is %s; allowed: a word", kind_of(name));
    for (const struct tb_yaml_key *key = keys; key->name; key++)
        if (strcmp(key->name, (const char *)name->data.scalar.value) == 0) {
            *out = key;
            return 0;
        }
    char shown[VALUE_SHOWN], allowed[256];
    tb_text_show((const char *)name->data.scalar.value, shown, sizeof(shown));
    allowed_keys(keys, allowed, sizeof(allowed));
    return tb_yaml_refuse(yaml, name, path, "%s: unknown key; allowed: %s", shown, allowed);
}

static void child_path(char *out, size_t size, const char *path, const char *name)
{
    snprintf(out, size, "%s%s%s", path, *path ? "." : "", name);
}

/* Required keys are checked last, so that a misspelled key is told first. */
static int read_map(struct tb_yaml *yaml, const struct tb_yaml_key *keys, yaml_node_t *node, const char *path, void *target)
{
    uint64_t seen = 0;
    char child[KEY_MAX];
    if (node->type != YAML_MAPPING_NODE)
        return tb_yaml_refuse(yaml, node, path, "is %s; allowed: a mapping of keys to values", kind_of(node));
    for (yaml_node_pair_t *p = node->data.mapping.pairs.start; p < node->data.mapping.pairs.top; p++) {
        const struct tb_yaml_key *key = NULL;
        yaml_node_t *name = yaml_document_get_node(&yaml->document, p->key);
        int rc = find_key(yaml, keys, name, path, &key);
        if (rc)
            return rc;
        child_path(child, sizeof(child), path, key->name);
        assert(key - keys < 64); /* a table longer than `seen` has bits */
        if (seen & 1ull << (key - keys))
            return tb_yaml_refuse(yaml, name, child, "given twice");
        seen |= 1ull << (key - keys);
        rc = tb_yaml_value(yaml, key, yaml_document_get_node(&yaml->document, p->value), child, target);
        if (rc)
            return rc;
    }
    for (const struct tb_yaml_key *key = keys; key->name; key++)
        if (key->required && !(seen & 1ull << (key - keys))) {
            child_path(child, sizeof(child), path, key->name);
            return tb_yaml_refuse(yaml, node, child, "is missing");
        }
    return 0;
}

/*
 * The length is checked before the first entry is read: the target has room for `max`. The
 * count is stored last, when all entries are.
 */
static int read_list(struct tb_yaml *yaml, const struct tb_yaml_key *key, yaml_node_t *node, const char *path, char *target)
{
    char child[KEY_MAX];
    if (node->type != YAML_SEQUENCE_NODE)
        return tb_yaml_refuse(yaml, node, path, "is %s; allowed: a list", kind_of(node));
    size_t n = (size_t)(node->data.sequence.items.top - node->data.sequence.items.start);
    if (n < key->min || n > key->max)
        return tb_yaml_refuse(yaml, node, path, "has %zu entries; allowed: %u to %u", n, key->min, key->max);
    for (size_t i = 0; i < n; i++) {
        char *element = target + key->offset + i * key->width;
        snprintf(child, sizeof(child), "%s[%zu]", path, i);
        if (key->start)
            key->start(element);
        yaml_node_t *item = yaml_document_get_node(&yaml->document, node->data.sequence.items.start[i]);
        int rc = read_map(yaml, key->keys, item, child, element);
        if (rc)
            return rc;
    }
    *(uint32_t *)(target + key->count_offset) = (uint32_t)n;
    return 0;
}

/* A map shares its parent's target; each entry of a list has a target of its own; a custom key finds its own way in. */
int tb_yaml_value(struct tb_yaml *yaml, const struct tb_yaml_key *key, yaml_node_t *node, const char *path, void *target)
{
    switch (key->type) {
    case TB_YAML_MAP: return read_map(yaml, key->keys, node, path, (char *)target + key->offset);
    case TB_YAML_LIST: return read_list(yaml, key, node, path, target);
    case TB_YAML_CUSTOM: return key->read(yaml, node, path, target);
    default: return store_scalar(yaml, key, node, path, (char *)target + key->offset);
    }
}

int tb_yaml_read(struct tb_yaml *yaml, const struct tb_yaml_key *keys, void *target)
{
    yaml_node_t *root = yaml_document_get_root_node(&yaml->document);
    if (!root) {
        snprintf(yaml->err->text, sizeof(yaml->err->text), "%.900s: is empty", yaml->file);
        return -EINVAL;
    }
    return read_map(yaml, keys, root, "", target);
}

/* Follows one part of a key's path, as "1" of "tiers[1]", or "path". NULL: it is not in the document. */
static yaml_node_t *step_into(struct tb_yaml *yaml, yaml_node_t *node, const char *name, size_t length)
{
    if (node->type == YAML_SEQUENCE_NODE) {
        size_t i = strtoul(name, NULL, 10);
        size_t n = (size_t)(node->data.sequence.items.top - node->data.sequence.items.start);
        return i < n ? yaml_document_get_node(&yaml->document, node->data.sequence.items.start[i]) : NULL;
    }
    if (node->type != YAML_MAPPING_NODE)
        return NULL;
    for (yaml_node_pair_t *p = node->data.mapping.pairs.start; p < node->data.mapping.pairs.top; p++) {
        yaml_node_t *key = yaml_document_get_node(&yaml->document, p->key);
        if (key->data.scalar.length == length && memcmp(key->data.scalar.value, name, length) == 0)
            return yaml_document_get_node(&yaml->document, p->value);
    }
    return NULL;
}

/* For rules between keys, which are checked when the document is read: they find the line again by the key's path. */
unsigned tb_yaml_line(struct tb_yaml *yaml, const char *path)
{
    yaml_node_t *node = yaml_document_get_root_node(&yaml->document);
    unsigned line = 1;
    while (node) {
        line = line_of(node);
        path += strspn(path, ".[]");
        size_t length = strcspn(path, ".[]");
        node = length ? step_into(yaml, node, path, length) : NULL;
        path += length;
    }
    return line;
}
