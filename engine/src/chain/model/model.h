/* The model layer: makes the place below it as slow as a device of the configuration. */
#ifndef TB_CHAIN_MODEL_H
#define TB_CHAIN_MODEL_H

#include "io/io_layer.h"

/* Where the place has a model. Model and clock must outlive the layer. */
struct tb_io *tb_io_model_new(const struct tb_io_place *place, const char *text, struct tb_io *next);

#endif
