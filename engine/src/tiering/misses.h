/*
 * Ghosts: which pages were read recently and were in no buffer.
 *
 * Bytes that are read once are not worth a buffer; a second read shows that there may be a
 * third. A ghost remembers the pages of one frame of one file by the file's identity, so
 * it outlives the file's record.
 *
 * Lossy on purpose: a few ways to a set, overwritten in turn, changed without a lock. A
 * ghost that is forgotten delays a stage-in; a wrong one makes it early.
 */
#ifndef TB_GHOST_H
#define TB_GHOST_H

#include "region/handle.h"

/*
 * Note that [offset, offset + n) was missed; true where its first page had been
 * missed before: the first that begins in it, so that a read which goes on where
 * the one before ended is not taken for a second one.
 */
bool tb_ghost_meet(tb_engine *e, uint32_t file, uint64_t offset, uint64_t n);

#endif
