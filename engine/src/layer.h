/* The engine as a layer of the chain: see tierbench/engine.h for what its operations do. */
#ifndef TB_LAYER_H
#define TB_LAYER_H

#include "client.h"

const struct tb_io_ops *tb_layer_ops(void);

#endif
