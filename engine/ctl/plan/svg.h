/* The picture of a plan: tiers, slabs and buffers to scale, and where writes would go. */
#ifndef TB_CTL_PLAN_SVG_H
#define TB_CTL_PLAN_SVG_H

#include "plan/writes.h"
#include "region/layout.h"

/* `writes`: NULL where none are shown.  0, or an exit status with the message printed. */
int tb_plan_svg(const struct tb_config *config, const struct tb_layout *layout, const struct plan_writes *writes, const char *file);

#endif
