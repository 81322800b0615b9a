/*
 * The first part of a flush: dirty bytes of some buffers written to the backing file.
 *
 * Bytes are copied out under the chunk's lock, adjacent ones together, and written
 * outside it.  Much of one file is shared out to several threads where the handle
 * says so (`flush_threads`: the daemon and drains, never a program's own process), so
 * that copying goes on while others wait for the file system.
 */
#ifndef TB_FLUSH_COPY_H
#define TB_FLUSH_COPY_H

#include "file.h"

/* What one buffer contributed: it is clean after the write (and sync) if nothing moved its version. */
struct tb_flushed {
    uint32_t buffer, version;
    uint64_t cell, start;
    bool journaled;    /* a record stood on it or its predecessor when it was copied, */
    bool fragmented;   /* and its bytes were not one interval, */
    uint64_t sequence; /* and this was the newest record of all */
    uint32_t lo, hi;
    bool voided; /* records that stood on it are void: its bytes are on the PFS, synced */
};

struct tb_flush_copy {
    tb_engine *e;
    struct tb_io *io;
    uint32_t file;
    int fd; /* of the backing file, writable */

    /* The outcome of the last call, but `written`, which adds up. */
    uint64_t written;        /* bytes */
    bool moved;              /* a buffer of the list is elsewhere by now */
    bool journaled;          /* a record stands on some of them */
    struct tb_flushed *done; /* n_done of them; the caller frees */
    uint32_t n_done;
};

/* `refs` are in order of offset.  0 or negative errno. */
int tb_flush_copy(struct tb_flush_copy *copy, const struct tb_buffer_ref *refs, uint32_t n);

#endif
