#include "check.h"

#include "filemap.h"
#include "interval.h"

static bool slab_is_valid(tb_engine *e, uint32_t s)
{
    const struct tb_layout_slab *l = &e->header->layout.slab[s];
    const struct tb_slab *slab = &e->header->slab[s];
    uint32_t n_free = 0, n_clean = 0, n_other = 0;
    for (uint32_t i = slab->free; i != TB_NONE; i = e->region.buffers[i].next) {
        if (e->region.buffers[i].state != TB_BUFFER_FREE || ++n_free > l->n_buffers)
            return false;
    }
    for (uint32_t i = l->first_buffer; i < l->first_buffer + l->n_buffers; i++) {
        const struct tb_buffer *b = &e->region.buffers[i];
        n_other += b->state != TB_BUFFER_FREE;
        n_clean += b->state == TB_BUFFER_LIVE && !tb_buffer_is_dirty(b);
        if (b->state == TB_BUFFER_LIVE && !tb_interval_is_valid(e, b))
            return false;
    }
    return n_free == slab->n_free && n_clean == slab->n_clean && n_free + n_other == l->n_buffers;
}

/* Every valid byte of a buffer is its own: nothing smaller stands over it. */
static bool owns_its_bytes(tb_engine *e, uint32_t file, const struct tb_buffer *b)
{
    uint64_t start = tb_buffer_start(e, b), end;
    for (uint32_t lo = b->valid_lo, a, z; tb_interval_valid(e, b, lo, b->valid_hi, &a, &z); lo = z)
        for (uint64_t at = start + a; at < start + z; at = end)
            if (tb_map_owner(e, file, at, start + z, &end) != b)
                return false;
    return true;
}

static bool file_is_valid(tb_engine *e, uint32_t file)
{
    const struct tb_file *f = &e->region.files[file];
    uint32_t n = 0, n_dirty = 0;
    for (uint32_t i = f->first; i != TB_NONE; i = e->region.buffers[i].file_next) {
        struct tb_buffer *b = &e->region.buffers[i];
        if (b->state != TB_BUFFER_LIVE || b->file != file || ++n > f->n_buffers)
            return false;
        if (b->flags & (TB_BUFFER_ARRIVING | TB_BUFFER_LEAVING) || !owns_its_bytes(e, file, b))
            return false;
        n_dirty += tb_buffer_is_dirty(b);
    }
    return n == f->n_buffers && n_dirty == f->n_dirty;
}

bool tb_region_is_valid(tb_engine *e)
{
    for (uint32_t s = 0; s < e->header->layout.n_slabs; s++)
        if (!slab_is_valid(e, s))
            return false;
    for (uint32_t i = 0; i < e->region.n_file_buckets; i++)
        if (e->region.files[i].magic == TB_FILE_MAGIC && !file_is_valid(e, i))
            return false;
    return true;
}
