/*
 * Bytes of a file through its buffers.
 *
 * A write goes chunk by chunk under the chunk's lock: into the buffers that own its bytes,
 * and for the gaps between them into new buffers where placement says, filled before they
 * are published. What no tier takes goes straight to the backing file. A read copies what
 * is valid and takes the rest from the backing file, with zeros after its end.
 */
#ifndef TB_DATA_H
#define TB_DATA_H

#include "flush/backing.h"

/* Bytes transferred, or negative errno where there were none. */
ssize_t tb_data_write(struct tb_target *t, const void *from, size_t n, uint64_t offset);
ssize_t tb_data_read(struct tb_target *t, void *to, size_t n, uint64_t offset);

#endif
