/* The picture of a plan: tiers, slabs and buffers to scale. */
#ifndef TB_CTL_PLAN_SVG_H
#define TB_CTL_PLAN_SVG_H

#include "region/layout.h"

/* 0, or an exit status with the message printed. */
int tb_plan_svg(const struct tb_config *config, const struct tb_layout *layout, const char *file);

#endif
