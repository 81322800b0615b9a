/*
 * This node's buffers in other nodes' memory (shared/borrow.h): asked for by clients through the region, and by the daemon itself; and
 * what becomes of them when the node that lends its memory is lost, or ends.
 */
#ifndef TB_DAEMON_BORROW_H
#define TB_DAEMON_BORROW_H

#include "net/net.h"
#include "region/handle.h"
#include "shared/wire.h"

/* From here on the daemon reaches them without asking itself; from the end on it asks, in vain. 0 or -ENOMEM. */
int borrow_begin(tb_engine *e, struct tb_net *net);
void borrow_end(tb_engine *e);
/* A client's PUT or GET: as relay_request. */
int64_t borrow_request(tb_engine *e, struct tb_net *net, char *bytes, size_t n, size_t room);
/* Dirty bytes come back into the tiers of this node, as far as there is room: how many are left at nodes that live. */
uint64_t borrow_bring_home(tb_engine *e);
/* That node is about to end: what is there goes to the PFS, and nothing more is put there. */
void borrow_return(unsigned node);

/* What of this node's is in the memory of that one. */
struct borrowed {
    uint64_t used, dirty; /* bytes of buffers, and those of them that the PFS lacks */
};
void borrow_of(tb_engine *e, unsigned node, struct borrowed *out);
/* Of all nodes, and of those that are lost. */
void borrow_all(struct borrowed *all, struct borrowed *lost);
/*
 * Called now and then. Where a node is lost its free buffers are kept out of use, clean ones are dropped, and what is nowhere else is
 * counted; where it is back they are used again.
 */
void borrow_look(tb_engine *e, struct tb_net *net);

#endif
