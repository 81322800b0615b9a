/*
 * The invariants of a region at rest, checked whole: every buffer is in exactly one place,
 * and all counts agree with the lists. It walks every record, so it is for tests and
 * stress runs, never for a running instance.
 */
#include "instance/invariants.h"

#include "buffer/interval.h"
#include "buffer/map.h"
#include "buffer/slab.h"
#include "file/file.h"
#include "file/name_tree.h"
#include "region/counters.h"

static bool slab_is_valid(tb_engine *e, uint32_t s)
{
    const struct tb_layout_slab *l = &e->header->layout.slab[s];
    const struct tb_slab *slab = &e->region.slabs[s];
    uint32_t n_clean = 0, n_other = 0;
    for (uint32_t i = l->first_buffer; i < l->first_buffer + l->n_buffers; i++) {
        const struct tb_buffer *b = &e->region.buffers[i];
        n_other += b->state != TB_BUFFER_FREE;
        n_clean += b->state == TB_BUFFER_LIVE && !tb_buffer_is_dirty(b);
        if (b->state == TB_BUFFER_LIVE && !tb_interval_is_valid(e, b))
            return false;
    }
    return tb_slab_is_whole(e, s) && n_clean == slab->n_clean && tb_slab_n_free(e, s) + n_other == l->n_buffers;
}

/* A buffer owns all its valid bytes: no smaller buffer covers one of them. */
static bool owns_its_bytes(tb_engine *e, uint32_t file, const struct tb_buffer *b)
{
    uint64_t start = tb_buffer_start(e, b), end;
    for (uint32_t lo = b->valid_lo, a, z; tb_interval_valid(e, b, lo, b->valid_hi, &a, &z); lo = z)
        for (uint64_t at = start + a; at < start + z; at = end)
            if (tb_map_owner(e, file, at, start + z, &end) != b)
                return false;
    return true;
}

/* At rest: the list holds only LIVE buffers, and their flags say what their intervals say. */
static bool buffers_of_file_are_valid(tb_engine *e, uint32_t file)
{
    const struct tb_file *f = &e->region.files[file];
    for (uint32_t i = f->first; i != TB_NONE; i = e->region.buffers[i].file_next) {
        struct tb_buffer *b = &e->region.buffers[i];
        if (b->state != TB_BUFFER_LIVE)
            return false;
        if (b->flags & (TB_BUFFER_ARRIVING | TB_BUFFER_LEAVING) || !owns_its_bytes(e, file, b))
            return false;
        if (b->valid_hi > b->valid_lo && tb_buffer_start(e, b) + b->valid_hi > f->size)
            return false; /* bytes past the end would show again if the file became longer */
        if (tb_buffer_is_dirty(b) != !!(b->flags & TB_BUFFER_DIRTY))
            return false;
    }
    return true;
}

/* The counters of the header are the sums over all buffers. */
static bool counts_are_valid(tb_engine *e)
{
    const struct tb_layout *l = &e->header->layout;
    uint64_t used[TB_MAX_TIERS] = {0}, dirty[TB_MAX_TIERS] = {0};
    uint32_t n_journaled = 0;
    for (uint32_t i = 0; i < l->n_buffers; i++) {
        const struct tb_buffer *b = &e->region.buffers[i];
        if (b->state == TB_BUFFER_FREE)
            continue;
        used[tb_slab_layout(e, b)->tier] += tb_buffer_size(e, b);
        dirty[tb_slab_layout(e, b)->tier] += tb_interval_dirty_bytes(e, b);
        n_journaled += !!(b->flags & TB_BUFFER_JOURNALED);
    }
    bool valid = n_journaled == e->header->journal.n_journaled;
    for (uint32_t t = 0; t < e->header->config.n_tiers; t++)
        valid &= used[t] == tb_tier_used(e, t) && dirty[t] == tb_tier_dirty(e->header, t);
    return valid;
}

/*
 * Hash chains hold only LIVE buffers. A predecessor is RETAINED, and each RETAINED buffer
 * is the predecessor of exactly one.
 */
static bool chains_are_valid(tb_engine *e)
{
    uint32_t n_prev = 0, n_retained = 0;
    for (uint32_t k = 0; k < e->header->layout.n_buckets; k++)
        for (uint32_t i = e->region.buckets[k]; i != TB_NONE; i = e->region.buffers[i].next)
            if (e->region.buffers[i].state != TB_BUFFER_LIVE)
                return false;
    for (uint32_t i = 0; i < e->header->layout.n_buffers; i++) {
        const struct tb_buffer *b = &e->region.buffers[i];
        n_retained += b->state == TB_BUFFER_RETAINED;
        if (b->state == TB_BUFFER_FREE || b->prev == TB_NONE)
            continue;
        n_prev++;
        if (e->region.buffers[b->prev].state != TB_BUFFER_RETAINED)
            return false;
    }
    return n_prev == n_retained;
}

bool tb_region_is_valid(tb_engine *e)
{
    for (uint32_t s = 0; s < e->header->layout.n_slabs; s++)
        if (!slab_is_valid(e, s))
            return false;
    for (uint32_t i = 0; i < e->region.n_file_buckets; i++)
        if (e->region.files[i].magic == TB_FILE_MAGIC && (!tb_file_is_whole(e, &e->region.files[i]) || !buffers_of_file_are_valid(e, i)))
            return false;
    return counts_are_valid(e) && chains_are_valid(e) && tb_names_are_whole(e);
}
