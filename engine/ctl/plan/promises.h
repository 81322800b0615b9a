/* What `fsync: tier` does with buffers that no directory tier has a slab for: said by plan and check. */
#ifndef TB_PLAN_PROMISES_H
#define TB_PLAN_PROMISES_H

#include <stdio.h>

#include "config/config.h"
#include "region/layout.h"

/* A line for each such slab of a memory tier, after `before`. */
void tb_plan_promises_print(const struct tb_config *c, const struct tb_layout *l, FILE *out, const char *before);

#endif
