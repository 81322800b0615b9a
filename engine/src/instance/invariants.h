/* The invariants of a region at rest, for tests and stress runs. */
#ifndef TB_CHECK_H
#define TB_CHECK_H

#include "region/handle.h"

/* Every buffer is in exactly one place, counts agree with lists. No other process may be at work. */
bool tb_region_is_valid(tb_engine *e);

#endif
