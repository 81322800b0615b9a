/*
 * A handle on an instance, made and freed: the chains to its places, its files, its tables.
 */
#ifndef TB_INSTANCE_CLIENT_H
#define TB_INSTANCE_CLIENT_H

#include "region/handle.h"

/* Map the places of a region just made or attached into this process. */
int tb_client_open_places(tb_engine *e);
/* Close one of the engine's descriptors, where it is open; -1 from then on. */
void tb_client_close(tb_engine *e, int *fd);
/* Of a descriptor that the engine keeps: above those that programs number themselves. */
int tb_client_own_fd(int fd);
void tb_client_free(tb_engine *e);
/* What holds of a handle from its attach to its detach.  Whole: each of its descriptors is open. */
bool tb_client_is_valid(const tb_engine *e);
bool tb_client_is_whole(const tb_engine *e);
tb_engine *tb_client_new(struct tb_io *base);

/* In a forked child, after it has its slot: it tells its calls where its parent does, and is in the one in which it was forked. */
void tb_client_inherit_calls(tb_engine *e, bool tells);

#endif
