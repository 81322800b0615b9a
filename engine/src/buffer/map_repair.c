/*
 * Repair of the hash chains of one stripe after the holder of its lock was killed. Each
 * buffer's state says what counts: what is not LIVE is taken out and freed, LIVE buffers
 * keep their bytes and get their counts and lists right. It may be killed at any point;
 * the next holder starts again.
 */
#include "buffer/map_repair.h"

#include "buffer/interval.h"
#include "buffer/map.h"
#include "buffer/slab.h"
#include "file/file.h"

static bool is_in_list(const tb_engine *e, const struct tb_buffer *b)
{
    uint32_t i = e->region.files[b->file].first, me = tb_buffer_number(e, b);
    while (i != TB_NONE && i != me)
        i = e->region.buffers[i].file_next;
    return i == me;
}

/*
 * Taking the file's lock repairs the list itself, if its holder was killed too. The counts
 * are made again: the killed client had counted the buffer or not, and others go on with the
 * file before tb_repair comes.
 */
static void leave_list(tb_engine *e, struct tb_buffer *b)
{
    int stripe = tb_file_lock(e, b->file);
    if (is_in_list(e, b)) {
        tb_map_list_remove(e, b);
        tb_file_recount(e, &e->region.files[b->file]);
    }
    tb_file_unlock(e, stripe);
}

static void back_into_list(tb_engine *e, struct tb_buffer *b)
{
    int stripe = tb_file_lock(e, b->file);
    if (!is_in_list(e, b)) {
        tb_map_list_insert(e, b);
        tb_file_recount(e, &e->region.files[b->file]);
    }
    tb_file_unlock(e, stripe);
}

/*
 * The client was killed while there were two LIVE buffers of one cell, or after the older
 * one left the hash chain but not the file's list. The older one is kept, because a
 * journal record refers to its bytes.
 */
static void settle_older(tb_engine *e, struct tb_buffer *b)
{
    struct tb_buffer *old = b->prev == TB_NONE ? NULL : &e->region.buffers[b->prev];
    if (!old)
        return;
    if (old->state == TB_BUFFER_LIVE)
        old->state = TB_BUFFER_RETAINED; /* it comes after `b` in the chain, where this walk takes it out */
    leave_list(e, old);
}

static void free_buffer(tb_engine *e, struct tb_buffer *b)
{
    b->prev = TB_NONE; /* its predecessor has no successor now: tb_repair finds and frees it */
    b->flags = 0;
    tb_interval_empty(e, b);
    tb_slab_give(e, b);
}

void tb_map_repair(tb_engine *e, uint32_t stripe)
{
    uint32_t per_stripe = e->header->layout.n_buckets / TB_STRIPES;
    for (uint32_t k = stripe * per_stripe; k < (stripe + 1) * per_stripe; k++)
        for (uint32_t *link = &e->region.buckets[k]; *link != TB_NONE;) {
            struct tb_buffer *b = &e->region.buffers[*link];
            if (b->state == TB_BUFFER_LIVE) {
                tb_interval_mend(e, b);
                b->version++; /* it may have been overwritten in part: a flush or a move copied what was there before */
                assert(tb_interval_is_valid(e, b));
                tb_file_cover(&e->region.files[b->file], tb_buffer_start(e, b), b);
                settle_older(e, b); /* older ones come after it in this chain */
                if (b->file_prev == TB_MOVING)
                    back_into_list(e, b);
                tb_map_count_dirty(e, b); /* if it was killed between the intervals and the flag */
                link = &b->next;
                continue;
            }
            leave_list(e, b);
            *link = b->next;
            if (b->state == TB_BUFFER_ALLOCATED)
                free_buffer(e, b);
        }
}
