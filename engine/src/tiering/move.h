/*
 * Moves: the bytes of a buffer from one tier to another, whatever the buffer sizes of the
 * two, without losing a write that comes during the move.
 *
 * A move copies outside the chunk's lock into buffers that are not published yet, because
 * a slow tier's time must not pass under a lock. Then it takes the lock, and publishes
 * them instead of the old ones if no version changed; else it gives up. A larger buffer is
 * split into smaller ones; smaller ones of one tier are gathered into a larger one when
 * they fill at least half of it.
 *
 * The buffers that arrive and leave are marked first, and how far the move got is noted
 * with the lock. If the mover is killed, the next holder of the lock undoes a move that
 * had not published all, and finishes one that had.
 *
 * Limits: a buffer with a journal record stays, and what a larger buffer surrounds is not
 * gathered.
 */
#ifndef TB_MOVE_H
#define TB_MOVE_H

#include "buffer/of_file.h"
#include "file/file.h"

/*
 * Move a buffer of `file` to `tier`, into free buffers or those of clean ones colder than
 * `limit`. 0;
 * -ENOSPC: no room, or none that would be half used; -EBUSY: it may not be moved; -EAGAIN:
 * it changed during the move; or what the tiers said. Takes the chunk's lock: the caller
 * holds none.
 */
int tb_move(tb_engine *e, uint32_t file, const struct tb_buffer_ref *ref, uint32_t tier, uint32_t limit);
/*
 * The same to the first directory tier that takes it, for an fsync that would have to flush to the
 * PFS otherwise: smaller buffers are gathered even if they fill little of a larger one.
 */
int tb_move_for_promise(tb_engine *e, uint32_t file, const struct tb_buffer_ref *ref);

#endif
