/*
 * Heat: how often and how recently a buffer was used, in 16 bits of its record.
 *
 * A use of the whole buffer counts most, of a few bytes of it least, a read more
 * than a write (what is written need not be read again).  The count halves with
 * every epoch, and an epoch is not a time but an amount: the engine moved as many
 * bytes as all tiers hold.  So a phase of computing cools nothing, and what is
 * used once in each pass over a working set that fits stays warmer than a stream.
 *
 * The word is read and stored, not exchanged: of two uses at the same moment one
 * may be lost, and a reader without lock may warm a buffer that has just become
 * another's.  A count that is full is left alone, so reads of what is hot store nothing.
 *
 * Limit: the epoch has 8 bits; what was not touched for 256 of them looks young again.
 */
#ifndef TB_HEAT_H
#define TB_HEAT_H

#include "region/handle.h"

#define TB_HEAT_WRITE 4u  /* a write of the whole buffer */
#define TB_HEAT_READ 8u   /* a read of it */
#define TB_HEAT_WARM 16u  /* two reads, or a write and two: worth a place in a higher tier */
#define TB_HEAT_FULL 112u /* counts no further */
#define TB_HEAT_KEEP 127u /* what a hint keeps */
#define TB_HEAT_ANY 128u  /* as a limit: however hot */
#define TB_HEAT_AHEAD 4u  /* prefetched and not read yet */

#define TB_HEAT_COUNT 0x7fu    /* the word: the count, */
#define TB_HEAT_IS_AHEAD 0x80u /* whether it was prefetched and not read yet, */
#define TB_HEAT_EPOCH_SHIFT 8  /* and the epoch of the count */

static inline __attribute__((always_inline)) uint32_t tb_heat_decayed(const tb_engine *e, uint16_t word)
{
    uint8_t age = (uint8_t)(atomic_load_explicit(&e->header->movement.heat_epoch, memory_order_relaxed) - (word >> TB_HEAT_EPOCH_SHIFT));
    return age < 8 ? (word & TB_HEAT_COUNT) >> age : 0;
}

static inline __attribute__((always_inline)) uint32_t tb_heat_of(const tb_engine *e, const struct tb_buffer *b)
{
    return b->flags & TB_BUFFER_KEEP ? TB_HEAT_KEEP : tb_heat_decayed(e, atomic_load_explicit(&b->heat, memory_order_relaxed));
}

/* The same without the chunk's lock: a hint. */
static TB_UNLOCKED __attribute__((unused)) uint32_t tb_heat_seen(const tb_engine *e, const struct tb_buffer *b)
{
    return tb_heat_of(e, b);
}

static inline void tb_heat_set(const tb_engine *e, struct tb_buffer *b, uint32_t count, bool ahead)
{
    uint32_t epoch = atomic_load_explicit(&e->header->movement.heat_epoch, memory_order_relaxed);
    uint32_t word = epoch << TB_HEAT_EPOCH_SHIFT | (ahead ? TB_HEAT_IS_AHEAD : 0) | count;
    atomic_store_explicit(&b->heat, (uint16_t)word, memory_order_relaxed);
}

/* What a use of `n` bytes of a buffer counts, where `whole` is what all of it would. */
static inline uint32_t tb_heat_gain(uint64_t size, uint64_t n, uint32_t whole)
{
    return n >= size ? whole : n >= size / 4 ? whole / 4 : 1;
}

/*
 * `n` bytes up to byte `hi` of the buffer were used; `whole` is what all of it
 * would count.  What was prefetched and is read to its end has done its service: it is cold.
 */
static inline void tb_heat_touch(const tb_engine *e, struct tb_buffer *b, uint32_t n, uint32_t hi, uint32_t whole)
{
    uint16_t word = atomic_load_explicit(&b->heat, memory_order_relaxed);
    uint32_t count = tb_heat_decayed(e, word);
    if (word & TB_HEAT_IS_AHEAD) {
        if (hi >= b->valid_hi)
            tb_heat_set(e, b, 1, false);
        return;
    }
    if (count < TB_HEAT_FULL)
        tb_heat_set(e, b, count + tb_heat_gain(tb_buffer_size(e, b), n, whole), false);
}

#endif
