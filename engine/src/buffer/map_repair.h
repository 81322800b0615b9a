/*
 * The chains of one chunk stripe after the holder of its lock was killed.
 *
 * A killed client leaves at most one change half done there. The buffer's state says which
 * half counts. A buffer that is not LIVE leaves chain and list. Of two LIVE buffers for
 * one cell, the older one leaves: it is the `prev` of the other. A buffer that was on its
 * way to the front of its file's list is put back.
 */
#ifndef TB_MAPREPAIR_H
#define TB_MAPREPAIR_H

#include "region/handle.h"

/* The stripe is locked by the caller. */
void tb_map_repair(tb_engine *e, uint32_t stripe);

#endif
