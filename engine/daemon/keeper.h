/*
 * What this node keeps as the keeper of files (`nodes: shared`): which node has which bytes of them that the PFS lacks.
 *
 * Every change takes a number, so that nodes can tell whether anything changed since they last asked. A file stays known, with
 * its number alone, until its name is removed. Nothing here waits: where another node has to let go of bytes
 * first, the answer says which.
 */
#ifndef TB_DAEMON_KEEPER_H
#define TB_DAEMON_KEEPER_H

#include <stddef.h>

#include "shared/ranges.h"
#include "shared/wire.h"

/* The answer to a request of node `from` about a file that this node keeps: its length, or -errno. */
int64_t keeper_answer(uint32_t from, const struct tb_wire *w, const void *more, size_t n, void *answer, size_t room);
/* Extents that are kept. */
uint64_t keeper_count(void);
/* Memory of the files and extents that are kept, without what other nodes have yet to let go of. */
uint64_t keeper_bytes(void);

#endif
