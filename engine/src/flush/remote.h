/*
 * Bytes of a shared file that are in no buffer here: from the PFS, or from the tiers of the node that committed them. They are
 * fetched while no lock is held, since that node may be reading from this one at the same time. So a call that
 * needs them under a chunk's lock ends with -EREMOTE; the caller drops the lock, fetches, and begins again with what it has.
 */
#ifndef TB_FLUSH_REMOTE_H
#define TB_FLUSH_REMOTE_H

#include "flush/backing.h"

/*
 * Bytes [offset, offset + n) of one chunk and the rest of their pages, for this thread, until the next fetch or the drop. Not NULL: `to` is
 * where the program wants them. They are put there at once, believed or not, and until the drop the thread asks nothing else of its daemon.
 */
int tb_remote_fetch(struct tb_target *t, uint64_t offset, uint64_t n, char *to);
void tb_remote_drop(void);
/* The drop of a read that is over, of `n` bytes (0: it failed). The ones after these may be asked for now (flush/read_ahead.h). */
void tb_remote_end(struct tb_target *t, uint64_t offset, uint64_t n);
/*
 * Locked by the chunk. All of it was fetched, and can't be old: since before the fetch none of the file went to the PFS from here, and may
 * have left its buffer, or went for another node's bytes.
 */
bool tb_remote_has(const struct tb_target *t, uint64_t n, uint64_t offset);
/* Locked by the chunk. Copies what was fetched. False: it has not all. */
bool tb_remote_copy(const struct tb_target *t, void *to, uint64_t n, uint64_t offset);
/*
 * The same of bytes that go to the program and stay nowhere else: they may be in their place since they came. Other threads of the
 * program can write there, too; so what stays in a buffer is never taken from there.
 */
bool tb_remote_give(const struct tb_target *t, void *to, uint64_t n, uint64_t offset);

#endif
