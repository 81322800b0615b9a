/*
 * The bytes of a buffer, wherever they are: copied in the region for a memory
 * tier, read and written in the slab's file through the tier's chain for a
 * directory tier.  Charges the tier's device model either way.
 */
#ifndef TB_MEDIUM_H
#define TB_MEDIUM_H

#include "region/handle.h"

/* 0 or negative errno: -EIO for a short transfer, -EHOSTDOWN where the node that lends its memory is lost. */
int tb_medium_read(tb_engine *e, const struct tb_buffer *b, uint32_t lo, uint32_t n, void *to);
int tb_medium_write(tb_engine *e, const struct tb_buffer *b, uint32_t lo, uint32_t n, const void *from);

/* Bytes of a directory tier that are read next: its device may begin. */
void tb_medium_will_read(tb_engine *e, const struct tb_buffer *b, uint32_t lo, uint32_t n);

/* Where byte `lo` is in the slab's file, or in the region. */
uint64_t tb_medium_offset(const tb_engine *e, const struct tb_buffer *b, uint32_t lo);

#endif
