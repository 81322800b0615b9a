/* The prefix that a path is managed under, or NULL. */
#ifndef TB_ROUTE_H
#define TB_ROUTE_H

#include "client.h"

const struct tb_config_prefix *tb_route_prefix(const tb_engine *e, const char *path);

#endif
