/*
 * The chains of one chunk stripe after its lock's holder was killed.
 *
 * A killed client leaves at most one change half done there.  Its buffer's state
 * says which half counts: what is not LIVE leaves chain and list, of two LIVE
 * buffers for one cell the older one (the `prev` of the other) does, and one that
 * was between two places of its file's list is put back.
 */
#ifndef TB_MAPREPAIR_H
#define TB_MAPREPAIR_H

#include "region/handle.h"

/* The stripe is locked by the caller. */
void tb_map_repair(tb_engine *e, uint32_t stripe);

#endif
