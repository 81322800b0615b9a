/*
 * Reading without a lock: what most reads of buffered bytes are.
 *
 * A reader notes the chunk's sequence count, looks its bytes up, copies them and
 * looks at the count again: unchanged and even, nobody changed anything meanwhile,
 * else what it copied counts for nothing and it reads again under the lock.
 * Whatever a reader meets while it looks may be half made or already somebody
 * else's, so every index is checked before it is followed and every walk has an end.
 *
 * Limits: bytes that lie in memory tiers, whole and in buffers of one interval;
 * the lock's way serves the rest.  The thread sanitizer cannot know that torn
 * copies are thrown away: it sees atomic ones (base/copy.h), and takes the look-ups' word.
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
