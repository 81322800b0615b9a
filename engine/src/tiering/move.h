/*
 * Moves: the bytes of a buffer from one tier to another, whatever the buffer
 * sizes of the two, without losing a write that comes meanwhile.
 *
 * A move copies outside the chunk's lock into buffers nobody knows yet, because
 * a slow tier's time must not pass under a lock; then it takes the lock and
 * publishes them in the place of the old ones if no version moved, else it gives
 * up.  A larger buffer is split into smaller ones; smaller ones of one tier are
 * gathered into a larger one when they fill at least half of it.
 *
 * What is published in whose place is marked first, and how far it got is noted
 * beside the lock: whoever takes the lock after a killed mover undoes a move that
 * had not published all, and ends one that had.
 *
 * Limits: what a journal record stands on stays, and what a larger buffer
 * surrounds is not gathered.
 */
#ifndef TB_MOVE_H
#define TB_MOVE_H

#include "buffer/of_file.h"
#include "file/file.h"

/*
 * Move a buffer of `file` to `tier`, into free buffers or those of clean ones
 * colder than `limit`.  0; -ENOSPC: no room, or none that would be half used;
 * -EBUSY: it may not be moved; -EAGAIN: it changed meanwhile; or what the tiers said.
 * Takes the chunk's lock: the caller holds none.
 */
int tb_move(tb_engine *e, uint32_t file, const struct tb_buffer_ref *ref, uint32_t tier, uint32_t limit);

#endif
