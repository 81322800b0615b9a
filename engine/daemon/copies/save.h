/* Second copies of a node that is lost go to the PFS (`copies: 2`). */
#ifndef TB_COPIES_SAVE_H
#define TB_COPIES_SAVE_H

#include "net/net.h"
#include "region/handle.h"

enum { COPIES_SECONDS = 10 }; /* a lost node may come back */

/* Called now and then: saves what nodes had that are lost for that long. */
void copies_look(tb_engine *e, const struct tb_net *net);
/*
 * At the end: what nodes had that are lost now. `again`: also what was saved before, when no other node has anything on its way to the PFS
 * any more. 0, or -EIO: not all of it is on the PFS, as the log says.
 */
int copies_save(tb_engine *e, const struct tb_net *net, bool again);
/* Bytes of nodes that are lost, which are here and not on the PFS. */
uint64_t copies_unsaved(const struct tb_net *net);

#endif
