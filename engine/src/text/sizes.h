/*
 * Numbers with units, as configuration files write them: 512MiB, 335.24MiB/s, 66us.
 *
 * Sizes are binary (KiB = 1024 B) and always carry their unit, so that no reader
 * has to guess; decimal units are refused, since data sheets and tools disagree
 * about what MB means.  Each function returns NULL, or what is allowed.
 */
#ifndef TB_CONFIG_UNITS_H
#define TB_CONFIG_UNITS_H

#include <stdint.h>

#define TB_MIB 1048576.0 /* bytes, for figures that people read */

const char *tb_parse_size(const char *text, uint64_t *bytes);
const char *tb_parse_rate(const char *text, double *bytes_per_second);
const char *tb_parse_time(const char *text, double *seconds);

/* A plain number, no unit, no exponent, no sign. */
const char *tb_parse_number(const char *text, double *number);

/* The shortest exact way to write `bytes` as tb_parse_size reads it.  Returns `out`. */
char *tb_format_size(uint64_t bytes, char *out, unsigned size);

#endif
