/* The engine's operations that write, and how far a file may reach. */
#ifndef TB_LAYER_WRITE_H
#define TB_LAYER_WRITE_H

#include "region/handle.h"

ssize_t tb_layer_write(struct tb_io *io, int fd, const void *buf, size_t n);
ssize_t tb_layer_pwrite(struct tb_io *io, int fd, const void *buf, size_t n, off_t offset);

/*
 * May a file of that file system end at `end`? The kernel says so by refusing to set an
 * offset past it. The kernel's own offset of `fd` does not matter while the engine keeps
 * the offset.
 */
bool tb_layer_may_reach(tb_engine *e, const struct tb_open *o, int fd, uint64_t end);

#endif
