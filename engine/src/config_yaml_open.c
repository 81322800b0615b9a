/*
 * From a file to a YAML document.
 *
 * ${NAME} stands in flow mappings too, where YAML would take its braces for a
 * mapping.  So before parsing, each ${NAME} is bracketed by two characters of
 * Unicode's private area instead, and config_yaml.c puts the value in when it
 * reads a scalar: lines stay the same, and a value is never parsed as YAML.
 */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "config_text.h"
#include "config_yaml.h"

static size_t variable_length(const char *text)
{
    size_t n = 2;
    if (text[0] != '$' || text[1] != '{' || !(isalpha((unsigned char)text[n]) || text[n] == '_'))
        return 0;
    while (isalnum((unsigned char)text[n]) || text[n] == '_')
        n++;
    return text[n] == '}' ? n + 1 : 0;
}

/* Returns a copy of `text` in which ${NAME} is TB_VARIABLE_OPEN NAME TB_VARIABLE_CLOSE, or NULL. */
static char *bracket_variables(const char *text)
{
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
    if (out)
        *to = '\0';
    return out;
}

static int refuse_syntax(struct tb_yaml *yaml, const yaml_parser_t *parser)
{
    snprintf(yaml->err->text, sizeof(yaml->err->text), "%.600s:%zu: not YAML: %s%s%s", yaml->file,
             parser->problem_mark.line + 1, parser->problem ? parser->problem : "unreadable",
             parser->context ? ", " : "", parser->context ? parser->context : "");
    return -EINVAL;
}

static int parse(struct tb_yaml *yaml, const char *text)
{
    yaml_parser_t parser;
    if (!yaml_parser_initialize(&parser))
        return -ENOMEM;
    yaml_parser_set_encoding(&parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, strlen(text));
    int rc = yaml_parser_load(&parser, &yaml->document) ? 0 : refuse_syntax(yaml, &parser);
    if (!rc) {
        yaml_document_t next;
        bool more = false;
        if (yaml_parser_load(&parser, &next)) {
            more = yaml_document_get_root_node(&next);
            yaml_document_delete(&next);
        } else {
            rc = refuse_syntax(yaml, &parser);
        }
        if (more) {
            snprintf(yaml->err->text, sizeof(yaml->err->text), "%.900s: holds more than one YAML document", yaml->file);
            rc = -EINVAL;
        }
        if (rc)
            yaml_document_delete(&yaml->document);
    }
    yaml_parser_delete(&parser);
    return rc;
}

int tb_yaml_open(struct tb_yaml *yaml, const char *file, struct tb_error *err)
{
    yaml->file = file;
    yaml->err = err;
    char *text = NULL;
    int rc = tb_text_read(file, yaml->directory, &text, err);
    if (rc)
        return rc;
    char *bracketed = bracket_variables(text);
    rc = bracketed ? parse(yaml, bracketed) : -ENOMEM;
    if (rc == -ENOMEM)
        snprintf(err->text, sizeof(err->text), "%.900s: %s", file, strerror(ENOMEM));
    free(bracketed);
    free(text);
    return rc;
}

void tb_yaml_close(struct tb_yaml *yaml)
{
    yaml_document_delete(&yaml->document);
}
