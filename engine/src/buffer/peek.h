/*
 * Reading without a lock, as most reads of buffered bytes are.
 *
 * A reader notes the chunk's sequence count, looks its bytes up, copies them, and looks at
 * the count again. If the count is even and the same, nothing changed during the copy.
 * Otherwise the copy is thrown away and the reader takes the lock. What a reader meets may
 * be half made or already belong to another file, so every index is checked before it is
 * followed, and every walk has an end.
 *
 * Limits: bytes in memory tiers, in buffers of one interval; the lock serves the rest. The
 * thread sanitizer cannot know that torn copies are thrown away: for it the copies are
 * atomic (copy/copy.h), and the look-ups are marked as unchecked.
 */
#ifndef TB_PEEK_H
#define TB_PEEK_H

#include "region/handle.h"

/*
 * A small write is about to take the chunk's lock: ask for the cache lines that it
 * will change before the lock's barrier holds everything up (a fifth of its time).
 */
void tb_peek_warm(tb_engine *e, uint32_t file, size_t n, uint64_t offset);

/* Bytes [offset, offset + n) of one chunk; false: take the lock. */
bool tb_peek(tb_engine *e, uint32_t file, char *to, size_t n, uint64_t offset);

#endif
