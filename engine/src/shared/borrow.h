/*
 * Buffers of a remote tier: which node lends each of them its memory, and how a client gets at their bytes.
 *
 * Each node lends as much as it borrows. The buffers of a slab go to the other nodes in turn, the next node first, so where a buffer is
 * follows from its number alone, and no node asks another for room. What a node lends to another one is one piece of memory of
 * its daemon, a place in it is a number of bytes from its start.
 *
 * A client asks its daemon for the bytes, under the lock of their chunk, and only the lender's memory is waited for: the lender
 * needs no lock and no other node to answer. Each use has a number, and a buffer's lender refuses to write for one that is older
 * than the last use it saw: what a killed client, or one that gave up, had still under way never comes over newer bytes, nor
 * changes bytes that were read.
 */
#ifndef TB_SHARED_BORROW_H
#define TB_SHARED_BORROW_H

#include "region/handle.h"

#define TB_BORROW_PIECE (512u << 10) /* bytes of a message, at most */
#define TB_BORROW_UNIT TB_BLOCK_MIN  /* a buffer's place is a multiple */

/* Where the bytes of a buffer are. */
struct tb_borrowed {
    uint32_t node;  /* its number */
    uint64_t place; /* in what that node lends to this one */
};

/* Bytes that a node lends to each other one, of `n_nodes`: 0 without a remote tier. */
uint64_t tb_borrow_section(const struct tb_config *c, const struct tb_layout *l, uint32_t n_nodes);
/* Of a buffer of the remote tier, once the nodes have found each other. */
struct tb_borrowed tb_borrowed_at(const tb_engine *e, uint32_t buffer);
/*
 * Bytes of a file that are in other nodes' memory and nowhere else: how many; 0 where there are none or no list can be made. `why` is
 * where they are, or were, in words.
 */
uint64_t tb_borrowed_describe(tb_engine *e, uint32_t file, char *why, size_t size);
/* The file is claimed, and nothing of what it has there can be had any more. */
void tb_borrowed_forget(tb_engine *e, uint32_t file);
/* The operations of a client. */
const struct tb_borrow_ops *tb_borrow_by_daemon(void);

#endif
