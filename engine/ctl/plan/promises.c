/*
 * What `plan` says of `fsync: tier`: which buffer sizes of a memory tier no directory tier has.
 *
 * An fsync moves the bytes of a memory tier into a directory tier. Where that has no slab of the same buffer size, they are
 * split or gathered (tb_move_for_promise). Gathering takes a large buffer for a few small ones, which a user should know before
 * the tier is full.
 */
#include "plan/promises.h"

static bool is_directory(const struct tb_config *c, uint32_t tier)
{
    return c->tiers[tier].medium == TB_MEDIUM_DIRECTORY;
}

/* Any directory tier will do: an fsync takes a free buffer of the same size wherever there is one. */
static bool has_size_below(const struct tb_config *c, const struct tb_layout *l, uint64_t size)
{
    for (uint32_t s = 0; s < l->n_slabs; s++)
        if (is_directory(c, l->slab[s].tier) && l->slab[s].n_buffers && l->slab[s].buffer_size == size)
            return true;
    return false;
}

/* Of the first directory tier: the largest smaller buffers, else the smallest larger ones; as the engine chooses. */
static const struct tb_layout_slab *slab_for(const struct tb_config *c, const struct tb_layout *l, uint64_t size)
{
    const struct tb_layout_slab *best = NULL;
    for (uint32_t s = 0; s < l->n_slabs; s++) {
        const struct tb_layout_slab *slab = &l->slab[s];
        if (!is_directory(c, slab->tier) || !slab->n_buffers || (best && best->tier != slab->tier))
            continue;
        bool below = slab->buffer_size < size, best_below = best && best->buffer_size < size;
        if (!best || (below ? !best_below || slab->buffer_size > best->buffer_size : !best_below && slab->buffer_size < best->buffer_size))
            best = slab;
    }
    return best;
}

/* Nothing is said where fsync promises less or more than a tier: then no bytes are moved down for it. */
void tb_plan_promises_print(const struct tb_config *c, const struct tb_layout *l, FILE *out, const char *before)
{
    for (uint32_t s = 0; s < l->n_slabs && c->fsync == TB_FSYNC_TIER; s++) {
        const struct tb_layout_slab *from = &l->slab[s];
        if (is_directory(c, from->tier) || !from->n_buffers || has_size_below(c, l, from->buffer_size))
            continue;
        const struct tb_layout_slab *to = slab_for(c, l, from->buffer_size);
        if (to)
            fprintf(out, "%sfsync: no directory tier has buffers of %llu bytes, as %s has: they are %s buffers of %llu bytes of %s\n",
                    before, (unsigned long long)from->buffer_size, c->tiers[from->tier].name,
                    to->buffer_size < from->buffer_size ? "split into" : "gathered in", (unsigned long long)to->buffer_size,
                    c->tiers[to->tier].name);
    }
}
