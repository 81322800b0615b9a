/*
 * Group commit: many concurrent fsyncs share one sync of the slabs and one of the
 * journal.
 */
#ifndef TB_COMMIT_H
#define TB_COMMIT_H

#include "region/handle.h"

/* The bytes of every slab that was marked unsynced until now are durable: by a sync of this caller or of another. */
int tb_commit_slabs(tb_engine *e);
/* The same for every journal record appended until now. */
int tb_commit_journal(tb_engine *e);

#endif
