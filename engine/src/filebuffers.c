/*
 * A file's buffers as a whole: who may flush or cut them, which there are, and
 * cutting them at a new length.
 */
#include <errno.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "file.h"
#include "filemap.h"
#include "interval.h"

#define CLAIM_LOOK_NS 100000 /* how often a waiter looks; claims are held for milliseconds */

static bool claimer_is_dead(tb_engine *e, uint32_t claim)
{
    return claim - 1 < TB_CLIENTS && !tb_client_is_alive(&e->region.clients[claim - 1]);
}

bool tb_file_try_claim(tb_engine *e, uint32_t file)
{
    struct tb_file *f = &e->region.files[file];
    uint32_t holder = 0;
    if (atomic_compare_exchange_strong(&f->flusher, &holder, e->slot + 1))
        return true;
    return claimer_is_dead(e, holder) && atomic_compare_exchange_strong(&f->flusher, &holder, e->slot + 1);
}

void tb_file_claim(tb_engine *e, uint32_t file)
{
    while (!tb_file_try_claim(e, file))
        nanosleep(&(struct timespec){0, CLAIM_LOOK_NS}, NULL);
}

void tb_file_unclaim(tb_engine *e, uint32_t file)
{
    assert(e->region.files[file].flusher == e->slot + 1);
    e->region.files[file].flusher = 0;
    tb_file_release(e, file); /* nobody may be left to do it */
}

static int by_start(const void *a, const void *b)
{
    const struct tb_buffer_ref *x = a, *y = b;
    return x->start < y->start ? -1 : x->start > y->start;
}

struct tb_buffer_ref *tb_file_buffers(tb_engine *e, uint32_t file, bool dirty_only, uint32_t *n)
{
    const struct tb_file *f = &e->region.files[file];
    *n = 0;
    int stripe = tb_file_lock(e, file);
    struct tb_buffer_ref *refs = f->n_buffers ? malloc(f->n_buffers * sizeof(*refs)) : NULL;
    for (uint32_t i = refs ? f->first : TB_NONE; i != TB_NONE; i = e->region.buffers[i].file_next) {
        struct tb_buffer *b = &e->region.buffers[i];
        if (!dirty_only || tb_buffer_is_dirty(b))
            refs[(*n)++] = (struct tb_buffer_ref){i, b->cell, tb_buffer_start(e, b)};
    }
    tb_file_unlock(e, stripe);
    if (*n)
        qsort(refs, *n, sizeof(*refs), by_start);
    return refs;
}

static void cut_one(tb_engine *e, uint32_t file, const struct tb_buffer_ref *ref, uint64_t length)
{
    struct tb_buffer *b = &e->region.buffers[ref->buffer];
    int stripe = tb_chunk_lock(e, file, ref->start);
    if (stripe < 0)
        return;
    if (tb_buffer_is_at(b, file, ref->cell)) {
        bool was_dirty = tb_buffer_is_dirty(b);
        if (ref->start >= length)
            tb_map_drop(e, b);
        else {
            tb_interval_cut(e, b, (uint32_t)(length - ref->start));
            tb_map_count_dirty(e, b, was_dirty);
        }
    }
    tb_chunk_unlock(e, stripe);
}

void tb_file_cut(tb_engine *e, uint32_t file, uint64_t length)
{
    uint32_t n;
    struct tb_buffer_ref *refs = tb_file_buffers(e, file, false, &n);
    for (uint32_t i = 0; i < n; i++)
        if (refs[i].start + tb_buffer_size(e, &e->region.buffers[refs[i].buffer]) > length)
            cut_one(e, file, &refs[i], length);
    free(refs);
}

void tb_file_drop_clean(tb_engine *e, uint32_t file)
{
    uint32_t n;
    struct tb_buffer_ref *refs = tb_file_buffers(e, file, false, &n);
    for (uint32_t i = 0; i < n; i++)
        tb_map_drop_clean(e, &e->region.buffers[refs[i].buffer]);
    free(refs);
}
