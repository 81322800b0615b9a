#include "filemap.h"

#include <errno.h>

#include "file.h"
#include "interval.h"
#include "move.h"
#include "slab.h"

static uint64_t mix(uint64_t a, uint64_t b)
{
    uint64_t h = (a + 0x9e3779b97f4a7c15ull) * 0xbf58476d1ce4e5b9ull ^ b * 0x94d049bb133111ebull;
    h ^= h >> 29;
    h *= 0xd6e8feb86659fd93ull;
    return h ^ h >> 32;
}

struct tb_chunk tb_chunk_of(const tb_engine *e, uint32_t file, uint64_t offset)
{
    uint64_t h = mix(file, tb_size_divide(offset, e->header->chunk));
    return (struct tb_chunk){(uint32_t)h % TB_STRIPES, (uint32_t)(h >> 32)};
}

/* Cells of one chunk and class are neighbours: they get buckets of their own as far as there are any. */
uint32_t *tb_map_bucket(const tb_engine *e, struct tb_chunk chunk, uint32_t class_index, uint64_t cell)
{
    uint32_t per_stripe = e->header->layout.n_buckets / TB_STRIPES; /* a power of two */
    uint32_t at = (chunk.salt + class_index * 0x9e3779b9u + (uint32_t)cell) & (per_stripe - 1);
    return &e->region.buckets[chunk.stripe * per_stripe + at];
}

static struct tb_chunk chunk_of_buffer(const tb_engine *e, const struct tb_buffer *b)
{
    return tb_chunk_of(e, b->file, tb_buffer_start(e, b));
}

static uint32_t *bucket_of_buffer(const tb_engine *e, const struct tb_buffer *b)
{
    return tb_map_bucket(e, chunk_of_buffer(e, b), tb_slab_layout(e, b)->class_index, b->cell);
}

/* A holder that was killed left the count odd: it stays so. */
static void begin_change(struct tb_chunk_lock *chunk)
{
    uint32_t sequence = atomic_load_explicit(&chunk->sequence, memory_order_relaxed);
    atomic_store_explicit(&chunk->sequence, sequence | 1, memory_order_relaxed);
    atomic_thread_fence(memory_order_release);
}

int tb_chunk_lock(tb_engine *e, uint32_t file, uint64_t offset)
{
    uint32_t stripe = tb_chunk_of(e, file, offset).stripe;
    struct tb_chunk_lock *chunk = &e->region.locks->chunk[stripe];
    int rc = tb_lock_take(&chunk->lock);
    if (rc < 0)
        return rc;
    begin_change(chunk);
    if (rc == TB_LOCK_ORPHANED) /* every store left the chains usable, but a move may be half done */
        tb_move_repair(e, stripe);
    return (int)stripe;
}

void tb_chunk_unlock(tb_engine *e, int stripe)
{
    struct tb_chunk_lock *chunk = &e->region.locks->chunk[stripe];
    uint32_t odd = atomic_load_explicit(&chunk->sequence, memory_order_relaxed);
    atomic_store_explicit(&chunk->sequence, odd + 1, memory_order_release);
    tb_lock_drop(&chunk->lock);
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

/* Where the next buffer of class `c` behind `offset` starts, or `limit`. */
static uint64_t next_of_class(tb_engine *e, uint32_t file, struct tb_chunk chunk, uint32_t c, uint64_t offset, uint64_t limit)
{
    uint64_t size = e->header->layout.class_size[c];
    for (uint64_t cell = offset / size + 1; cell * size < limit; cell++)
        if (find(e, file, chunk, c, cell))
            return cell * size;
    return limit;
}

struct tb_buffer *tb_map_owner(tb_engine *e, uint32_t file, uint64_t offset, uint64_t limit, uint64_t *end)
{
    const struct tb_layout *l = &e->header->layout;
    struct tb_file *f = &e->region.files[file];
    struct tb_chunk chunk = tb_chunk_of(e, file, offset);
    uint64_t until = limit;
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

static void hash_insert(tb_engine *e, struct tb_buffer *b)
{
    uint32_t *head = bucket_of_buffer(e, b);
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

static void list_insert(tb_engine *e, struct tb_buffer *b)
{
    struct tb_file *f = &e->region.files[b->file];
    b->file_prev = TB_NONE;
    b->file_next = f->first;
    if (f->first != TB_NONE)
        e->region.buffers[f->first].file_prev = tb_buffer_number(e, b);
    f->first = tb_buffer_number(e, b);
    f->n_buffers++;
}

static void list_remove(tb_engine *e, struct tb_buffer *b)
{
    struct tb_file *f = &e->region.files[b->file];
    if (b->file_prev == TB_NONE)
        f->first = b->file_next;
    else
        e->region.buffers[b->file_prev].file_next = b->file_next;
    if (b->file_next != TB_NONE)
        e->region.buffers[b->file_next].file_prev = b->file_prev;
    f->n_buffers--;
}

static void count(tb_engine *e, struct tb_buffer *b, uint32_t by)
{
    struct tb_file *f = &e->region.files[b->file];
    if (tb_buffer_is_dirty(b))
        f->n_dirty += by;
    else
        e->header->slab[b->slab].n_clean += by;
}

/* Set before the buffer can be found, and never taken back while the record lives. */
static void note_class(struct tb_file *f, uint32_t class_index)
{
    if (!(f->classes >> class_index & 1))
        atomic_fetch_or(&f->classes, (uint8_t)(1u << class_index));
}

void tb_map_publish(tb_engine *e, struct tb_buffer *b, uint32_t file, uint64_t cell)
{
    assert(b->state == TB_BUFFER_ALLOCATED && tb_interval_is_valid(e, b));
    b->file = file;
    b->cell = cell;
    note_class(&e->region.files[file], tb_slab_layout(e, b)->class_index);
    count(e, b, 1);
    hash_insert(e, b);
    int stripe = tb_file_lock(e, file);
    list_insert(e, b);
    b->state = TB_BUFFER_LIVE;
    tb_file_unlock(e, stripe);
}

void tb_map_adopt(tb_engine *e, struct tb_buffer *b)
{
    const struct tb_file *f = &e->region.files[b->file];
    int stripe = tb_file_lock(e, b->file);
    uint32_t i = f->first, me = tb_buffer_number(e, b);
    while (i != TB_NONE && i != me)
        i = e->region.buffers[i].file_next;
    if (i == TB_NONE)
        list_insert(e, b);
    b->state = TB_BUFFER_LIVE;
    tb_file_unlock(e, stripe);
}

void tb_map_unlink(tb_engine *e, struct tb_buffer *b)
{
    const struct tb_file *f = &e->region.files[b->file];
    hash_remove(e, b);
    count(e, b, (uint32_t)-1);
    int stripe = tb_file_lock(e, b->file);
    list_remove(e, b);
    b->state = TB_BUFFER_ALLOCATED;
    b->client = (uint16_t)e->slot;
    bool unused = f->n_buffers == 0 && f->n_open == 0;
    tb_file_unlock(e, stripe);
    if (unused)
        tb_file_release(e, b->file);
}

/* More than one where a write came between a record and its sync. */
void tb_buffer_release_prev(tb_engine *e, struct tb_buffer *b)
{
    for (uint32_t i = b->prev, next; i != TB_NONE; i = next) {
        struct tb_buffer *old = &e->region.buffers[i];
        next = old->prev;
        b->prev = next;
        old->prev = TB_NONE;
        old->flags = 0;
        e->header->n_journaled--;
        tb_interval_empty(e, old);
        tb_slab_give(e, old);
    }
}

void tb_map_drop(tb_engine *e, struct tb_buffer *b)
{
    tb_map_unlink(e, b);
    tb_buffer_release_prev(e, b);
    tb_buffer_set_unjournaled(e, b);
    tb_interval_empty(e, b);
    tb_slab_give(e, b);
}

void tb_map_replace(tb_engine *e, struct tb_buffer *b, struct tb_buffer *old)
{
    uint32_t file = old->file;
    uint64_t cell = old->cell;
    assert(old->flags & TB_BUFFER_JOURNALED);
    tb_map_publish(e, b, file, cell); /* the newer one stands first in the chain: from here on it owns */
    b->prev = tb_buffer_number(e, old);
    tb_map_unlink(e, old);
    old->state = TB_BUFFER_RETAINED;
}

void tb_map_count_dirty(tb_engine *e, struct tb_buffer *b, bool was_dirty)
{
    bool is_dirty = tb_buffer_is_dirty(b);
    if (is_dirty == was_dirty)
        return;
    e->region.files[b->file].n_dirty += is_dirty ? 1 : (uint32_t)-1;
    e->header->slab[b->slab].n_clean += is_dirty ? (uint32_t)-1 : 1;
}

static TB_UNLOCKED uint32_t file_seen(const struct tb_buffer *b, uint64_t *cell)
{
    *cell = b->cell;
    return b->file;
}

bool tb_map_drop_clean(tb_engine *e, struct tb_buffer *b)
{
    uint64_t cell;
    uint32_t file = file_seen(b, &cell);
    if (file == TB_NONE)
        return false;
    uint32_t stripe = tb_chunk_of(e, file, cell * tb_buffer_size(e, b)).stripe;
    struct tb_chunk_lock *chunk = &e->region.locks->chunk[stripe];
    int rc = tb_lock_try(&chunk->lock);
    if (rc < 0)
        return false;
    begin_change(chunk);
    if (rc == TB_LOCK_ORPHANED)
        tb_move_repair(e, stripe);
    bool drop = tb_buffer_is_at(b, file, cell) && tb_buffer_is_clean(b);
    if (drop)
        tb_map_drop(e, b);
    tb_chunk_unlock(e, (int)stripe);
    return drop;
}
