/*
 * The end of a move: some buffers take the place of others, in steps of which each can be undone or ended.
 */
#ifndef TB_BUFFER_SWAP_H
#define TB_BUFFER_SWAP_H

#include "region/handle.h"

enum tb_move_step { TB_MOVE_NONE = 0, TB_MOVE_PUBLISHING, TB_MOVE_DROPPING };

/* For a holder of the stripe: publish ALLOCATED buffers, whose cells are set, in the place of live ones with the same bytes. */
void tb_move_publish(tb_engine *e, int stripe, const uint32_t *from, uint32_t n_from, const uint32_t *to, uint32_t n_to);
/* The last holder of the stripe was killed. */
void tb_move_repair(tb_engine *e, uint32_t stripe);

#endif
