/*
 * An instance as JSON and as a table.
 */
#ifndef TB_CTL_COMMON_SHOW_H
#define TB_CTL_COMMON_SHOW_H

#include <jansson.h>

#include <tierbench/engine.h>

#include "instance/instance.h"

/* Is any of its places a device model? */
bool ctl_is_modelled(const struct tb_config *config);
/* Of the first prefix, or "none". */
const char *ctl_mode(const struct tb_config *config);
/* For names and paths. JSON is UTF-8, and a name may have other bytes: then each byte that is not ASCII is shown as '?'. */
json_t *ctl_text_json(const char *text);
/* Tiers, PFS, counters, errors and samples of an instance. */
json_t *ctl_instance_json(tb_engine *engine, bool samples);
/* Which process waits for which, one line each. */
void ctl_print_waits(tb_engine *engine, FILE *out);
/* The nodes that share their tiers, one line each. */
void ctl_print_nodes(tb_engine *engine, FILE *out);
void ctl_print_tiers(tb_engine *engine, FILE *out);

#endif
