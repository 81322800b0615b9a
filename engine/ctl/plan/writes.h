/*
 * Where a sequence of writes would go in an instance of a configuration: the policy's
 * own code on a hierarchy on paper.  `plan_svg.c` draws it.
 */
#ifndef TB_PLAN_WRITES_H
#define TB_PLAN_WRITES_H

#include <jansson.h>

#include "config/config.h"
#include "region/layout.h"

#define PLAN_GROUPS_MAX 16
#define PLAN_COLUMNS_MAX 240
#define PLAN_PLACES (TB_MAX_TIERS + 1) /* each tier, after the last the PFS */

/* Writes of one size to one file, each where the one before ended. */
struct plan_group {
    uint64_t n, bytes; /* writes, bytes of each */
    char file[TB_NAME_MAX];
    uint64_t to[PLAN_PLACES]; /* bytes */
    uint64_t refused;         /* bytes that scratch had no room for */
    uint64_t flushed;         /* bytes that the policy had flushed first */
};

struct plan_writes {
    uint32_t n_groups;
    struct plan_group group[PLAN_GROUPS_MAX];
    uint64_t n;         /* writes in all */
    uint32_t n_columns; /* of as many writes each, or nearly: the same, finer */
    uint64_t column[PLAN_COLUMNS_MAX][PLAN_PLACES];
};

/* `text`: 'N x SIZE [to NAME]', also several with commas.  0, or the exit status after a message. */
int tb_plan_writes_parse(const char *text, struct plan_writes *out);
int tb_plan_writes(const struct tb_config *config, const struct tb_layout *layout, struct plan_writes *writes);
void tb_plan_writes_print(const struct tb_config *config, const struct plan_writes *writes);
json_t *tb_plan_writes_json(const struct tb_config *config, const struct plan_writes *writes);

#endif
