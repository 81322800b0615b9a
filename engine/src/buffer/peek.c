/*
 * Reading without a lock: look up, copy, and believe the copy only if the chunk's count
 * stayed even and the same (buffer/peek.h). Everything read here may be half changed. So
 * each index is checked before it is followed, and each walk has an end.
 */
#include "buffer/peek.h"

#include "buffer/heat.h"
#include "buffer/map.h"
#include "buffer/medium.h"

#define WARM_UP_TO 8192u /* up to so many bytes, cache lines are worth asking for one by one */
#define CACHE_LINE 64u
#define LONGEST_CHAIN 64u /* after so many the walk is lost in another chain, or is better off with the lock */

static TB_UNLOCKED uint32_t load(const uint32_t *field)
{
    return __atomic_load_n(field, __ATOMIC_RELAXED);
}

static TB_UNLOCKED struct tb_buffer *find(const tb_engine *e, uint32_t file, struct tb_chunk chunk, uint32_t c, uint64_t cell)
{
    const struct tb_layout *l = &e->header->layout;
    uint32_t i = load(tb_map_bucket(e, chunk, c, cell));
    for (uint32_t n = 0; i < l->n_buffers && n < LONGEST_CHAIN; n++) {
        struct tb_buffer *b = &e->region.buffers[i];
        if (load(&b->file) == file && __atomic_load_n(&b->cell, __ATOMIC_RELAXED) == cell && l->slab[b->slab].class_index == c)
            return b;
        i = load(&b->next);
    }
    return NULL;
}

/* The smallest class that has a buffer there owns the byte. */
static TB_UNLOCKED struct tb_buffer *owner(const tb_engine *e, uint32_t file, struct tb_chunk chunk, uint64_t offset)
{
    const struct tb_layout *l = &e->header->layout;
    const struct tb_file *f = &e->region.files[file];
    struct tb_buffer *b = NULL;
    for (uint32_t c = 0; c < l->n_classes && !b; c++)
        if (f->classes >> c & 1)
            b = find(e, file, chunk, c, tb_size_divide(offset, l->class_divisor[c]));
    return b;
}

/*
 * How many bytes can be copied from the owner of the first byte, starting at `*lo`; 0:
 * take the lock instead. If a smaller buffer begins inside, the larger one holds nothing
 * valid there, so its interval ends before.
 */
static TB_UNLOCKED size_t held_by(const tb_engine *e, const struct tb_buffer *b, size_t n, uint64_t offset, uint64_t *lo)
{
    if (!b || load(&b->fragment) != TB_NONE || !tb_tier_is_memory(e, tb_slab_layout(e, b)->tier))
        return 0;
    uint64_t hi = load(&b->valid_hi);
    *lo = offset - tb_buffer_start(e, b);
    if (*lo < load(&b->valid_lo) || *lo >= hi || hi > tb_buffer_size(e, b))
        return 0;
    return hi - *lo < n ? hi - *lo : n;
}

static size_t copy_from_owner(tb_engine *e, uint32_t file, struct tb_chunk chunk, char *to, size_t n, uint64_t offset)
{
    struct tb_buffer *b = owner(e, file, chunk, offset);
    uint64_t lo;
    size_t take = held_by(e, b, n, offset, &lo);
    if (!take || tb_medium_read(e, b, (uint32_t)lo, (uint32_t)take, to))
        return 0;
    struct tb_transfers *moved = tb_transfers(e, tb_slab_layout(e, b)->tier);
    tb_heat_touch(e, b, (uint32_t)take, (uint32_t)(lo + take), TB_HEAT_READ);
    tb_count(&moved->bytes_out, take);
    tb_count(&moved->hits, 1);
    return take;
}

TB_UNLOCKED void tb_peek_warm(tb_engine *e, uint32_t file, size_t n, uint64_t offset)
{
    const struct tb_buffer *b = n <= WARM_UP_TO ? owner(e, file, tb_chunk_of(e, file, offset), offset) : NULL;
    uint64_t lo = b ? offset - tb_buffer_start(e, b) : 0;
    if (!b || !tb_tier_is_memory(e, tb_slab_layout(e, b)->tier) || lo >= tb_buffer_size(e, b))
        return;
    const char *at = e->region.base + tb_medium_offset(e, b, (uint32_t)lo);
    for (size_t k = 0; k < n; k += CACHE_LINE)
        __builtin_prefetch(at + k, 1); /* past the buffer's end it wastes a line, and never faults */
}

/* The fence keeps the copy before the second look at the count. */
bool tb_peek(tb_engine *e, uint32_t file, char *to, size_t n, uint64_t offset)
{
    struct tb_chunk chunk = tb_chunk_of(e, file, offset);
    const _Atomic uint32_t *sequence = &e->region.locks->chunk[chunk.stripe].sequence;
    uint32_t before = atomic_load_explicit(sequence, memory_order_acquire);
    size_t done = 0;
    if (before & 1)
        return false;
    while (done < n) {
        size_t took = copy_from_owner(e, file, chunk, to + done, n - done, offset + done);
        if (!took)
            return false;
        done += took;
    }
    atomic_thread_fence(memory_order_acquire);
    return atomic_load_explicit(sequence, memory_order_relaxed) == before;
}
