/*
 * Buffers of one size in one tier: taken from a free list, given back, reclaimed when
 * clean. The free lists, one a lane, are changed under the lane's lock by single stores, and the
 * client is noted first, so that a killed client leaves nothing that repair cannot find.
 */
#ifndef TB_SLAB_H
#define TB_SLAB_H

#include "region/handle.h"

/*
 * A buffer in state ALLOCATED, or NULL where the slab has none: one that is free,
 * else a clean one colder than `limit` (buffer/heat.h; 0: free ones only) is reclaimed.
 */
struct tb_buffer *tb_slab_take(tb_engine *e, uint32_t slab, uint32_t limit);
/* Give back a buffer that is in no hash and no list. */
void tb_slab_give(tb_engine *e, struct tb_buffer *b);
/* The same of the tier's slabs of one class. */
struct tb_buffer *tb_tier_take_class(tb_engine *e, uint32_t tier, uint32_t class_index, uint32_t limit);
/* A buffer of `tier` for the first byte of a transfer of `bytes`, best fitting slab first. */
struct tb_buffer *tb_tier_take(tb_engine *e, uint32_t tier, uint64_t bytes, uint32_t limit);
/*
 * Buffers of one slab for consecutive cells of a transfer that begins at `offset`: how many, at
 * most TB_ROW, and fewer where the slab has fewer that are free; 0: the tier has none.
 */
#define TB_ROW 32u
uint32_t tb_tier_take_row(tb_engine *e, uint32_t tier, uint64_t offset, uint64_t bytes, struct tb_buffer **row);
/*
 * This client will soon write `n` bytes into the next buffer that it takes from the slab: its record and its first bytes are fetched
 * while the program goes on. They are nearly always in no cache of this processor, and the copy would wait for them.
 */
void tb_slab_ask_ahead(tb_engine *e, uint32_t slab, uint64_t n);
/* For callers that know that no buffer is taken or given back meanwhile: do the lists and their counts agree? */
bool tb_slab_is_whole(const tb_engine *e, uint32_t slab);
/* Mend the free lists that killed clients left locked. */
void tb_slabs_mend(tb_engine *e);
/*
 * Bytes that buffers of the tier could still take: free and clean ones; or less, but at least `enough`, which is cheaper to know. Read
 * without a lock: a write that finds less goes on elsewhere.
 */
#define TB_ROOM_ALL UINT64_MAX
uint64_t tb_tier_room(const tb_engine *e, uint32_t tier, uint64_t enough);
/* Sum of the sizes of the tier's buffers that are not free.  Without a lock: not of one moment. */
uint64_t tb_tier_used(const tb_engine *e, uint32_t tier);
/* How many buffers of a slab are free.  Without a lock. */
static inline uint32_t tb_slab_n_free(const tb_engine *e, uint32_t slab)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < TB_LANES; i++)
        n += e->region.slabs[slab].lane[i].n_free;
    return n;
}

#endif
