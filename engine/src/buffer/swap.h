/* The end of a move: some buffers replace others, in steps that can each be undone or finished. */
#ifndef TB_BUFFER_SWAP_H
#define TB_BUFFER_SWAP_H

#include "region/handle.h"

enum tb_move_step { TB_MOVE_NONE = 0, TB_MOVE_PUBLISHING, TB_MOVE_DROPPING };

/* Publish ALLOCATED buffers (their cells are set) instead of LIVE ones with the same bytes. Locked by the stripe. */
void tb_move_publish(tb_engine *e, int stripe, const uint32_t *from, uint32_t n_from, const uint32_t *to, uint32_t n_to);
/* The last holder of the stripe was killed. */
void tb_move_repair(tb_engine *e, uint32_t stripe);

#endif
