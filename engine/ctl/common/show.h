/*
 * An instance as JSON and as a table.
 */
#ifndef TB_CTL_COMMON_SHOW_H
#define TB_CTL_COMMON_SHOW_H

#include <jansson.h>

#include <tierbench/engine.h>

/* Tiers, PFS, counters, errors and samples of an instance. */
json_t *ctl_instance_json(tb_engine *engine, bool samples);
/* Which process waits for which, one line each. */
void ctl_print_waits(tb_engine *engine, FILE *out);
void ctl_print_tiers(tb_engine *engine, FILE *out);

#endif
