/*
 * The sections `stage_out` and `stage_in` of a configuration: whole files that a mover
 * carries between a node-local folder and the PFS (docs/stage.md). The mover takes the same
 * structure where no file gives it, with the defaults of tb_stage_defaults.
 */
#ifndef TB_CONFIG_STAGE_H
#define TB_CONFIG_STAGE_H

#include <stdint.h>

#include "base/error.h"
#include "text/yaml.h"

#define TB_STAGE_PROCESSORS_MAX 64

enum tb_stage_priority { TB_STAGE_NORMAL, TB_STAGE_LOW, TB_STAGE_IDLE };
enum tb_stage_when { TB_STAGE_AT_START, TB_STAGE_AT_OPEN };
enum tb_stage_verify { TB_STAGE_WRITTEN, TB_STAGE_STORED };

struct tb_config_stage {
    char from[TB_PATH_MAX]; /* absolute; "": there is no such section */
    char to[TB_PATH_MAX];
    char left[TB_PATH_MAX]; /* where the list of files that were not moved goes; "": nowhere */
    double deadline;        /* seconds that a wait at the end may take; 0: any */
    double bandwidth;       /* bytes per second of all streams together; 0: any */
    uint32_t streams;
    uint32_t retries; /* of a file, before it is reported */
    enum tb_stage_priority priority;
    enum tb_stage_verify verify;
    enum tb_stage_when when;                  /* of stage_in */
    char processors[TB_STAGE_PROCESSORS_MAX]; /* the mover's, as "0-3,8"; "": any */
};

extern const struct tb_yaml_key tb_stage_keys[]; /* into a tb_config_stage */

void tb_stage_defaults(struct tb_config_stage *stage);

/* Of a section that is there. NULL, or what is wrong, in `text`, with `key` the last word of its key. */
const char *tb_stage_rules(const struct tb_config_stage *stage, const char **key, char *text, unsigned size);

/* Processors as "0-3,8" into a bit each; -EINVAL. `set` has room for 1024. */
int tb_stage_processors(const char *text, uint64_t set[16]);

#endif
