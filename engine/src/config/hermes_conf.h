/* Hermes 0.1 beta configurations, read as they are; see config/hermes_conf.c. */
#ifndef TB_HERMES_CONF_H
#define TB_HERMES_CONF_H

#include "config/config.h"

/* `fragment` (may be NULL) is merged key by key over `file`.  Paths may be missing: such a file can be planned. */
int tb_hermes_read(const char *file, const char *fragment, struct tb_config *out, struct tb_error *err);

#endif
