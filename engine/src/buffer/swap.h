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
 * tier, that has a buffer: placement has no say, the cell has its bytes already.
 * -ENOBUFS: no buffer or no fragment is free.
 */
int tb_buffer_copy(tb_engine *e, const struct tb_buffer *from, bool in_directory, struct tb_buffer **out);
/* Give back a buffer that was never published. */
void tb_buffer_discard(tb_engine *e, struct tb_buffer *b);

/* Publish ALLOCATED buffers (their cells are set) instead of LIVE ones with the same bytes. Locked by the stripe. */
void tb_move_publish(tb_engine *e, int stripe, const uint32_t *from, uint32_t n_from, const uint32_t *to, uint32_t n_to);
/* The last holder of the stripe was killed. */
void tb_move_repair(tb_engine *e, uint32_t stripe);

#endif
