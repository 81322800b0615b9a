/*
 * Bytes in place, without the chunk's lock: most reads of buffered bytes, and the writes that replace dirty bytes by others.
 *
 * A reader notes what it sees of the chunk (buffer/chunk.h), looks its bytes up, copies them, and looks at the chunk again. If
 * nothing of these bytes changed during the copy it counts. Otherwise the copy is thrown away and the reader takes the lock. What
 * a reader meets may be half made or already belong to another file, so every index is checked before it is followed, and every
 * walk has an end.
 *
 * A writer looks for its buffer in the same way, then says in the chunk that it writes. From then on nothing of the map changes,
 * and the buffer is looked at once more: the bytes must be dirty in it, and of no journal record. A larger buffer has nothing valid
 * where a smaller one owns the bytes, so the buffer that has them is their owner. If the writer is killed, its bytes are undefined,
 * dirty as before, and the next holder of the lock moves the buffer's version.
 *
 * Limits: bytes in memory tiers, in buffers of one interval; writes of bytes in one buffer, and of files that nodes do not share.
 * The lock serves the rest. The thread sanitizer cannot know that torn copies are thrown away: for it the copies are atomic
 * (copy/copy.h), and the look-ups are marked as unchecked.
 */
#ifndef TB_IN_PLACE_H
#define TB_IN_PLACE_H

#include "region/handle.h"

/* Bytes [offset, offset + n) of one chunk; false: take the lock. */
bool tb_read_in_place(tb_engine *e, uint32_t file, char *to, size_t n, uint64_t offset);
bool tb_write_in_place(tb_engine *e, uint32_t file, const char *from, size_t n, uint64_t offset);

#endif
