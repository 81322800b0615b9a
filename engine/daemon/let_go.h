/* What this node has to let go of for commits of other nodes, and can't yet. */
#ifndef TB_DAEMON_LET_GO_H
#define TB_DAEMON_LET_GO_H

#include <stddef.h>

#include "region/handle.h"
#include "shared/wire.h"

/* The answer to LET_GO, a request of `n` bytes: its length, or -errno. */
int64_t let_go_answer(tb_engine *e, const struct tb_wire *w, size_t n, void *answer, size_t room);

#endif
