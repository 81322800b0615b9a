/*
 * Chunks: the ranges of files that are locked as one.
 *
 * The lock of a chunk protects the buffers with cells in it and their hash chains. What changes the map, or which bytes of a
 * buffer count, holds it alone. A write that replaces dirty bytes by others changes neither, so such writers share the chunk: each
 * notes itself and its range in one of a few words next to the lock, and works only while the lock is free and no other note
 * overlaps its own. A taker of the lock waits for the notes that are there, and later writers see that it is taken. A process
 * that is interrupted while it writes in place thus delays only those that want the lock or the same bytes; with more
 * processes than processors that was most of what writes into one file cost.
 *
 * A note is given back by one store. One that a killed client left is found by the next that takes the lock: it repairs the
 * chunk as after a killed holder, and by the repair of that client.
 *
 * Readers (buffer/in_place.h) take neither lock nor note. They copy, and believe the copy if the count of the lock is even and the
 * same after it, and no writer's note of the same bytes was there or has come and gone. For that a note keeps its range when it
 * is given back, and counts how often its word was used.
 */
#ifndef TB_CHUNK_H
#define TB_CHUNK_H

#include "region/handle.h"

/* Which stripe a chunk is in, and where in the stripe's part of the hash its cells start. */
struct tb_chunk {
    uint32_t stripe, salt;
};
static inline struct tb_chunk tb_chunk_of(const tb_engine *e, uint32_t file, uint64_t offset)
{
    uint64_t h = (file + 0x9e3779b97f4a7c15ull) * 0xbf58476d1ce4e5b9ull ^ tb_size_divide(offset, e->header->chunk) * 0x94d049bb133111ebull;
    h ^= h >> 29;
    h *= 0xd6e8feb86659fd93ull;
    h ^= h >> 32;
    return (struct tb_chunk){(uint32_t)h % TB_STRIPES, (uint32_t)(h >> 32)};
}

/*
 * Lock the chunk that holds `offset`; a stripe number >= 0, or -EDEADLK. When it returns every other thread sees that it is
 * locked, as after a fence of order seq_cst.
 */
int tb_chunk_lock(tb_engine *e, uint32_t file, uint64_t offset);
/* The same of a stripe, where that is possible at once except for writers in place: they are waited for. False: it is not. */
bool tb_chunk_try_lock(tb_engine *e, uint32_t stripe);
void tb_chunk_unlock(tb_engine *e, int stripe);
/* For repair: all of them. Nothing is published, changed or dropped until unlock_all. */
void tb_chunk_lock_all(tb_engine *e);
void tb_chunk_unlock_all(tb_engine *e);
/*
 * Wait until every thread that had locked a chunk of the file before the caller's change
 * has dropped it. A thread that locks one later, or begins to write in place, sees the change.
 */
void tb_chunk_wait_all(tb_engine *e, uint32_t file);

/* A writer in place, from tb_chunk_begin_writing to tb_chunk_end_writing. */
struct tb_chunk_note {
    _Atomic uint64_t *word;
    uint64_t value;
};
/* Bytes [offset, offset + n) of the chunk. False: take the lock. */
bool tb_chunk_begin_writing(tb_engine *e, uint32_t stripe, uint64_t offset, uint64_t n, struct tb_chunk_note *note);
void tb_chunk_end_writing(const struct tb_chunk_note *note);
/* Notes of a client that was killed are taken away, and what it left is repaired. */
void tb_chunks_forget_client(tb_engine *e, uint32_t slot);

/* What a reader saw of a chunk before it copied bytes of it. */
struct tb_chunk_view {
    uint32_t sequence;
    uint64_t writer[TB_CHUNK_WRITERS];
};

/* For the two below: a note overlaps the range; one that did has come and gone. */
bool tb_chunk_is_being_written(const tb_engine *e, const struct tb_chunk_view *view, uint64_t offset, uint64_t n);
bool tb_chunk_was_written(const tb_engine *e, const struct tb_chunk_view *before, const uint64_t *now, uint64_t offset, uint64_t n);

#define TB_CHUNK_CLIENT_SHIFT 50 /* of a note; the bits from there on are 0 where it was given back */

/* Before bytes [offset, offset + n) are copied. False: they are changing right now. Usually there is no note at all. */
static inline __attribute__((always_inline)) bool tb_chunk_look(const tb_engine *e, uint32_t stripe, uint64_t offset, uint64_t n,
                                                                struct tb_chunk_view *view)
{
    const struct tb_chunk_lock *chunk = &e->region.locks->chunk[stripe];
    uint64_t all = 0;
    view->sequence = atomic_load_explicit(&chunk->sequence, memory_order_acquire);
#pragma GCC unroll 6
    for (uint32_t i = 0; i < TB_CHUNK_WRITERS; i++)
        all |= view->writer[i] = atomic_load_explicit(&chunk->writer[i], memory_order_acquire);
    return !(view->sequence & 1) && !(all >> TB_CHUNK_CLIENT_SHIFT && tb_chunk_is_being_written(e, view, offset, n));
}

/* Nothing of them has changed since. */
static inline __attribute__((always_inline)) bool tb_chunk_is_as_seen(const tb_engine *e, uint32_t stripe, uint64_t offset, uint64_t n,
                                                                      const struct tb_chunk_view *view)
{
    const struct tb_chunk_lock *chunk = &e->region.locks->chunk[stripe];
    uint64_t now[TB_CHUNK_WRITERS], changed = 0;
    atomic_thread_fence(memory_order_acquire);
#pragma GCC unroll 6
    for (uint32_t i = 0; i < TB_CHUNK_WRITERS; i++) {
        now[i] = atomic_load_explicit(&chunk->writer[i], memory_order_relaxed);
        changed |= now[i] ^ view->writer[i];
    }
    return atomic_load_explicit(&chunk->sequence, memory_order_relaxed) == view->sequence &&
           !(changed && tb_chunk_was_written(e, view, now, offset, n));
}

#endif
