/*
 * Bytes go on in other buffers: one of the same size as a copy, or some in the place of
 * others, published in steps that can each be undone or finished.
 */
#ifndef TB_BUFFER_SWAP_H
#define TB_BUFFER_SWAP_H

#include "region/handle.h"

enum tb_move_step { TB_MOVE_NONE = 0, TB_MOVE_PUBLISHING, TB_MOVE_DROPPING };

/*
 * A copy of a locked buffer in one of the same size, so it keeps the cell, with its heat
 * and hint: ALLOCATED, to be published or discarded. In the fastest tier, or directory
 * tier, that has a buffer: placement has no say, the cell has its bytes already. Never in a remote tier: a
 * copy takes the place of bytes that were promised.
 * -ENOBUFS: no buffer or no fragment is free.
 */
int tb_buffer_copy(tb_engine *e, const struct tb_buffer *from, bool in_directory, struct tb_buffer **out);
/* Give back a buffer that was never published. */
void tb_buffer_discard(tb_engine *e, struct tb_buffer *b);

/* Locked by the chunk, of a published buffer: */

/*
 * A journal record refers to the bytes of `*b`, so they must stay as they are until a newer record or a flush covers them. Writing
 * goes on in a copy, which is in `*b` then.
 */
int tb_buffer_replace(tb_engine *e, struct tb_buffer **b);
/*
 * A buffer in another node's memory is only written in place where it holds what is nowhere else: should that node be lost, the write
 * fails, and takes no other bytes along. True: it was clean, and has gone.
 */
bool tb_buffer_leave_remote(tb_engine *e, struct tb_buffer *b);
/*
 * The node that lends the buffer its memory is lost: what of it the PFS has is read from there from now on. -EIO: some of [lo, hi)
 * is nowhere else, and is never made up.
 */
int tb_buffer_leave_unread(tb_engine *e, struct tb_buffer *b, uint32_t lo, uint32_t hi);

/* Publish ALLOCATED buffers (their cells are set) instead of LIVE ones with the same bytes. Locked by the stripe. */
void tb_move_publish(tb_engine *e, int stripe, const uint32_t *from, uint32_t n_from, const uint32_t *to, uint32_t n_to);
/* The last holder of the stripe was killed. */
void tb_move_repair(tb_engine *e, uint32_t stripe);

#endif
