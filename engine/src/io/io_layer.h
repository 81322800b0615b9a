/*
 * What every layer of the chain shares: operations it has no opinion on go to
 * the next layer, so that a layer of three operations is three functions.
 */
#ifndef TB_IO_LAYER_H
#define TB_IO_LAYER_H

#include <tierbench/io.h>

/*
 * Make `io` a layer over `next`: `table` becomes `own` with every missing
 * operation passed on.  `table` must live as long as the layer.
 */
void tb_io_layer_init(struct tb_io *io, struct tb_io_ops *table, const struct tb_io_ops *own, struct tb_io *next);

#endif
