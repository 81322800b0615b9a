/*
 * Values of a JSON document, read strictly. Each is known with its path, so that a refusal names the file, the place
 * (`phases[0].patterns[2].request_size`), the value and what is allowed.
 */
#include "tb_forge.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { SHOWN = 60 }; /* characters of a value in a message */

/* From the root down. Text that has no room is cut. */
static void put_path(const struct tb_json *node, char *out, size_t room)
{
    if (!node->parent)
        return;
    put_path(node->parent, out, room);
    size_t used = strlen(out);
    if (node->key)
        snprintf(out + used, room - used, "%s%.100s", used ? "." : "", node->key);
    else
        snprintf(out + used, room - used, "[%zu]", node->index);
}

/* Cut in bytes, which is safe in the middle of a character as all others than ASCII are escaped. */
static void put_value(const json_t *value, char *out, size_t room)
{
    char *text = value ? json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_ENSURE_ASCII) : NULL;
    if (text && strlen(text) > SHOWN)
        memcpy(text + SHOWN - 3, "...", 4);
    snprintf(out, room, "%s", text ? text : "is missing");
    free(text);
}

/*
 * The limits let the largest path, file name and list of words fit in the complaint together; what is cut is the end of
 * each, not the next part.
 */
bool tb_json_refuse(const struct tb_json *node, const char *what, struct tb_complaint *c)
{
    char path[1024] = "", value[SHOWN + 1];
    put_path(node, path, sizeof(path));
    put_value(node->value, value, sizeof(value));
    snprintf(c->text, sizeof(c->text), "%.2000s: %s%s%s; allowed: %.700s", node->file, path, *path ? ": " : "", value, what);
    return false;
}

/* Twice the same key is refused: which one counts differs between readers. */
json_t *tb_json_parse(const char *text, size_t length, const char *file, struct tb_complaint *c)
{
    json_error_t error;
    json_t *root = json_loadb(text, length, JSON_REJECT_DUPLICATES, &error);
    if (!root)
        snprintf(c->text, sizeof(c->text), "%.2000s:%d: %.200s; allowed: JSON, each key once", file, error.line, error.text);
    return root;
}

static void list_words(const char *const *words, char *out, size_t room)
{
    size_t used = 0;
    out[0] = '\0';
    for (; *words && used < room; words++)
        used += (size_t)snprintf(out + used, room - used, "%s%s", used ? ", " : "", *words);
}

/*
 * An unknown key is refused, as a misspelt one would else be a setting that does not count. The message is about the key
 * itself.
 */
bool tb_json_object(const struct tb_json *node, const char *const *keys, struct tb_complaint *c)
{
    char allowed[512];
    const char *key;
    json_t *value;
    list_words(keys, allowed, sizeof(allowed));
    if (!json_is_object(node->value))
        return tb_json_refuse(node, allowed, c);
    json_object_foreach((json_t *)(uintptr_t)node->value, key, value)
    {
        const char *const *known = keys;
        while (*known && strcmp(*known, key))
            known++;
        struct tb_json stranger = {.parent = node, .key = key, .value = value, .file = node->file};
        if (!*known)
            return tb_json_refuse(&stranger, allowed, c);
    }
    return true;
}

/* The limits are checked before anything is allocated for the elements. */
bool tb_json_list(const struct tb_json *node, size_t least, size_t most, const char *of, struct tb_complaint *c)
{
    char allowed[128];
    size_t size = json_array_size(node->value);
    snprintf(allowed, sizeof(allowed), "a list of %zu to %zu %s", least, most, of);
    return (json_is_array(node->value) && size >= least && size <= most) || tb_json_refuse(node, allowed, c);
}

/*
 * It points to the list's node, which has to live as long: nodes are on the stack of the functions that read, and the
 * document outlives them all.
 */
struct tb_json tb_json_element(const struct tb_json *list, size_t index)
{
    return (struct tb_json){.parent = list, .index = index, .value = json_array_get(list->value, index), .file = list->file};
}

struct tb_json tb_json_member(const struct tb_json *object, const char *key)
{
    return (struct tb_json){.parent = object, .key = key, .value = json_object_get(object->value, key), .file = object->file};
}

/* As text digits alone: strtoll would take blanks and signs, and stop at the first NUL. */
static bool whole_of(const json_t *value, int64_t *out)
{
    char *end;
    const char *text = json_string_value(value);
    if (json_is_integer(value)) {
        *out = json_integer_value(value);
        return true;
    }
    if (!text || !*text || strspn(text, "0123456789") != json_string_length(value))
        return false;
    errno = 0;
    *out = strtoll(text, &end, 10);
    return !errno;
}

bool tb_json_whole(const struct tb_json *node, int64_t least, int64_t most, int64_t *out, struct tb_complaint *c)
{
    char allowed[96];
    snprintf(allowed, sizeof(allowed), "a whole number from %lld to %lld", (long long)least, (long long)most);
    return (whole_of(node->value, out) && *out >= least && *out <= most) || tb_json_refuse(node, allowed, c);
}

/* Without a NUL in it, as names of files and jobs can have none; room for a rank is left in a path. */
bool tb_json_text(const struct tb_json *node, const char **out, struct tb_complaint *c)
{
    size_t length = json_string_length(node->value);
    *out = json_string_value(node->value);
    return (*out && length > 0 && length <= 4000 && strlen(*out) == length) || tb_json_refuse(node, "text of 1 to 4000 bytes", c);
}

/* The place in `words` is the caller's number for it. */
bool tb_json_word(const struct tb_json *node, const char *const *words, const char *allowed, int *out, struct tb_complaint *c)
{
    const char *text = json_string_value(node->value);
    for (int i = 0; text && words[i]; i++)
        if (!strcmp(words[i], text)) {
            *out = i;
            return true;
        }
    return tb_json_refuse(node, allowed, c);
}
