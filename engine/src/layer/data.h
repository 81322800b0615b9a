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

#include "buffer/in_place.h"
#include "flush/backing.h"
#include "placement/placement.h"

/* Bytes transferred, or negative errno where there were none. */
ssize_t tb_data_write(struct tb_target *t, const void *from, size_t n, uint64_t offset);
ssize_t tb_data_read(struct tb_target *t, void *to, size_t n, uint64_t offset);
/* So many of `n` bytes from `offset` on are in its chunk. */
static inline size_t tb_to_chunk_end(const tb_engine *e, uint64_t offset, size_t n)
{
    struct tb_size chunk = e->header->chunk;
    uint64_t rest = (tb_size_divide(offset, chunk) + 1) * chunk.bytes - offset;
    return n < rest ? n : (size_t)rest;
}

/*
 * The same, if all of it is in one chunk and needs no lock (buffer/in_place.h), and before the end of the file; false: it is not, and
 * nothing was moved. So are most transfers. They are not to pay for what the others need: its instructions keep the processor from
 * beginning the next copy early.
 */
static inline bool tb_data_write_warm(tb_engine *e, uint32_t file, const void *from, size_t n, uint64_t offset)
{
    if (!n || tb_to_chunk_end(e, offset, n) < n || !tb_write_in_place(e, file, from, n, offset))
        return false;
    tb_place_note_access(e, file);
    return true;
}

static inline bool tb_data_read_warm(tb_engine *e, uint32_t file, void *to, size_t n, uint64_t offset)
{
    const struct tb_file *f = &e->region.files[file];
    uint32_t cuts = f->n_cuts;
    uint64_t size = f->size;
    if (!n || offset >= size || n > size - offset || tb_to_chunk_end(e, offset, n) < n || !tb_read_in_place(e, file, to, n, offset))
        return false;
    atomic_thread_fence(memory_order_acquire);
    if (f->n_cuts != cuts)
        return false;
    tb_place_note_access(e, file);
    return true;
}

#endif
