/*
 * What this node says of a file to the file's keeper: one thing at a time.
 *
 * A commit lists the dirty bytes, asks the keeper, and notes what that took. No other commit of the file, no end, no cut and no letting go
 * comes between, so that a list still is true when the keeper takes it: bytes that stop being dirty in that time are the keeper's to
 * know only after that. The thread that has the turn waits for the keeper alone, which answers from its memory and waits for no node.
 */
#ifndef TB_DAEMON_TURN_H
#define TB_DAEMON_TURN_H

#include "net/net.h"
#include "region/handle.h"
#include "shared/wire.h"

void turn_take(const struct tb_wire_file *file);
void turn_drop(const struct tb_wire_file *file);
/*
 * A client's commit (TB_WIRE_SAY), end (TB_WIRE_SAY_END) or cut. The request is in `bytes`, with room for so many, and the answer comes
 * there: its length, or -errno. What others have to let go of for it is in the list of owed.h before the turn ends.
 */
int64_t turn_commit(tb_engine *e, struct tb_net *net, char *bytes, size_t room);
int64_t turn_end(tb_engine *e, struct tb_net *net, char *bytes, size_t n);
int64_t turn_cut(tb_engine *e, struct tb_net *net, char *bytes);

#endif
