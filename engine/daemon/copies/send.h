/* Sends this node's bytes to the keeper of their file, which keeps them as a second copy (`copies: 2`). */
#ifndef TB_COPIES_SEND_H
#define TB_COPIES_SEND_H

#include "net/net.h"
#include "region/handle.h"
#include "shared/ranges.h"

/*
 * All of the ranges, for the commit with the number `clock`. The caller has the file's turn. 0; -ENOBUFS: there is no second node for this
 * file, or no room at it, or it takes too long; -ESTALE: the list is out of date; -EIO.
 */
int copies_send(tb_engine *e, struct tb_net *net, uint32_t file, const struct tb_wire_file *id, const struct tb_ranges *ranges,
                uint64_t clock);

#endif
