/*
 * How an instance copies, and what was measured of it (copy/choice.h), in words and as JSON.
 */
#ifndef TB_CTL_COMMON_COPIES_H
#define TB_CTL_COMMON_COPIES_H

#include <jansson.h>
#include <stdio.h>

#include "copy/choice.h"

/* As `memcpy`, or `in memcpy; out vectors of 64 bytes, from 32KiB memcpy`. Gives `text`, which has room for CTL_COPY_WORDS bytes. */
#define CTL_COPY_WORDS 160u
const char *ctl_copy_words(const struct tb_copy_choice *c, char text[CTL_COPY_WORDS]);
json_t *ctl_copy_json(const struct tb_copy_choice *c);
/* A line a direction. */
void ctl_print_copy(const struct tb_copy_choice *c, FILE *out);

#endif
