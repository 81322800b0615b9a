/*
 * Which prefix a path is managed under. A name is routed once: tb_engine_route answers with
 * the layer of the prefix, and an operation of that layer takes the prefix from there. So
 * one call can't find a name managed first and not managed later, when another process has
 * made a file of that name in between.
 */
#ifndef TB_ROUTE_H
#define TB_ROUTE_H

#include "region/handle.h"

/* The prefixes that every look-up uses; they live as long as the handle.  0, -ENOMEM. */
int tb_route_prepare(tb_engine *e, const struct tb_config_prefix *prefixes, uint32_t n);
struct tb_route tb_route_of(const tb_engine *e, const char *path);
/* The route that tb_engine_route answered with by `chain` for `path`; the file system is not asked again. */
struct tb_route tb_route_answered(const tb_engine *e, const struct tb_io *chain, const char *path);
/* Of a name given to the engine's layer `io`: what the name was routed to, or routed now where it was not. */
struct tb_route tb_route_given(struct tb_io *io, const char *path);

#endif
