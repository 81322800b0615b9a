/*
 * Bytes of a shared file that are in no buffer here: from the PFS, or from the tiers of the node that committed them. They are
 * fetched while no lock is held, since that node may be reading from this one at the same time. So a call that
 * needs them under a chunk's lock ends with -EREMOTE; the caller drops the lock, fetches, and begins anew with what it has.
 */
#ifndef TB_FLUSH_REMOTE_H
#define TB_FLUSH_REMOTE_H

#include "flush/backing.h"

/* Bytes [offset, offset + n) of one chunk and the rest of their pages, for this thread, until the next fetch or the drop. */
int tb_remote_fetch(struct tb_target *t, uint64_t offset, uint64_t n);
void tb_remote_drop(void);
/* From what was fetched. False: that is not all of it. */
bool tb_remote_copy(const struct tb_target *t, void *to, uint64_t n, uint64_t offset);
/*
 * Locked by the chunk: nobody had that lock since before the fetch, so no byte that was written and left its buffer in between is
 * newer than what was fetched. True also where nothing was fetched. Else it is read, and not kept.
 */
bool tb_remote_is_latest(const struct tb_target *t, uint64_t offset);

#endif
