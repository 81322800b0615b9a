#ifndef TB_LAYER_OPEN_H
#define TB_LAYER_OPEN_H

#include <tierbench/io.h>

int tb_layer_open(struct tb_io *io, const char *path, int flags, mode_t mode);

#endif
