#ifndef TB_CHAIN_MODEL_H
#define TB_CHAIN_MODEL_H

#include "chain/device_clock.h"

/* A layer over `next`.  `device` and `clock` must outlive it.  NULL: no memory. */
struct tb_io *tb_io_model_new(const struct tb_device *device, struct tb_device_clock *clock, struct tb_io *next);
void tb_io_model_free(struct tb_io *io);

#endif
