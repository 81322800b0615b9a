/*
 * Text files with one entry a line: `#` begins a comment, and empty lines say nothing.
 */
#ifndef TB_TEXT_LINES_H
#define TB_TEXT_LINES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

/* Takes one entry, without blanks at its ends; it may change the text. 0, or what ends the reading. */
typedef int tb_line_taker(void *arg, uint32_t number, char *line);

/*
 * Gives each entry of `file` to `take`, with the line's number as an editor shows it. 0; what `take` ended with; or -EINVAL /
 * -errno with `err` set: the file cannot be read, as of tb_text_read.
 */
int tb_lines_read(const char *file, tb_line_taker *take, void *arg, struct tb_error *err);

/* Digits alone, below 2^63, as offsets of files are. `rest`: what follows them. False: there are none, or the number is too large. */
bool tb_digits_read(const char *text, uint64_t *out, const char **rest);

#endif
