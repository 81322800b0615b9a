/*
 * Memory that this node lends to others, for buffers of their remote tiers (shared/borrow.h).
 *
 * Each other node has one piece of it, of its own, which is touched before the node joins: so no use of it fails for want of
 * memory. Nothing that is done here waits for another node, or for a lock of the region.
 */
#ifndef TB_DAEMON_LEND_H
#define TB_DAEMON_LEND_H

#include <stdbool.h>
#include <stddef.h>

#include "shared/wire.h"

struct lend;

/* `section` bytes for each of `n_nodes` - 1 other nodes. 0; -ENOMEM with nothing taken. Of 0 bytes: nothing is lent. */
int lend_begin(uint64_t section, unsigned n_nodes, struct lend **out);
/* NULL: nothing to end. */
void lend_end(struct lend *l);
/* Answers to PUT and GET of the borrower with that number (the node after this one is 0): the answer's length, or -errno. */
int64_t lend_put(struct lend *l, unsigned borrower, const struct tb_wire *w, const void *bytes, size_t n);
int64_t lend_get(struct lend *l, unsigned borrower, const struct tb_wire *w, void *answer, size_t room);
/*
 * Called now and then: whether that borrower lives. What a lost one had stays for LEND_SECONDS, since the same process may come back; then
 * its memory is given back to the system, and it is told so if it comes later. True: that was now.
 */
enum { LEND_SECONDS = 10 };
bool lend_look(struct lend *l, unsigned borrower, bool alive, uint64_t now_ns);
/* Bytes that are taken for others now. */
uint64_t lend_bytes(struct lend *l);

#endif
