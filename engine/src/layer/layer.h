/* The engine as a layer of the chain: see tierbench/engine.h for what its operations do. */
#ifndef TB_LAYER_H
#define TB_LAYER_H

#include "flush/backing.h"
#include "region/handle.h"

const struct tb_io_ops *tb_layer_ops(void);

/* Around an operation: device time is reserved while locks are held and paid after them. */
void tb_layer_enter(void);
void tb_layer_leave(bool settle_all);

bool tb_layer_may_write(int flags);
/* Offsets end at 2^63 - 1. */
bool tb_layer_passes_the_end(uint64_t offset, size_t n);

bool tb_layer_is_coherent(const tb_engine *e, const struct tb_open *o);
/*
 * Does a call pass through? 1, 0, or a negative errno. A file that has just become coherent
 * may still have buffers. Dirty bytes are flushed first: they are older than what is about
 * to be written, and a reader would miss them. Then the buffers are dropped: what passes
 * through does not change them, and they would be found again after the last close. If that
 * flush fails, the call must not go past the bytes that it left.
 */
int tb_layer_passes_through(tb_engine *e, const struct tb_open *o, int fd);
/*
 * In a coherent file everything passes through, offsets included: a program that inherited
 * the description knows only the kernel's offset. The first such use hands ours to the
 * kernel. 1, 0, or a negative errno.
 */
int tb_layer_is_in_kernel(tb_engine *e, struct tb_open *o, int fd);
/* The file is claimed, and its end is locked, which comes first. `fd` is open with `flags`; -1: by name. */
int tb_layer_become_coherent(tb_engine *e, uint32_t file, int fd, int flags);
/* Flush through the program's own descriptor: the file may have no name any more. */
int tb_layer_flush_now(tb_engine *e, const struct tb_open *o, int fd);

tb_engine *tb_layer_engine(struct tb_io *io);
struct tb_target tb_layer_target(tb_engine *e, const struct tb_open *o, int fd);

#endif
