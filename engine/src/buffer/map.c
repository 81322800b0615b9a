/*
 * The file map: one hash from (file, class, cell) to buffer, and the
 * list of each file's buffers. A change is a row of single stores. The buffer's state says
 * which side of the change counts, so the next holder of the lock finishes or undoes what
 * a killed one left (buffer/map_repair.c).
 */
#include "buffer/map.h"

#include <errno.h>

#include "base/kill_point.h"
#include "base/valid.h"
#include "buffer/interval.h"
#include "buffer/slab.h"
#include "buffer/swap.h"
#include "buffer/unrecorded.h"
#include "file/file.h"

static struct tb_chunk chunk_of_buffer(const tb_engine *e, const struct tb_buffer *b)
{
    return tb_chunk_of(e, b->file, tb_buffer_start(e, b));
}

static uint32_t *bucket_of_buffer(const tb_engine *e, const struct tb_buffer *b)
{
    return tb_map_bucket(e, chunk_of_buffer(e, b), tb_slab_layout(e, b)->class_index, b->cell);
}

static struct tb_buffer *find(tb_engine *e, uint32_t file, struct tb_chunk chunk, uint32_t c, uint64_t cell)
{
    const struct tb_layout *l = &e->header->layout;
    for (uint32_t i = *tb_map_bucket(e, chunk, c, cell); i != TB_NONE; i = e->region.buffers[i].next) {
        struct tb_buffer *b = &e->region.buffers[i];
        if (b->file == file && b->cell == cell && l->slab[b->slab].class_index == c)
            return b;
    }
    return NULL;
}

struct tb_buffer *tb_map_find(tb_engine *e, uint32_t file, uint32_t class_index, uint64_t cell)
{
    assert(class_index < e->header->layout.n_classes);
    return find(e, file, tb_chunk_of(e, file, cell * e->header->layout.class_size[class_index]), class_index, cell);
}

void tb_map_each(tb_engine *e, uint32_t stripe, void (*act)(tb_engine *e, struct tb_buffer *b))
{
    uint32_t per_stripe = e->header->layout.n_buckets / TB_STRIPES;
    for (uint32_t k = 0; k < per_stripe; k++)
        for (uint32_t i = e->region.buckets[stripe * per_stripe + k], next; i != TB_NONE; i = next) {
            next = e->region.buffers[i].next;
            act(e, &e->region.buffers[i]);
        }
}

bool tb_buffer_is_valid(const tb_engine *e, const struct tb_buffer *b)
{
    const struct tb_layout *l = &e->header->layout;
    const struct tb_layout_slab *slab = &l->slab[b->slab];
    return b->slab < l->n_slabs && tb_buffer_number(e, b) - slab->first_buffer < slab->n_buffers && tb_interval_is_valid(e, b) &&
           (b->fragment == TB_NONE || b->fragment < l->n_fragments) && (b->prev == TB_NONE || b->prev < l->n_buffers) &&
           (b->flags & TB_BUFFER_JOURNALED || !(b->flags & (TB_BUFFER_DURABLE | TB_BUFFER_RECORDED)));
}

static bool is_whole(tb_engine *e, const struct tb_buffer *b)
{
    return b->state == TB_BUFFER_LIVE && tb_buffer_is_valid(e, b) && tb_interval_is_whole(e, b) &&
           !(b->flags & (TB_BUFFER_ARRIVING | TB_BUFFER_LEAVING)) && tb_buffer_is_dirty(b) == !!(b->flags & TB_BUFFER_DIRTY) &&
           tb_map_find(e, b->file, tb_slab_layout(e, b)->class_index, b->cell) == b;
}

bool tb_chunk_is_whole(tb_engine *e, uint32_t stripe)
{
    uint32_t per_stripe = e->header->layout.n_buckets / TB_STRIPES;
    for (uint32_t k = stripe * per_stripe; k < (stripe + 1) * per_stripe; k++)
        for (uint32_t i = e->region.buckets[k]; i != TB_NONE; i = e->region.buffers[i].next)
            if (!is_whole(e, &e->region.buffers[i]) || chunk_of_buffer(e, &e->region.buffers[i]).stripe != stripe)
                return false;
    return true;
}

/* Where the next buffer of class `c` after `offset` starts, or `limit`. */
static uint64_t next_of_class(tb_engine *e, uint32_t file, struct tb_chunk chunk, uint32_t c, uint64_t offset, uint64_t limit)
{
    uint64_t size = e->header->layout.class_size[c];
    for (uint64_t cell = offset / size + 1; cell * size < limit; cell++)
        if (find(e, file, chunk, c, cell))
            return cell * size;
    return limit;
}

/*
 * Classes are tried from the smallest, since the smallest buffer owns the byte. A smaller
 * buffer that starts later ends the ownership of a larger one.
 */
struct tb_buffer *tb_map_owner(tb_engine *e, uint32_t file, uint64_t offset, uint64_t limit, uint64_t *end)
{
    const struct tb_layout *l = &e->header->layout;
    struct tb_file *f = &e->region.files[file];
    struct tb_chunk chunk = tb_chunk_of(e, file, offset);
    uint64_t until = limit;
    assert(offset < limit);
    TB_ASSERT_WHOLE(tb_chunk_of(e, file, limit - 1).stripe == chunk.stripe);
    for (uint32_t c = 0; c < l->n_classes; c++) {
        if (!(f->classes >> c & 1))
            continue;
        uint64_t size = l->class_size[c], cell = tb_size_divide(offset, l->class_divisor[c]), cell_end = (cell + 1) * size;
        struct tb_buffer *b = find(e, file, chunk, c, cell);
        if (b) {
            *end = cell_end < until ? cell_end : until;
            return b;
        }
        until = next_of_class(e, file, chunk, c, offset, until);
    }
    *end = until;
    return NULL;
}

/* Locked by the chunk. The store of the head publishes the buffer: all its fields are set before. */
static void hash_insert(tb_engine *e, struct tb_chunk chunk, struct tb_buffer *b)
{
    uint32_t *head = tb_map_bucket(e, chunk, tb_slab_layout(e, b)->class_index, b->cell);
    b->next = *head;
    atomic_store_explicit((_Atomic uint32_t *)head, tb_buffer_number(e, b), memory_order_release); /* publishes */
}

static void hash_remove(tb_engine *e, struct tb_buffer *b)
{
    uint32_t *link = bucket_of_buffer(e, b);
    uint32_t me = tb_buffer_number(e, b);
    while (*link != me) {
        assert(*link != TB_NONE);
        link = &e->region.buffers[*link].next;
    }
    *link = b->next;
}

/*
 * Locked by the file. Forward links count; backward links are rebuilt from them if the
 * holder is killed (tb_file_recount).
 */
void tb_map_list_insert(tb_engine *e, struct tb_buffer *b)
{
    struct tb_file *f = &e->region.files[b->file];
    uint32_t me = tb_buffer_number(e, b);
    b->file_next = f->first;
    if (f->first != TB_NONE)
        e->region.buffers[f->first].file_prev = me;
    TB_STEP("list insert");
    f->first = me;
    b->file_prev = TB_NONE;
}

void tb_map_list_remove(tb_engine *e, struct tb_buffer *b)
{
    struct tb_file *f = &e->region.files[b->file];
    if (b->file_next != TB_NONE)
        e->region.buffers[b->file_next].file_prev = b->file_prev;
    TB_STEP("list remove");
    if (b->file_prev == TB_NONE)
        f->first = b->file_next;
    else
        e->region.buffers[b->file_prev].file_next = b->file_next;
}

/*
 * What a listed buffer adds to the counts of its file; `by` is 1 or -1. If killed between,
 * tb_file_recount counts again.
 */
static void count_in_file(tb_engine *e, const struct tb_buffer *b, uint32_t by)
{
    struct tb_file *f = &e->region.files[b->file];
    if (!(b->flags & TB_BUFFER_DIRTY))
        return;
    assert(by == 1 || f->n_dirty);
    f->n_dirty += by;
    TB_STEP("count dirty");
    if (b->flags & TB_BUFFER_DURABLE)
        f->n_durable += by;
}

/* Put a buffer that has become dirty in front of its file's list, so that a walk for dirty buffers may stop early. */
static void move_to_front(tb_engine *e, struct tb_buffer *b)
{
    if (b->file_prev == TB_NONE)
        return;
    uint32_t prev = b->file_prev;
    b->file_prev = TB_MOVING; /* if killed before the insertion, map_repair inserts it */
    TB_STEP("move mark");
    if (b->file_next != TB_NONE)
        e->region.buffers[b->file_next].file_prev = prev;
    e->region.buffers[prev].file_next = b->file_next;
    TB_STEP("move out");
    tb_map_list_insert(e, b);
}

/* Locked by the file. Counts are lowered with the old flags and raised with the new ones. */
static void set_flags(tb_engine *e, struct tb_buffer *b, uint16_t flags)
{
    bool newly_dirty = flags & ~b->flags & TB_BUFFER_DIRTY;
    count_in_file(e, b, (uint32_t)-1);
    TB_STEP("flag");
    b->flags = flags;
    TB_STEP("flagged");
    count_in_file(e, b, 1);
    if (newly_dirty)
        move_to_front(e, b);
}

void tb_map_flag(tb_engine *e, struct tb_buffer *b, uint16_t set, uint16_t clear)
{
    int stripe = tb_file_lock(e, b->file);
    set_flags(e, b, (uint16_t)((b->flags | set) & ~clear));
    tb_file_unlock(e, stripe);
}

/* Locked by the chunk. The file's lock is taken only if the buffer became dirty or clean. */
void tb_map_count_dirty(tb_engine *e, struct tb_buffer *b)
{
    bool is_dirty = tb_buffer_is_dirty(b);
    assert(tb_buffer_is_valid(e, b));
    if (is_dirty == !!(b->flags & TB_BUFFER_DIRTY))
        return;
    e->region.slabs[b->slab].n_clean += is_dirty ? (uint32_t)-1 : 1;
    tb_map_flag(e, b, is_dirty ? TB_BUFFER_DIRTY : 0, is_dirty ? 0 : TB_BUFFER_DIRTY);
}

/*
 * The flags go first: if killed between, n_journaled is too high until repair counts
 * again, and the journal is emptied later.
 */
void tb_map_forget_record(tb_engine *e, struct tb_buffer *b)
{
    if (!(b->flags & TB_BUFFER_JOURNALED))
        return;
    tb_map_flag(e, b, 0, TB_BUFFER_JOURNALED | TB_BUFFER_RECORDED | TB_BUFFER_DURABLE);
    e->header->journal.n_journaled--;
}

static void count_clean(tb_engine *e, const struct tb_buffer *b, uint32_t by)
{
    if (!tb_buffer_is_dirty(b))
        e->region.slabs[b->slab].n_clean += by;
}

/* Set before the buffer can be found; never cleared while the file record lives. */
static void note_class(struct tb_file *f, uint32_t class_index)
{
    if (!(f->classes >> class_index & 1))
        atomic_fetch_or(&f->classes, (uint8_t)(1u << class_index));
}

static void publish_in_hash(tb_engine *e, struct tb_chunk chunk, struct tb_buffer *b, uint32_t file, uint64_t cell)
{
    assert(b->state == TB_BUFFER_ALLOCATED && tb_buffer_is_valid(e, b));
    TB_STEP("publish");
    b->file = file;
    b->cell = cell;
    b->flags = (uint16_t)((b->flags & ~TB_BUFFER_DIRTY) | (tb_buffer_is_dirty(b) ? TB_BUFFER_DIRTY : 0));
    b->file_prev = TB_NONE;
    count_clean(e, b, 1);
    TB_STEP("hash insert");
    hash_insert(e, chunk, b);
    TB_STEP("hash inserted");
}

/*
 * Locked by the chunk, which holds all of them. Hash, list, then the state LIVE, the first
 * buffer first. If killed before LIVE, the next holder of the chunk's lock takes the buffer out
 * of the chain and frees it: the bytes were never written.
 */
void tb_map_publish_row(tb_engine *e, struct tb_buffer *const *row, uint32_t n, uint32_t file, uint64_t cell)
{
    struct tb_chunk chunk = tb_chunk_of(e, file, cell * tb_buffer_size(e, row[0]));
    note_class(&e->region.files[file], tb_slab_layout(e, row[0])->class_index);
    for (uint32_t i = 0; i < n; i++)
        publish_in_hash(e, chunk, row[i], file, cell + i);
    int stripe = tb_file_lock(e, file);
    for (uint32_t i = 0; i < n; i++) {
        tb_map_list_insert(e, row[i]);
        e->region.files[file].n_buffers++;
        count_in_file(e, row[i], 1);
        TB_STEP("state live");
        row[i]->state = TB_BUFFER_LIVE;
        TB_STEP("live");
    }
    tb_file_unlock(e, stripe);
}

void tb_map_publish(tb_engine *e, struct tb_buffer *b, uint32_t file, uint64_t cell)
{
    tb_map_publish_row(e, &b, 1, file, cell);
}

/*
 * Locked by the chunk. The new state is stored first: if killed after it, the next holder
 * takes the buffer out of hash and list. If it had left the hash already, it stays in the
 * list until tb_repair, where walks skip it by its state. `state` says whether it is freed
 * or retained then.
 */
static void take_out(tb_engine *e, struct tb_buffer *b, enum tb_buffer_state state)
{
    const struct tb_file *f = &e->region.files[b->file];
    assert(b->state == TB_BUFFER_LIVE && state != TB_BUFFER_LIVE);
    b->client = (uint16_t)e->slot;
    b->state = state;
    TB_STEP("take out");
    hash_remove(e, b);
    TB_STEP("hash removed");
    count_clean(e, b, (uint32_t)-1);
    int stripe = tb_file_lock(e, b->file);
    tb_map_list_remove(e, b);
    TB_STEP("list removed");
    e->region.files[b->file].n_buffers--;
    count_in_file(e, b, (uint32_t)-1);
    bool unused = f->n_buffers == 0 && f->n_open == 0;
    tb_file_unlock(e, stripe);
    if (unused)
        tb_file_release(e, b->file);
}

/*
 * Free the older copies. There is more than one if a write came between a record and its
 * sync. If killed between, the copy is RETAINED without a successor: repair frees it, and
 * lowers n_journaled.
 */
void tb_buffer_release_prev(tb_engine *e, struct tb_buffer *b)
{
    while (b->prev != TB_NONE) {
        struct tb_buffer *old = &e->region.buffers[b->prev];
        assert(old->state == TB_BUFFER_RETAINED && old != b);
        b->prev = old->prev;
        old->prev = TB_NONE;
        TB_STEP("prev released");
        e->header->journal.n_journaled--;
        tb_interval_empty(e, old);
        tb_slab_give(e, old);
    }
}

/* The caller made sure that no byte is lost. If killed after take_out, repair frees the buffer by its client. */
void tb_map_drop(tb_engine *e, struct tb_buffer *b)
{
    take_out(e, b, TB_BUFFER_ALLOCATED);
    TB_STEP("drop");
    tb_buffer_release_prev(e, b);
    if (b->flags & TB_BUFFER_JOURNALED)
        e->header->journal.n_journaled--;
    b->flags = 0;
    TB_STEP("dropped");
    tb_interval_empty(e, b);
    tb_slab_give(e, b);
}

void tb_map_replace(tb_engine *e, struct tb_buffer *b, struct tb_buffer *old)
{
    uint32_t file = old->file;
    uint64_t cell = old->cell;
    assert(old->flags & TB_BUFFER_JOURNALED && b->prev == TB_NONE);
    assert(tb_slab_layout(e, b)->class_index == tb_slab_layout(e, old)->class_index);
    /* of two LIVE buffers for one cell, the one that is `prev` of the other is the older (map_repair.c) */
    b->prev = tb_buffer_number(e, old);
    TB_STEP("replace");
    tb_map_publish(e, b, file, cell); /* the newer one comes first in the chain: from here on it owns the bytes */
    TB_STEP("replaced");
    take_out(e, old, TB_BUFFER_RETAINED);
    tb_unrecorded_begin(e, old);
}

static TB_UNLOCKED uint32_t file_seen(const struct tb_buffer *b, uint64_t *cell)
{
    *cell = b->cell;
    return b->file;
}

/*
 * The caller may hold a chunk already, so the lock is only tried. Buffer and file are read
 * without a lock and checked again under it.
 */
bool tb_map_drop_clean(tb_engine *e, struct tb_buffer *b)
{
    uint64_t cell;
    uint32_t file = file_seen(b, &cell);
    if (file == TB_NONE)
        return false;
    uint32_t stripe = tb_chunk_of(e, file, cell * tb_buffer_size(e, b)).stripe;
    if (!tb_chunk_try_lock(e, stripe))
        return false;
    bool drop = tb_buffer_is_at(b, file, cell) && tb_buffer_is_clean(b);
    if (drop)
        tb_map_drop(e, b);
    tb_chunk_unlock(e, (int)stripe);
    return drop;
}
