/*
 * From a file to a YAML document.
 *
 * ${NAME} may be used in flow mappings too, where YAML would take its braces for a
 * mapping. So before parsing, each ${NAME} is bracketed by two characters of Unicode's
 * private area instead, and text/yaml.c puts the value in when it reads a scalar: lines
 * stay the same, and a value is never parsed as YAML.
 *
 * libyaml's time grows with the square of the depth, and of the number of anchors and
 * directives. So a document is limited in length, and its depth is checked event by event
 * before libyaml builds the document.
 */
#ifndef TB_TEXT_YAML_OPEN_H
#define TB_TEXT_YAML_OPEN_H

#include "text/yaml.h"

/* Parse `file`.  0, or -EINVAL / -errno with `err` set and nothing to close. */
int tb_yaml_open(struct tb_yaml *yaml, const char *file, struct tb_error *err);
void tb_yaml_close(struct tb_yaml *yaml);

#endif
