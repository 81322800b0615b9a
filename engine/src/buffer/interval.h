/*
 * Which bytes of a buffer are the file's, and which of them the PFS lacks.
 *
 * A buffer holds one valid and one dirty interval.  Where its bytes are no
 * single interval, it gets a fragment: the same two intervals for each 4 KiB
 * block.  Inside one block a disjoint write forgets the other bytes if they are clean,
 * else it first fills the gap from the backing file, so a small write reads at most the
 * gap.  Fragments are few: where none is free the caller flushes the buffer and starts it
 * again.
 * All functions: the chunk's lock is held.
 */
#ifndef TB_INTERVAL_H
#define TB_INTERVAL_H

#include "region/handle.h"

/* Fill bytes [lo, hi) of the buffer from the backing file; 0 or negative errno. */
typedef int tb_gap_filler(void *arg, struct tb_buffer *b, uint32_t lo, uint32_t hi);

/*
 * Give the buffer a fragment if it cannot hold bytes [lo, hi) without one. -ENOBUFS: none
 * is free; flush and empty the buffer, then call again.
 */
int tb_interval_open(tb_engine *e, struct tb_buffer *b, uint32_t lo, uint32_t hi);
/*
 * Bytes [lo, hi) are about to be written: make room for them in the intervals.
 * Call before the bytes are copied: gaps are filled here.  -ENOBUFS as above.
 */
int tb_interval_prepare(tb_engine *e, struct tb_buffer *b, uint32_t lo, uint32_t hi, tb_gap_filler *fill, void *arg);
/*
 * Before prepare: a block with clean bytes alone forgets them where prepare would fill a gap beside them.  The PFS has them,
 * so a reader waits for it, and this writer does not.
 */
void tb_interval_forget_apart(tb_engine *e, struct tb_buffer *b, uint32_t lo, uint32_t hi);
/* Would a flush of [lo, hi) together with the dirty bytes of the same block also write a gap between them? */
bool tb_interval_bridges(const tb_engine *e, const struct tb_buffer *b, uint32_t lo, uint32_t hi);
/* The bytes are there: note them as valid, and dirty unless they came from the PFS. */
void tb_interval_note(tb_engine *e, struct tb_buffer *b, uint32_t lo, uint32_t hi, bool dirty);
/* The first bytes of an empty buffer that is not published: valid and dirty.  The caller counts them for the tier. */
void tb_interval_set(const tb_engine *e, struct tb_buffer *b, uint32_t lo, uint32_t hi);
/* As note, for a buffer that is being filled before it is published: no gaps are filled.  -ENOBUFS: no fragment is free. */
int tb_interval_add(tb_engine *e, struct tb_buffer *b, uint32_t lo, uint32_t hi, bool dirty);

/* The first valid (dirty) interval inside [lo, hi); false where there is none. */
bool tb_interval_valid(const tb_engine *e, const struct tb_buffer *b, uint32_t lo, uint32_t hi, uint32_t *from, uint32_t *to);
bool tb_interval_dirty(const tb_engine *e, const struct tb_buffer *b, uint32_t lo, uint32_t hi, uint32_t *from, uint32_t *to);
uint64_t tb_interval_dirty_bytes(const tb_engine *e, const struct tb_buffer *b);

void tb_interval_clean(tb_engine *e, struct tb_buffer *b);            /* nothing is dirty now */
void tb_interval_cut(tb_engine *e, struct tb_buffer *b, uint32_t at); /* nothing at or after `at` is valid now */
/*
 * Bytes [lo, hi) are not the file's any more, here: another node has newer ones.  Not where dirty bytes of one block are on both
 * sides, nor without a free fragment (-ENOBUFS): flush the buffer.
 */
bool tb_interval_may_remove(const tb_engine *e, const struct tb_buffer *b, uint32_t lo, uint32_t hi);
int tb_interval_remove(tb_engine *e, struct tb_buffer *b, uint32_t lo, uint32_t hi);
/* Only dirty bytes are valid now. */
void tb_interval_forget_clean(tb_engine *e, struct tb_buffer *b);
void tb_interval_empty(tb_engine *e, struct tb_buffer *b); /* nothing is valid now */
/* Put a fragment in front of the free list of fragments; returns its number. */
uint32_t tb_fragment_link(tb_engine *e, uint32_t fragment, uint32_t next);
/* After a client was killed between the two stores of an interval: an interval that was empty before is empty again. */
void tb_interval_mend(tb_engine *e, struct tb_buffer *b);
int tb_interval_copy(tb_engine *e, struct tb_buffer *to, const struct tb_buffer *from); /* -ENOBUFS */
/* Dirty bytes are valid, and valid ones are of the buffer: as far as its two intervals say, and block by block. */
bool tb_interval_is_valid(const tb_engine *e, const struct tb_buffer *b);
bool tb_interval_is_whole(const tb_engine *e, const struct tb_buffer *b);

#endif
