/*
 * From a file to a YAML document: variables are marked and limits are checked before
 * libyaml builds the document, because its time grows with the square of depth and
 * anchors. Configurations come from others, so a small file must not take a minute.
 */
#include "text/yaml_open.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text/text.h"

#define YAML_BYTES_MAX (256u << 10) /* a long list of rules needs a tenth of it */
#define DEPTH_MAX 32                /* what the keys allow is 6 deep */

/* With its braces. 0: it is no variable, and stays as it is: text/yaml.c refuses it where it is used as one. */
static size_t variable_length(const char *text)
{
    size_t n = 2;
    if (text[0] != '$' || text[1] != '{' || !(isalpha((unsigned char)text[n]) || text[n] == '_'))
        return 0;
    while (isalnum((unsigned char)text[n]) || text[n] == '_')
        n++;
    return text[n] == '}' ? n + 1 : 0;
}

/*
 * Returns a copy of `text` in which ${NAME} is TB_VARIABLE_OPEN NAME TB_VARIABLE_CLOSE, or
 * NULL. "${" and "}" are 3 bytes and become 6, and a name has a byte at least: so twice the
 * room is enough.
 */
static char *bracket_variables(const char *text)
{
    const char *start = text;
    char *out = malloc(strlen(text) * 2 + 1), *to = out;
    while (out && *text) {
        size_t n = variable_length(text);
        if (n) {
            to += sprintf(to, "%s%.*s%s", TB_VARIABLE_OPEN, (int)n - 3, text + 2, TB_VARIABLE_CLOSE);
            text += n;
        } else {
            *to++ = *text++;
        }
    }
    assert(!out || (size_t)(to - out) <= 2 * (size_t)(text - start));
    if (out)
        *to = '\0';
    return out;
}

/* libyaml's own words, with our file and line. */
static int refuse_syntax(struct tb_yaml *yaml, const yaml_parser_t *parser)
{
    snprintf(yaml->err->text, sizeof(yaml->err->text), "%.600s:%zu: not YAML: %s%s%s", yaml->file, parser->problem_mark.line + 1,
             parser->problem ? parser->problem : "unreadable", parser->context ? ", " : "", parser->context ? parser->context : "");
    return -EINVAL;
}

/* UTF-8 is set, so that a byte order mark cannot choose another encoding. */
static int begin(yaml_parser_t *parser, const char *text)
{
    if (!yaml_parser_initialize(parser))
        return -ENOMEM;
    yaml_parser_set_encoding(parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(parser, (const unsigned char *)text, strlen(text));
    return 0;
}

/* How much deeper the document is after an event. */
static int step_of(const yaml_event_t *event)
{
    switch (event->type) {
    case YAML_SEQUENCE_START_EVENT:
    case YAML_MAPPING_START_EVENT: return 1;
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT: return -1;
    default: return 0;
    }
}

/*
 * Goes through the events up to the end, to an error of syntax (reported by `parse`), or to
 * one level too many. Events cost no memory each, so this walk is linear in the text.
 */
static int check_depth(struct tb_yaml *yaml, const char *text)
{
    yaml_parser_t parser;
    yaml_event_t event;
    int rc = begin(&parser, text), depth = 0;
    if (rc)
        return rc;
    for (bool more = true; more && !rc && yaml_parser_parse(&parser, &event); yaml_event_delete(&event)) {
        more = event.type != YAML_STREAM_END_EVENT;
        depth += step_of(&event);
        assert(depth >= 0); /* libyaml closes only what it opened */
        if (depth > DEPTH_MAX) {
            snprintf(yaml->err->text, sizeof(yaml->err->text),
                     "%.900s:%zu: nests deeper than %d levels; allowed: lists and mappings up to that", yaml->file,
                     event.start_mark.line + 1, DEPTH_MAX);
            rc = -EINVAL;
        }
    }
    yaml_parser_delete(&parser);
    return rc;
}

/* Another document after the first is refused: it would be passed over without a word. */
static int parse_end(struct tb_yaml *yaml, yaml_parser_t *parser)
{
    yaml_document_t next;
    if (!yaml_parser_load(parser, &next))
        return refuse_syntax(yaml, parser);
    bool more = yaml_document_get_root_node(&next);
    yaml_document_delete(&next);
    if (!more)
        return 0;
    snprintf(yaml->err->text, sizeof(yaml->err->text), "%.900s: holds more than one YAML document; allowed: one", yaml->file);
    return -EINVAL;
}

/* On failure the document is deleted here: the caller has nothing to close. */
static int parse(struct tb_yaml *yaml, const char *text)
{
    yaml_parser_t parser;
    int rc = begin(&parser, text);
    if (rc)
        return rc;
    if (!yaml_parser_load(&parser, &yaml->document))
        rc = refuse_syntax(yaml, &parser);
    else if ((rc = parse_end(yaml, &parser)))
        yaml_document_delete(&yaml->document);
    yaml_parser_delete(&parser);
    return rc;
}

/* In the order of cost: length, depth, then the document. */
static int open_text(struct tb_yaml *yaml, const char *text)
{
    if (strlen(text) > YAML_BYTES_MAX) {
        snprintf(yaml->err->text, sizeof(yaml->err->text), "%.900s: longer than YAML here can be; allowed: up to 256 KiB", yaml->file);
        return -EINVAL;
    }
    char *bracketed = bracket_variables(text);
    int rc = bracketed ? check_depth(yaml, bracketed) : -ENOMEM;
    if (!rc)
        rc = parse(yaml, bracketed);
    free(bracketed);
    return rc;
}

/* On failure there is nothing to close. */
int tb_yaml_open(struct tb_yaml *yaml, const char *file, struct tb_error *err)
{
    yaml->file = file;
    yaml->err = err;
    char *text = NULL;
    int rc = tb_text_read(file, yaml->directory, &text, err);
    if (rc)
        return rc;
    rc = open_text(yaml, text);
    if (rc == -ENOMEM)
        snprintf(err->text, sizeof(err->text), "%.900s: %s", file, strerror(ENOMEM));
    free(text);
    return rc;
}

void tb_yaml_close(struct tb_yaml *yaml)
{
    yaml_document_delete(&yaml->document);
}
