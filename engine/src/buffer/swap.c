/*
 * Bytes go on in other buffers (buffer/swap.h). The end of a move publishes new buffers in
 * the place of old ones, in steps that the next holder of the chunk's lock can undo or
 * finish. The step is in the chunk's lock, and ARRIVING and LEAVING mark the buffers.
 * PUBLISHING is undone, DROPPING is finished.
 */
#include "buffer/swap.h"

#include <errno.h>

#include "base/kill_point.h"
#include "base/scratch.h"
#include "buffer/heat.h"
#include "buffer/interval.h"
#include "buffer/map.h"
#include "buffer/medium.h"
#include "buffer/slab.h"

static struct tb_buffer *take_like(tb_engine *e, const struct tb_buffer *like, bool in_directory)
{
    struct tb_buffer *b = NULL;
    for (uint32_t t = 0; t < e->header->config.n_tiers && !b; t++)
        if (tb_tier_is_directory(e, t) || (!in_directory && tb_tier_is_memory(e, t)))
            b = tb_tier_take_class(e, t, tb_slab_layout(e, like)->class_index, TB_HEAT_ANY);
    return b;
}

static int copy_valid(tb_engine *e, struct tb_buffer *to, const struct tb_buffer *from)
{
    char *bytes = tb_scratch_bytes(tb_buffer_size(e, from));
    int rc = bytes ? 0 : -ENOMEM;
    for (uint32_t lo = from->valid_lo, a, z; !rc && tb_interval_valid(e, from, lo, from->valid_hi, &a, &z); lo = z) {
        rc = tb_medium_read(e, from, a, z - a, bytes);
        rc = rc ? rc : tb_medium_write(e, to, a, z - a, bytes);
    }
    return rc;
}

/* Locked by the chunk of `from`. If killed here, repair frees the copy: it is this client's, and not published. */
int tb_buffer_copy(tb_engine *e, const struct tb_buffer *from, bool in_directory, struct tb_buffer **out)
{
    assert(from->state == TB_BUFFER_LIVE && tb_buffer_is_valid(e, from));
    struct tb_buffer *to = take_like(e, from, in_directory);
    int rc = to ? tb_interval_copy(e, to, from) : -ENOBUFS;
    rc = rc ? rc : copy_valid(e, to, from);
    if (rc) {
        if (to)
            tb_buffer_discard(e, to);
        return rc;
    }
    to->cell = from->cell;
    to->heat = from->heat;
    to->flags = from->flags & TB_BUFFER_KEEP;
    *out = to;
    return 0;
}

void tb_buffer_discard(tb_engine *e, struct tb_buffer *b)
{
    tb_interval_empty(e, b);
    tb_slab_give(e, b);
}

/* If killed here before the copy is published, repair frees it; after that, the copy owns the bytes. */
int tb_buffer_replace(tb_engine *e, struct tb_buffer **b)
{
    struct tb_buffer *old = *b;
    int rc = tb_buffer_copy(e, old, false, b);
    if (!rc)
        tb_map_replace(e, *b, old);
    return rc;
}

bool tb_buffer_leave_remote(tb_engine *e, struct tb_buffer *b)
{
    bool leaves = tb_buffer_is_remote(e, b) && tb_buffer_is_clean(b);
    if (leaves)
        tb_map_drop(e, b);
    return leaves;
}

int tb_buffer_leave_unread(tb_engine *e, struct tb_buffer *b, uint32_t lo, uint32_t hi)
{
    uint32_t a, z;
    assert(tb_buffer_is_remote(e, b));
    if (tb_buffer_is_clean(b))
        tb_map_drop(e, b);
    else if (tb_interval_dirty(e, b, lo, hi, &a, &z))
        return -EIO;
    else
        tb_interval_forget_clean(e, b);
    return 0;
}

/* A journal record may refer to a predecessor: the new buffer takes it over. */
static void hand_over_prev(struct tb_buffer *from, struct tb_buffer *to)
{
    assert(to != from && to->prev == TB_NONE);
    to->prev = from->prev;
    from->prev = TB_NONE;
}

/* Emptied before it is taken out: if killed between, what is left of it holds no bytes. */
static void leave(tb_engine *e, struct tb_buffer *b)
{
    tb_interval_empty(e, b);
    tb_map_count_dirty(e, b);
    tb_map_drop(e, b);
}

/* Locked by the chunk from the first store to the last. From DROPPING on, the new buffers hold everything. */
void tb_move_publish(tb_engine *e, int stripe, const uint32_t *from, uint32_t n_from, const uint32_t *to, uint32_t n_to)
{
    _Atomic uint32_t *step = &e->region.locks->chunk[stripe].moving;
    struct tb_buffer *all = e->region.buffers;
    uint32_t file = all[from[0]].file;
    assert(n_from && *step == TB_MOVE_NONE); /* none arrives for one that holds nothing */
    *step = TB_MOVE_PUBLISHING;
    for (uint32_t i = 0; i < n_from; i++) {
        assert(all[from[i]].state == TB_BUFFER_LIVE && (all[from[i]].prev == TB_NONE || (n_from == 1 && n_to == 1)));
        all[from[i]].flags |= TB_BUFFER_LEAVING;
    }
    TB_STEP("move leaving");
    for (uint32_t i = 0; i < n_to; i++) {
        all[to[i]].flags |= TB_BUFFER_ARRIVING;
        tb_map_publish(e, &all[to[i]], file, all[to[i]].cell);
        TB_STEP("move published");
    }
    *step = TB_MOVE_DROPPING;
    if (n_from == 1 && n_to == 1 && all[from[0]].prev != TB_NONE)
        hand_over_prev(&all[from[0]], &all[to[0]]);
    TB_STEP("move handed over");
    for (uint32_t i = 0; i < n_from; i++)
        leave(e, &all[from[i]]);
    TB_STEP("move left");
    for (uint32_t i = 0; i < n_to; i++)
        all[to[i]].flags &= (uint16_t)~TB_BUFFER_ARRIVING;
    *step = TB_MOVE_NONE;
}

static void undo(tb_engine *e, struct tb_buffer *b)
{
    b->flags &= (uint16_t)~TB_BUFFER_LEAVING;
    if (b->flags & TB_BUFFER_ARRIVING)
        leave(e, b);
}

/* Find the arriving buffer of the same cell: it has the predecessor now, or was about to get it. */
static void rescue_prev(tb_engine *e, struct tb_buffer *b)
{
    uint32_t c = tb_slab_layout(e, b)->class_index;
    struct tb_buffer *to = tb_map_find(e, b->file, c, b->cell); /* the newer one comes first in the chain */
    if (to && to != b && to->flags & TB_BUFFER_ARRIVING)
        hand_over_prev(b, to);
}

static void end(tb_engine *e, struct tb_buffer *b)
{
    b->flags &= (uint16_t)~TB_BUFFER_ARRIVING;
    if (b->flags & TB_BUFFER_LEAVING)
        leave(e, b);
}

static void rescue(tb_engine *e, struct tb_buffer *b)
{
    if (b->flags & TB_BUFFER_LEAVING && b->prev != TB_NONE)
        rescue_prev(e, b);
}

/*
 * Locked by the chunk, after its chains were repaired. If killed here, the step is still
 * noted, and the next holder starts again.
 */
void tb_move_repair(tb_engine *e, uint32_t stripe)
{
    _Atomic uint32_t *step = &e->region.locks->chunk[stripe].moving;
    if (*step == TB_MOVE_PUBLISHING)
        tb_map_each(e, stripe, undo);
    if (*step == TB_MOVE_DROPPING) {
        tb_map_each(e, stripe, rescue);
        tb_map_each(e, stripe, end);
    }
    *step = TB_MOVE_NONE;
}
