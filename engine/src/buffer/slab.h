/*
 * Buffers of one size in one tier: taken from a free list, given back, reclaimed when
 * clean. The free list is changed under the slab's lock by single stores, and the client
 * is noted first, so that a killed client leaves nothing that repair cannot find.
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
/* Under the slab's lock: the list and its count agree, by a look at the head; by a walk. */
bool tb_slab_is_valid(const tb_engine *e, uint32_t slab);
bool tb_slab_is_whole(const tb_engine *e, uint32_t slab);
/* Mend the free lists that killed clients left locked. */
void tb_slabs_mend(tb_engine *e);
/* Bytes that buffers of the tier could still take: free and clean ones.  Read without a lock: a write that finds less goes on elsewhere. */
static inline uint64_t tb_tier_room(const tb_engine *e, uint32_t tier)
{
    const struct tb_layout *l = &e->header->layout;
    uint64_t room = 0;
    for (uint32_t s = l->tier_first_slab[tier]; tb_is_slab_of(l, s, tier); s++)
        room += (uint64_t)(e->header->slab[s].n_free + e->header->slab[s].n_clean) * l->slab[s].buffer_size;
    return room;
}

#endif
