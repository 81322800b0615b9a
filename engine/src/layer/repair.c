/*
 * Repair after a killed client: its claims, its half-done changes, its buffers and
 * descriptions, its slot. What counts is in the buffers' records. Everything that can be
 * counted or linked is rebuilt from them, so it does not matter where the client was
 * killed. Repair itself may be killed: the next one begins from the start.
 */
#include "layer/repair.h"

#include <stdlib.h>

#include "base/kill_point.h"
#include "buffer/interval.h"
#include "buffer/map.h"
#include "buffer/slab.h"
#include "file/name_tree.h"
#include "file/state.h"
#include "flush/queue.h"
#include "layer/descriptions.h"
#include "layer/end.h"
#include "namespace/intent.h"
#include "region/clients.h"
#include "region/counters.h"
#include "shared/requests.h"

/* What the buffers' records say; it replaces all counts. */
struct census {
    uint8_t *retained;  /* a bit for each buffer: it is the predecessor of another */
    uint8_t *fragments; /* a bit for each fragment: a buffer uses it */
    uint32_t n_clean[TB_MAX_TIERS * TB_MAX_SLABS], n_journaled;
    uint64_t dirty[TB_MAX_TIERS];
};

static void mark(uint8_t *bits, uint32_t i)
{
    bits[i / 8] |= (uint8_t)(1u << i % 8);
}

static bool is_marked(const uint8_t *bits, uint32_t i)
{
    return bits[i / 8] >> i % 8 & 1;
}

/*
 * Lists come first. A killed client may have taken a buffer out of the hash and left it in
 * its list.
 * Locked by the file.
 */
static void mend_list(tb_engine *e, struct tb_file *f)
{
    for (uint32_t *link = &f->first; *link != TB_NONE;) {
        struct tb_buffer *b = &e->region.buffers[*link];
        if (b->state == TB_BUFFER_LIVE)
            link = &b->file_next;
        else
            *link = b->file_next;
    }
    tb_file_recount(e, f);
    for (uint32_t i = f->first; i != TB_NONE; i = e->region.buffers[i].file_next)
        tb_file_cover(f, tb_buffer_start(e, &e->region.buffers[i]), &e->region.buffers[i]);
}

static void mend_lists(tb_engine *e)
{
    for (uint32_t i = 0; i < e->region.n_file_buckets; i++) {
        struct tb_file *f = &e->region.files[i];
        if (f->magic != TB_FILE_MAGIC)
            continue;
        int stripe = tb_file_lock(e, i);
        if (f->magic == TB_FILE_MAGIC) /* it may have been freed before it was locked */
            mend_list(e, f);
        tb_file_unlock(e, stripe);
        tb_file_release(e, i);
    }
}

/* Which buffers are predecessors: a retained buffer that none names was left by a client that was killed while it replaced it. */
static void mark_retained(tb_engine *e, struct census *c)
{
    for (uint32_t i = 0; i < e->header->layout.n_buffers; i++) {
        const struct tb_buffer *b = &e->region.buffers[i];
        if ((b->state == TB_BUFFER_LIVE || b->state == TB_BUFFER_RETAINED) && b->prev != TB_NONE)
            mark(c->retained, b->prev);
    }
}

static bool is_dead(const tb_engine *e, uint32_t slot)
{
    const struct tb_client *c = &e->region.clients[slot];
    return !c->pid || !tb_client_is_alive(c);
}

/* A lost buffer: taken and never published, taken out and not given back, or retained without a successor. */
static bool is_lost(tb_engine *e, const struct census *c, const struct tb_buffer *b, uint32_t slot)
{
    return (b->state == TB_BUFFER_ALLOCATED && (b->client == slot || is_dead(e, b->client))) ||
           (b->state == TB_BUFFER_RETAINED && !is_marked(c->retained, tb_buffer_number(e, b)));
}

static void give_lost(tb_engine *e, const struct census *c, uint32_t slot)
{
    for (uint32_t i = 0; i < e->header->layout.n_buffers; i++) {
        struct tb_buffer *b = &e->region.buffers[i];
        if (!is_lost(e, c, b, slot))
            continue;
        b->fragment = b->prev = TB_NONE; /* the census counts its fragment as free */
        b->valid_lo = b->valid_hi = b->dirty_lo = b->dirty_hi = 0;
        tb_slab_give(e, b);
    }
}

/*
 * Locked by the fragments: none goes from a list to a buffer or back. The fragment of a buffer that a living client has
 * just taken counts as used: it will publish it or give it back.
 */
static void take_census(tb_engine *e, struct census *c)
{
    for (uint32_t i = 0; i < e->header->layout.n_buffers; i++) {
        const struct tb_buffer *b = &e->region.buffers[i];
        uint32_t tier = tb_slab_layout(e, b)->tier;
        if (b->state == TB_BUFFER_FREE)
            continue;
        assert(b->slab < e->header->layout.n_slabs && (b->fragment == TB_NONE || b->fragment < e->header->layout.n_fragments));
        c->dirty[tier] += tb_interval_dirty_bytes(e, b);
        c->n_clean[b->slab] += b->state == TB_BUFFER_LIVE && !tb_buffer_is_dirty(b);
        c->n_journaled += b->state != TB_BUFFER_ALLOCATED && b->flags & TB_BUFFER_JOURNALED;
        if (b->fragment != TB_NONE)
            mark(c->fragments, b->fragment);
    }
}

static void believe_census(tb_engine *e, const struct census *c)
{
    const struct tb_layout *l = &e->header->layout;
    for (uint32_t s = 0; s < l->n_slabs; s++)
        e->region.slabs[s].n_clean = c->n_clean[s];
    for (uint32_t t = 0; t < e->header->config.n_tiers; t++)
        tb_tier_set_dirty(e->header, t, c->dirty[t]);
    e->header->journal.n_journaled = c->n_journaled;
    uint32_t first = TB_NONE;
    for (uint32_t i = l->n_fragments; i-- > 0;)
        if (!is_marked(c->fragments, i))
            first = tb_fragment_link(e, i, first);
    e->header->fragments.free = first;
}

/*
 * Locked by all chunk stripes: no buffer changes while counts, lists and free lists are
 * rebuilt from the records. No deadlock: stripes are taken in ascending order, and every
 * other thread holds one of them at most.
 */
static void repair_buffers(tb_engine *e, uint32_t slot)
{
    const struct tb_layout *l = &e->header->layout;
    struct census c = {.retained = calloc(l->n_buffers / 8 + 1, 1), .fragments = calloc(l->n_fragments / 8 + 1, 1)};
    if (c.retained && c.fragments) {
        tb_chunk_lock_all(e);
        tb_slabs_mend(e);
        mend_lists(e);
        mark_retained(e, &c);
        give_lost(e, &c, slot);
        tb_lock_take(&e->header->fragments.lock);
        take_census(e, &c);
        believe_census(e, &c);
        tb_lock_drop(&e->header->fragments.lock);
        tb_chunk_unlock_all(e);
    }
    free(c.retained);
    free(c.fragments);
}

/* Claims are released before the slot is given to a new client, which would otherwise seem to hold them. */
static void release_claims(tb_engine *e, uint32_t slot)
{
    for (uint32_t i = 0; i < e->region.n_file_buckets; i++) {
        struct tb_file *f = &e->region.files[i];
        uint32_t holder = slot + 1;
        if (f->flusher != holder)
            continue;
        tb_file_end_naming(f);
        if (atomic_compare_exchange_strong(&f->flusher, &holder, 0))
            tb_file_release(e, i);
    }
    uint32_t holder = slot + 1;
    atomic_compare_exchange_strong(&e->header->names.renamer, &holder, 0);
}

/* What a client may have left half done. It takes all locks of chunks, and looks at all records. */
static void finish_calls(tb_engine *e, uint32_t slot)
{
    tb_intents_finish(e, slot);
    release_claims(e, slot);
    tb_requests_forget_client(e, slot);
    tb_end_repair(e);
    tb_chunks_forget_client(e, slot);
    repair_buffers(e, slot);
}

/*
 * Locked by registry.lock. After exec the slot stays in use while the new program holds
 * inherited descriptors, all of coherent files. The slot is freed last: if killed before,
 * the next repair goes through it again.
 */
static void repair_client(tb_engine *e, uint32_t slot)
{
    struct tb_client *c = &e->region.clients[slot];
    assert(e->slot < e->region.n_clients); /* what is repaired is held in this client's name */
    bool executes = tb_client_runs(c), in_no_call = tb_client_was_in_no_call(c);
    if (!in_no_call)
        finish_calls(e, slot);
    e->header->changes.lane[slot % TB_CHANGE_LANES].ended += atomic_exchange(&c->n_changes, 0);
    c->n_moving = 0; /* before its number can be another client's */
    bool holds = tb_opens_forget_client(e, slot, executes);
    if (!in_no_call)
        tb_opens_mend(e);
    tb_names_forget_client(e, slot);
    if (holds)
        c->image = 0;
    else
        c->pid = 0;
    assert(!c->pid || executes);
    if (!tb_daemon_is_alive(e->header))
        tb_flush_requeue(e);
}

int tb_repair(tb_engine *e)
{
    int n = 0;
    for (uint32_t i = 0; i < e->region.n_clients; i++) {
        struct tb_client *c = &e->region.clients[i];
        int pid = c->pid;
        if (!pid || tb_client_is_alive(c))
            continue;
        TB_MEETING("slot looks dead");
        tb_lock_take(&e->header->registry.lock);
        /* another process may have repaired it first, and a fork of the same parent have it now: it is looked at again */
        bool mine = c->pid == pid && !tb_client_is_alive(c);
        if (mine)
            repair_client(e, i);
        tb_lock_drop(&e->header->registry.lock);
        n += mine;
    }
    return n;
}
