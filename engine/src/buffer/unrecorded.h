/*
 * Which bytes of a buffer no journal record has, where it replaced a buffer with durable records: those that were
 * written since. An fsync of few such bytes needs to record no others.
 *
 * The predecessor keeps them as its valid interval, which nothing else needs: its bytes are what its records refer to, and
 * lie in its slab. The interval covers at least what was written, also after a kill: it is widened before the bytes
 * are copied, and emptied by one store after their record is durable.
 * All functions but the last one: the chunk's lock is held.
 */
#ifndef TB_UNRECORDED_H
#define TB_UNRECORDED_H

#include <assert.h>

#include "base/kill_point.h"
#include "buffer/interval.h"
#include "buffer/map.h"

/* Does the buffer know them? */
static inline bool tb_unrecorded_is_known(const tb_engine *e, const struct tb_buffer *b)
{
    return b->prev != TB_NONE && e->region.buffers[b->prev].flags & TB_BUFFER_DURABLE;
}

/* `old` has just been replaced: nothing was written since. If killed before, all that it held counts as written. */
static inline void tb_unrecorded_begin(tb_engine *e, struct tb_buffer *old)
{
    assert(old->state == TB_BUFFER_RETAINED);
    TB_STEP("unrecorded");
    if (old->flags & TB_BUFFER_DURABLE)
        tb_interval_empty(e, old);
}

/* A kill may come between any two stores, and the compiler keeps their order. */
static inline void tb_unrecorded_set(uint32_t *bound, uint32_t to)
{
    __atomic_store_n(bound, to, __ATOMIC_RELEASE);
    TB_STEP("unrecorded bound");
}

/* Before bytes [lo, hi) are written. Each store leaves an interval that covers what it covered before. */
static inline void tb_unrecorded_note(tb_engine *e, const struct tb_buffer *b, uint32_t lo, uint32_t hi)
{
    if (!tb_unrecorded_is_known(e, b))
        return;
    struct tb_buffer *old = &e->region.buffers[b->prev];
    bool none = old->valid_lo >= old->valid_hi;
    assert(lo < hi && hi <= tb_buffer_size(e, b));
    if (none)
        tb_unrecorded_set(&old->valid_lo, 0);
    if (none || old->valid_hi < hi)
        tb_unrecorded_set(&old->valid_hi, hi);
    if (none || old->valid_lo > lo)
        tb_unrecorded_set(&old->valid_lo, lo);
}

/* Bounds of those of a buffer that knows them; false: there are none. */
static inline bool tb_unrecorded_bytes(const tb_engine *e, const struct tb_buffer *b, uint32_t *lo, uint32_t *hi)
{
    const struct tb_buffer *old = &e->region.buffers[b->prev];
    assert(tb_unrecorded_is_known(e, b));
    *lo = old->valid_lo;
    *hi = old->valid_hi;
    return *lo < *hi;
}

/* They have durable records now. */
static inline void tb_unrecorded_forget(tb_engine *e, const struct tb_buffer *b)
{
    struct tb_buffer *old = &e->region.buffers[b->prev];
    assert(tb_unrecorded_is_known(e, b));
    tb_unrecorded_set(&old->valid_lo, old->valid_hi);
}

/* Without a lock: does the buffer know them, and are there none but those of writes that are under way? */
static TB_UNLOCKED __attribute__((unused)) bool tb_unrecorded_are_none(const tb_engine *e, const struct tb_buffer *b, uint32_t file,
                                                                       uint64_t cell)
{
    uint32_t prev = __atomic_load_n(&b->prev, __ATOMIC_ACQUIRE);
    if (prev >= e->header->layout.n_buffers || b->flags & TB_BUFFER_JOURNALED || !tb_buffer_is_at(b, file, cell))
        return false;
    const struct tb_buffer *old = &e->region.buffers[prev];
    bool known = old->state == TB_BUFFER_RETAINED && old->flags & TB_BUFFER_DURABLE;
    return known && __atomic_load_n(&old->valid_lo, __ATOMIC_ACQUIRE) >= __atomic_load_n(&old->valid_hi, __ATOMIC_ACQUIRE);
}

#endif
