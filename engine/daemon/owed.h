/*
 * What other nodes owe this one: to let go of bytes that it has committed since (`nodes: shared`).
 *
 * The file's keeper has the commit already, so readers are sent here. The commit returns to its program when no node owes anything
 * for it. Each debt is told by one thread at a time, and never again after it was paid: the other node may have newer bytes there by then.
 */
#ifndef TB_DAEMON_OWED_H
#define TB_DAEMON_OWED_H

#include "net/net.h"
#include "region/handle.h"
#include "shared/ranges.h"

/* `node` has to let go of the ranges for the commit `version`; the list may have that already. 0 or -ENOMEM. */
int owed_add(tb_engine *e, const struct tb_wire_file *file, uint32_t node, uint64_t version, const struct tb_ranges *ranges);
/* Tell the nodes that owe something once more; for all files if `file` is NULL. */
void owed_deliver(tb_engine *e, struct tb_net *net, const struct tb_wire_file *file);
/* What is owed for commits up to `version`: enum tb_owed, or -EIO: a node that owes something is lost. */
int owed_state(const struct tb_wire_file *file, uint64_t version);

#endif
