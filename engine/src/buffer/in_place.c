/*
 * Bytes in place, without the chunk's lock (buffer/in_place.h). What is read before a writer has its note, and all that a
 * reader reads, may be half changed. So each index is checked before it is followed, and each walk has an end.
 */
#include "buffer/in_place.h"

#include "base/kill_point.h"
#include "buffer/heat.h"
#include "buffer/map.h"
#include "buffer/medium.h"
#include "buffer/unrecorded.h"
#include "region/counters.h"

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

/* Is every byte held, so that none is copied in vain? */
static bool holds_all(const tb_engine *e, uint32_t file, struct tb_chunk chunk, size_t n, uint64_t offset)
{
    size_t take = 1;
    for (uint64_t lo; n && take; n -= take, offset += take)
        take = held_by(e, owner(e, file, chunk, offset), n, offset, &lo);
    return !n;
}

/* It is counted before the copy: a locked instruction after it would wait for its stores, and hold back the loads of the next one. */
static size_t copy_from_owner(tb_engine *e, uint32_t file, struct tb_chunk chunk, char *to, size_t n, uint64_t offset, bool first)
{
    struct tb_buffer *b = owner(e, file, chunk, offset);
    uint64_t lo;
    size_t take = held_by(e, b, n, offset, &lo);
    if (!take || (first && take < n && !holds_all(e, file, chunk, n - take, offset + take)))
        return 0;
    tb_count_out(e, tb_slab_layout(e, b)->tier, take, 1);
    tb_medium_copy_out(e, b, (uint32_t)lo, (uint32_t)take, to);
    tb_heat_touch(e, b, (uint32_t)take, (uint32_t)(lo + take), TB_HEAT_READ);
    return take;
}

/* The fence of the second look keeps the copy before it. */
bool tb_read_in_place(tb_engine *e, uint32_t file, char *to, size_t n, uint64_t offset)
{
    struct tb_chunk chunk = tb_chunk_of(e, file, offset);
    struct tb_chunk_view view;
    size_t done = 0;
    if (!tb_chunk_look(e, chunk.stripe, offset, n, &view))
        return false;
    while (done < n) {
        size_t took = copy_from_owner(e, file, chunk, to + done, n - done, offset + done, done == 0);
        if (!took)
            return false;
        done += took;
    }
    return tb_chunk_is_as_seen(e, chunk.stripe, offset, n, &view);
}

/*
 * Dirty bytes of the file, and no record, flush or move refers to them, nor does an fsync want to know them. No process cuts the
 * file, and none of it passes through.
 */
static bool may_replace(const tb_engine *e, const struct tb_buffer *b, uint32_t file, uint64_t cell, uint32_t lo, size_t n)
{
    return !(e->region.files[file].flags & (TB_FILE_CUTTING | TB_FILE_COHERENT)) && tb_buffer_is_at(b, file, cell) &&
           b->fragment == TB_NONE && b->dirty_lo <= lo && lo + n <= b->dirty_hi && !(b->flags & (TB_BUFFER_JOURNALED | TB_BUFFER_SEEN)) &&
           !tb_unrecorded_is_known(e, b);
}

/*
 * The record of the buffer stays as it is, except for its heat, so that processors that write into one buffer share its line. What
 * takes a locked instruction is done before the copy, because it would wait for the copy's stores.
 */
static void replace(tb_engine *e, struct tb_buffer *b, uint32_t lo, const char *from, uint32_t n)
{
    tb_count_in(e, tb_slab_layout(e, b)->tier, n, 1);
    TB_STEP("writing in place");
    tb_medium_copy_in(e, b, lo, n, from);
    TB_STEP("written in place");
    tb_heat_touch(e, b, n, lo + n, TB_HEAT_WRITE);
}

/*
 * A note takes two locked instructions, which wait for all stores before them. So it is not taken in vain: where the file grows, as most
 * do that are written in small pieces, or where bytes of the buffer are not dirty yet. Both may be about to change: then the lock serves.
 */
static TB_UNLOCKED bool may_be_dirty(const struct tb_buffer *b, uint32_t lo, size_t n)
{
    return load(&b->dirty_lo) <= lo && lo + n <= load(&b->dirty_hi);
}

bool tb_write_in_place(tb_engine *e, uint32_t file, const char *from, size_t n, uint64_t offset)
{
    bool grows = offset + n > e->region.files[file].size;
    if (grows || e->region.file_nodes)
        return false;
    struct tb_chunk chunk = tb_chunk_of(e, file, offset);
    struct tb_buffer *b = owner(e, file, chunk, offset);
    struct tb_chunk_note note;
    if (!b || !tb_tier_is_memory(e, tb_slab_layout(e, b)->tier))
        return false;
    uint64_t cell = tb_size_divide(offset, e->header->layout.class_divisor[tb_slab_layout(e, b)->class_index]);
    uint32_t lo = (uint32_t)(offset - cell * tb_buffer_size(e, b));
    tb_medium_will_come(e, b, lo, n);
    if (lo + n > tb_buffer_size(e, b) || !may_be_dirty(b, lo, n) || !tb_chunk_begin_writing(e, chunk.stripe, offset, n, &note))
        return false;
    bool may = may_replace(e, b, file, cell, lo, n);
    if (may)
        replace(e, b, lo, from, (uint32_t)n);
    tb_chunk_end_writing(&note);
    return may;
}
