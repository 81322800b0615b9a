/* Which prefix a path is managed under, and where its name really stands. */
#ifndef TB_ROUTE_H
#define TB_ROUTE_H

#include "client.h"

struct tb_route {
    const struct tb_config_prefix *prefix; /* NULL: not managed */
    size_t length;                         /* of the prefix */
    bool shadowed;                         /* the path names a place in the shadow already */
};

/* Lengths that every look-up needs; once a handle. */
void tb_route_prepare(tb_engine *e);
struct tb_route tb_route_of(const tb_engine *e, const char *path);
/* The length of the real name, or -ENAMETOOLONG. */
ssize_t tb_route_translate(const tb_engine *e, const struct tb_route *route, const char *path, char *out, size_t size);

#endif
