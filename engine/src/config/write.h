#ifndef TB_CONFIG_WRITE_H
#define TB_CONFIG_WRITE_H

#include "config/config.h"

/* Write CONFIG as a YAML tier configuration (import-hermes) to `path`, or to stdout where it is NULL. */
int tb_config_write(const struct tb_config *config, const char *path, struct tb_error *err);

/* The same of a placement alone, as the key `placement` of a configuration. */
int tb_config_write_placement(const struct tb_config_placement *placement, const char *path, struct tb_error *err);

#endif
