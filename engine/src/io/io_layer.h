/*
 * What every layer of the chain shares: operations it has no opinion on go to
 * the next layer, so that a layer of three operations is three functions.
 */
#ifndef TB_IO_LAYER_H
#define TB_IO_LAYER_H

#include <tierbench/io.h>

struct tb_device;
struct tb_device_clock;

/* What the configuration says of the place below a chain. */
struct tb_io_place {
    const struct tb_device *model; /* NULL: the place is as fast as it is */
    struct tb_device_clock *clock;
};

/*
 * Makes a layer over `next` if the place, `text` (of its variable in the environment; NULL:
 * none) or the process asks for it; else it returns `next`.  NULL with errno: ENOMEM, or
 * what is wrong with the text.  The layer's `free` undoes it.
 */
typedef struct tb_io *tb_io_make(const struct tb_io_place *place, const char *text, struct tb_io *next);

/*
 * Make `io` a layer over `next`: `table` becomes `own` with every missing
 * operation passed on.  `table` must live as long as the layer.
 */
void tb_io_layer_init(struct tb_io *io, struct tb_io_ops *table, const struct tb_io_ops *own, struct tb_io *next);

#endif
