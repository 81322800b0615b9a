/* What the daemon does with a schedule (config/schedule_text.h): a piece of prefetching at a time. */
#ifndef TB_SCHEDULE_H
#define TB_SCHEDULE_H

#include "config/schedule_text.h"
#include "region/handle.h"

/* A piece; false where there is nothing to do now.  `tb_schedule_end` closes what it has open. */
bool tb_schedule_step(tb_engine *e, struct tb_schedule *s);
void tb_schedule_end(tb_engine *e, struct tb_schedule *s);

#endif
