/* Which prefix a path is managed under. */
#ifndef TB_ROUTE_H
#define TB_ROUTE_H

#include "region/handle.h"

struct tb_route {
    const struct tb_config_prefix *prefix; /* NULL: not managed */
    size_t length;                         /* of the prefix */
};

/* The prefixes that every look-up goes by; they live as long as the handle.  0, -ENOMEM. */
int tb_route_prepare(tb_engine *e, const struct tb_config_prefix *prefixes, uint32_t n);
struct tb_route tb_route_of(const tb_engine *e, const char *path);
/* As if the file system had no such name: of the prefix alone. */
struct tb_route tb_route_within(const tb_engine *e, const char *path);

#endif
