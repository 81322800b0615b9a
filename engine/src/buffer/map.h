/*
 * The file map: from (file, offset) to the buffer that owns the byte.
 *
 * One hash for all files, keyed by file, class and cell.  A look-up tries the
 * classes the file uses, smallest first, and the first buffer found owns the
 * byte: where a small and a large buffer overlap, the small one is right and
 * the large one holds nothing valid there.  Buckets are grouped by chunk
 * stripe, so that the chunk's lock protects every chain its cells can be in.
 */
#ifndef TB_FILEMAP_H
#define TB_FILEMAP_H

#include "buffer/chunk.h"

/* The head of the chain that a cell of the chunk is in. Neighbouring cells of one class get different ones as long as there are enough. */
static inline uint32_t *tb_map_bucket(const tb_engine *e, struct tb_chunk chunk, uint32_t class_index, uint64_t cell)
{
    uint32_t per_stripe = e->header->layout.n_buckets / TB_STRIPES; /* a power of two */
    uint32_t at = (chunk.salt + class_index * 0x9e3779b9u + (uint32_t)cell) & (per_stripe - 1);
    return &e->region.buckets[chunk.stripe * per_stripe + at];
}

/* All functions below: the caller has locked the chunk of every offset named. */

/* The owner of the byte at `offset` and where its ownership ends (at most `limit`); NULL: none up to `*end`. */
struct tb_buffer *tb_map_owner(tb_engine *e, uint32_t file, uint64_t offset, uint64_t limit, uint64_t *end);
/* The buffer of that class at that cell, or NULL. */
struct tb_buffer *tb_map_find(tb_engine *e, uint32_t file, uint32_t class_index, uint64_t cell);
/* Every buffer of a locked stripe; `act` may drop the one it is given. */
void tb_map_each(tb_engine *e, uint32_t stripe, void (*act)(tb_engine *e, struct tb_buffer *b));
/* Publish an ALLOCATED buffer; its bytes and intervals are in place. */
void tb_map_publish(tb_engine *e, struct tb_buffer *b, uint32_t file, uint64_t cell);
/* The same of `n` buffers of one slab, for the cells from `cell` on, all in one chunk. */
void tb_map_publish_row(tb_engine *e, struct tb_buffer *const *row, uint32_t n, uint32_t file, uint64_t cell);
/* Publish `b` instead of `old`, which becomes RETAINED as its predecessor. */
void tb_map_replace(tb_engine *e, struct tb_buffer *b, struct tb_buffer *old);
/* Take a buffer out of hash and list and free it, with its predecessor. */
void tb_map_drop(tb_engine *e, struct tb_buffer *b);
/* Note that a buffer may have become dirty or clean. */
void tb_map_count_dirty(tb_engine *e, struct tb_buffer *b);
/* Change flags of a published buffer, and what the file counts of them. */
void tb_map_flag(tb_engine *e, struct tb_buffer *b, uint16_t set, uint16_t clear);
/* No journal record refers to its bytes any more. */
void tb_map_forget_record(tb_engine *e, struct tb_buffer *b);

/* Takes the locks itself, by trying: drop `b` if it is still clean.  False where it could not. */
bool tb_map_drop_clean(tb_engine *e, struct tb_buffer *b);

static inline __attribute__((always_inline)) bool tb_buffer_is_dirty(const struct tb_buffer *b)
{
    return b->dirty_hi > b->dirty_lo;
}

/* Nothing is lost when it is dropped. */
static inline __attribute__((always_inline)) bool tb_buffer_is_clean(const struct tb_buffer *b)
{
    return !tb_buffer_is_dirty(b) && !(b->flags & TB_BUFFER_JOURNALED) && b->prev == TB_NONE;
}

/*
 * One published buffer, cheap: what its chunk's lock makes true of the record alone. Every
 * change ends with it, also one that repair ends.
 */
bool tb_buffer_is_valid(const tb_engine *e, const struct tb_buffer *b);
/* All of a locked stripe at rest: chains hold LIVE buffers, each of them valid, in the right chain, and the only one of its cell. */
bool tb_chunk_is_whole(tb_engine *e, uint32_t stripe);

/*
 * Is the buffer still LIVE at this cell? The caller holds the chunk of (file, cell). A
 * buffer that was moved to another cell belongs to another chunk's lock, and no longer
 * compares equal.
 */
static TB_UNLOCKED __attribute__((unused)) bool tb_buffer_is_at(const struct tb_buffer *b, uint32_t file, uint64_t cell)
{
    return b->state == TB_BUFFER_LIVE && b->file == file && b->cell == cell;
}

/*
 * Its version, to be compared later under the same lock: the same then means that nothing in the buffer changed. Writers in place
 * move no version, so as to share the record with others' caches; they leave a buffer that was seen to the lock.
 */
static inline uint32_t tb_buffer_see(struct tb_buffer *b)
{
    b->flags |= TB_BUFFER_SEEN;
    return b->version;
}

/* Free the predecessors that journal records referred to. */
void tb_buffer_release_prev(tb_engine *e, struct tb_buffer *b);

/* For the repair: the list alone; the file is locked. */
#define TB_MOVING (TB_NONE - 1) /* file_prev of a buffer on its way to the front of the list */
void tb_map_list_insert(tb_engine *e, struct tb_buffer *b);
void tb_map_list_remove(tb_engine *e, struct tb_buffer *b);

#endif
