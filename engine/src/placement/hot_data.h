#ifndef TB_PLACEMENT_HOT_DATA_H
#define TB_PLACEMENT_HOT_DATA_H

#include "region/handle.h"

/* Note an access to the file's bytes. */
void tb_place_count_access(tb_engine *e, uint32_t file);

#endif
