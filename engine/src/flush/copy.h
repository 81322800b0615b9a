/*
 * The first part of a flush: dirty bytes of some buffers written to the backing file.
 *
 * Bytes are copied out under the chunk's lock, adjacent ones together, and written
 * outside it.  Since the list was made its bytes may have moved to other buffers:
 * by the organizer, perhaps of another size, but no such move ends in a claimed
 * file (tiering/move.c), so a list made a second time is safe from it; and by an fsync or a
 * write (layer/promise.c, layer/data.c) to a buffer of the same size, which is then looked up
 * under the chunk's lock.  So a flush ends, whatever writers do.
 * Much of one file is shared out to several threads where the handle
 * says so (`flush_threads`: the daemon and drains, never a program's own process), so
 * that copying goes on while others wait for the file system.
 */
#ifndef TB_FLUSH_COPY_H
#define TB_FLUSH_COPY_H

#include "buffer/map.h"
#include "buffer/of_file.h"
#include "flush/backing.h"
#include "shared/ranges.h"

/* What one buffer contributed: it is clean after the write (and sync) if nothing moved its version. */
struct tb_flushed {
    uint32_t buffer, version;
    uint64_t cell, start;
    bool journaled;               /* a record referred to it or its predecessor when it was copied, */
    uint64_t sequence;            /* and this was the newest record of all */
    uint32_t lo, hi;              /* the dirty bytes, where they were one interval, */
    bool fragmented;              /* else */
    bool partial;                 /* some dirty bytes were not written: the grant does not cover them, or they were spared */
    uint32_t first_part, n_parts; /* these, if a record referred to them, or where it is partial */
    bool voided;                  /* its records are void: its bytes are on the PFS, synced; */
    bool sealed;                  /* and no fsync makes a record of it before it is clean */
};

/* One dirty interval of a fragmented buffer, as it was copied. */
struct tb_flushed_part {
    uint32_t lo, hi;
};

struct tb_flush_copy {
    struct tb_target target;      /* its descriptor is writable */
    bool locked;                  /* the caller holds the chunk of all listed buffers, and keeps it */
    bool syncs;                   /* a sync follows whatever is written */
    bool gives_way;               /* ends early when another process waits for the file's claim */
    const struct tb_ranges *only; /* of all dirty bytes these; NULL: all */
    bool spares;  /* of these none that were written since: they are in no commit, and the rest of the write may be elsewhere */
    bool settled; /* the list was made when no move could be under way any more */

    /* The outcome of the last call, but `written`, which adds up. */
    uint64_t written;        /* bytes */
    bool journaled;          /* a record refers to some of them */
    struct tb_flushed *done; /* n_done of them */
    uint32_t n_done;
    struct tb_flushed_part *parts;
    uint32_t n_parts;
    struct tb_buffer_ref *left; /* of the list, in its order: n_left that were not copied, */
    uint32_t n_left;
    bool gave_way; /* some of them because it ended early */
    bool spared;   /* some bytes were spared: their buffers are in `done`, and stay dirty there */
    int unread;    /* 0, or why some that are in another node's memory could not be read: these stay dirty, and are not in `left` */
};

/* `refs` are in order of offset.  0 or negative errno; the caller frees the outcome either way. */
int tb_flush_copy(struct tb_flush_copy *copy, const struct tb_buffer_ref *refs, uint32_t n);
void tb_flush_copy_free(struct tb_flush_copy *copy);

/* Seconds that a write to the PFS waits beside its transfer, as its model or profile says; other writes may go on in that time. */
double tb_pfs_latency(const tb_engine *e);

/* The chunk of a listed buffer, as tb_chunk_lock. A caller that holds it all along loses nothing in between. */
static inline int tb_flush_lock(const struct tb_flush_copy *c, uint64_t start)
{
    return c->locked ? 0 : tb_chunk_lock(c->target.engine, c->target.file, start);
}

static inline void tb_flush_unlock(const struct tb_flush_copy *c, int stripe)
{
    if (!c->locked)
        tb_chunk_unlock(c->target.engine, stripe);
}

#endif
