/*
 * Open descriptions in the region, and this process's table from descriptors to them. A
 * description holds one bit for each client with a descriptor of it. The client that
 * clears the last bit closes the description; for a killed client, repair clears the bits.
 */
#include "layer/descriptions.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/single_threaded.h>

#include "buffer/of_file.h"
#include "file/file.h"
#include "file/state.h"
#include "flush/flush.h"
#include "region/clients.h"

/*
 * The free list is a stack without a lock. The count next to the head changes with every
 * push and pop, so a compare-exchange fails if the same head was taken and given back in
 * between.
 */
static uint64_t head_of(uint64_t before, uint32_t open)
{
    return ((before >> 32) + 1) << 32 | open;
}

/*
 * If killed after the exchange and before the magic is set, the description is in no list
 * and lost until the instance ends.
 */
static uint32_t pop(tb_engine *e)
{
    uint64_t head = e->header->opens.free;
    uint32_t open, next;
    do {
        open = (uint32_t)head;
        if (open == TB_NONE)
            return TB_NONE;
        next = atomic_load_explicit(&e->region.opens[open].next_free, memory_order_relaxed);
    } while (!atomic_compare_exchange_weak(&e->header->opens.free, &head, head_of(head, next)));
    return open;
}

static _Atomic uint64_t *holders_of(const tb_engine *e, uint32_t open)
{
    return e->region.holders + (size_t)open * e->region.n_holders;
}

/*
 * The creator's holder bit is set before the description is published, so repair finds it
 * wherever the creator is killed.
 */
uint32_t tb_open_new(tb_engine *e, uint32_t file, int flags)
{
    uint32_t open = pop(e);
    if (open == TB_NONE)
        return TB_NONE;
    struct tb_open *o = &e->region.opens[open];
    o->file = file;
    atomic_store_explicit(&o->offset, 0, memory_order_relaxed);
    atomic_store_explicit(&o->flags, flags, memory_order_relaxed);
    atomic_store_explicit(&o->in_kernel, false, memory_order_relaxed);
    atomic_store_explicit(&o->shared, false, memory_order_relaxed);
    atomic_store_explicit(&o->ended, false, memory_order_relaxed);
    atomic_store_explicit(&o->appending, 0, memory_order_relaxed);
    _Atomic uint64_t *holders = holders_of(e, open);
    for (uint32_t k = 0; k < e->region.n_holders; k++)
        atomic_store_explicit(&holders[k], k == e->slot / 64 ? 1ull << (e->slot % 64) : 0, memory_order_relaxed);
    atomic_store_explicit(&o->magic, TB_OPEN_MAGIC, memory_order_release);
    return open;
}

/* The caller cleared the last holder bit, so no other client can reach the description. */
void tb_open_free(tb_engine *e, struct tb_open *o)
{
    uint64_t head = e->header->opens.free;
    uint32_t open = (uint32_t)(o - e->region.opens);
    atomic_store_explicit(&o->magic, 0, memory_order_relaxed);
    do
        atomic_store_explicit(&o->next_free, (uint32_t)head, memory_order_relaxed);
    while (!atomic_compare_exchange_weak(&e->header->opens.free, &head, head_of(head, open)));
}

/*
 * A process with one thread, and a description that no child shares, need no lock. Stripes
 * are shared by many descriptions.
 */
int tb_offset_lock(tb_engine *e, const struct tb_open *o)
{
    uint32_t stripe = (uint32_t)(o - e->region.opens) % TB_STRIPES;
    if (__libc_single_threaded && !o->shared)
        return TB_OFFSET_IS_OWN;
    int rc = tb_lock_take(&e->region.locks->offset[stripe].lock);
    return rc < 0 ? rc : (int)stripe;
}

void tb_offset_unlock(tb_engine *e, int stripe)
{
    if (stripe != TB_OFFSET_IS_OWN)
        tb_lock_drop(&e->region.locks->offset[stripe].lock);
}

/* Descriptors live in pieces that are allocated when first needed and never freed, so a look-up takes no lock. */
static _Atomic uint32_t *slot_of(const tb_engine *e, int fd)
{
    if (fd < 0 || (uint32_t)fd >= TB_FD_PIECES * TB_FD_PIECE)
        return NULL;
    _Atomic uint32_t *piece = e->fds[(uint32_t)fd / TB_FD_PIECE];
    return piece ? &piece[(uint32_t)fd % TB_FD_PIECE] : NULL;
}

/* local_refs counts this process's descriptors; the shared bit says only that there is at least one. */
static void hold(tb_engine *e, uint32_t open)
{
    _Atomic uint64_t *word = &holders_of(e, open)[e->slot / 64];
    uint64_t mask = 1ull << (e->slot % 64);
    e->local_refs[open]++;
    if (!(*word & mask))
        *word |= mask;
}

int tb_open_bind(tb_engine *e, int fd, uint32_t open)
{
    if (fd < 0 || (uint32_t)fd >= TB_FD_PIECES * TB_FD_PIECE)
        return -EMFILE;
    _Atomic(_Atomic uint32_t *) *piece = &e->fds[(uint32_t)fd / TB_FD_PIECE];
    if (!*piece) {
        _Atomic uint32_t *fresh = calloc(TB_FD_PIECE, sizeof(*fresh)), *none = NULL;
        if (!fresh)
            return -ENOMEM;
        if (!atomic_compare_exchange_strong(piece, &none, fresh))
            free(fresh);
    }
    hold(e, open);
    *slot_of(e, fd) = open + 1;
    return 0;
}

struct tb_open *tb_open_of(const tb_engine *e, int fd)
{
    _Atomic uint32_t *slot = slot_of(e, fd);
    uint32_t open = slot ? *slot : 0;
    if (!open)
        return NULL;
    struct tb_open *o = &e->region.opens[open - 1];
    assert(o->magic == TB_OPEN_MAGIC);
    return o;
}

/* Clear the client's bit; true if no other client holds the description any more. */
static bool let_go(tb_engine *e, uint32_t open, uint32_t client)
{
    _Atomic uint64_t *holders = holders_of(e, open);
    uint64_t mask = 1ull << (client % 64);
    uint64_t before = atomic_fetch_and(&holders[client / 64], ~mask);
    uint64_t others = before & ~mask;
    for (uint32_t k = 0; k < e->region.n_holders; k++)
        others |= k == client / 64 ? 0 : holders[k];
    /* two clients of different words may both see none: one of them ends the description */
    return (before & mask) && !others && !atomic_exchange(&e->region.opens[open].ended, true);
}

static bool closing_flushes(const tb_engine *e, const struct tb_file *f)
{
    return tb_file_may_flush(f) && (tb_config_of(e)->flush.policy == TB_FLUSH_ON_CLOSE || tb_file_owes_flush(f));
}

/*
 * A process that has ended holds nothing any more, as in the kernel, also where no repair has been there yet:
 * else a close would leave its flush to that repair.  While the lock is held no slot gets another client; a
 * process that has it for long repairs, and does the same.
 */
static void forget_ended_holders(tb_engine *e, uint32_t open)
{
    _Atomic uint64_t *holders = holders_of(e, open);
    if (tb_lock_try(&e->header->registry.lock) < 0)
        return;
    for (uint32_t slot = 0; slot < e->region.n_clients; slot++) {
        const struct tb_client *c = &e->region.clients[slot];
        uint64_t mask = 1ull << (slot % 64);
        if (slot != e->slot && holders[slot / 64] & mask && !tb_client_is_alive(c) && !tb_client_runs(c))
            holders[slot / 64] &= ~mask;
    }
    tb_lock_drop(&e->header->registry.lock);
}

struct tb_open *tb_open_unbind(tb_engine *e, int fd, bool *last)
{
    _Atomic uint32_t *slot = slot_of(e, fd);
    uint32_t open = slot ? atomic_exchange(slot, 0) : 0;
    *last = false;
    if (!open)
        return NULL;
    struct tb_open *o = &e->region.opens[open - 1];
    if (--e->local_refs[open - 1] == 0) {
        if (o->shared && closing_flushes(e, &e->region.files[o->file]))
            forget_ended_holders(e, open - 1);
        *last = let_go(e, open - 1, e->slot);
    }
    return o;
}

void tb_opens_make_coherent(tb_engine *e)
{
    for (uint32_t p = 0; p < TB_FD_PIECES; p++)
        for (uint32_t i = 0; e->fds[p] && i < TB_FD_PIECE; i++)
            if (e->fds[p][i])
                tb_engine_make_coherent(e, (int)(p * TB_FD_PIECE + i));
}

/* For a forked child that does not use the engine: its parent still holds the descriptions. */
void tb_opens_abandon(tb_engine *e)
{
    for (uint32_t p = 0; p < TB_FD_PIECES; p++)
        for (uint32_t i = 0; e->fds[p] && i < TB_FD_PIECE; i++)
            e->fds[p][i] = 0;
}

/*
 * The parent sets the child's bits before the fork, so that a description is never without
 * a holder. From here on the offset is shared, and takes its lock.
 */
void tb_opens_hold(tb_engine *e, uint32_t slot)
{
    for (uint32_t i = 0; i < e->region.n_opens; i++)
        if (e->local_refs[i]) {
            e->region.opens[i].shared = true;
            holders_of(e, i)[slot / 64] |= 1ull << (slot % 64);
        }
}

/* When a process ends, the kernel closes its files: the flush that the close owes is queued here. */
static void queue_flush(tb_engine *e, const struct tb_open *o)
{
    struct tb_file *f = &e->region.files[o->file];
    if (closing_flushes(e, f))
        tb_flush_queue(e, o->file);
}

/* For a client that ended, or ends now. Where it was the last holder, the close is made here on its behalf. */
bool tb_opens_forget_client(tb_engine *e, uint32_t slot, bool but_coherent)
{
    uint64_t mask = 1ull << (slot % 64);
    bool holds = false;
    for (uint32_t i = 0; i < e->region.n_opens; i++) {
        struct tb_open *o = &e->region.opens[i];
        if (o->magic != TB_OPEN_MAGIC || !(holders_of(e, i)[slot / 64] & mask))
            continue;
        if (but_coherent && e->region.files[o->file].flags & TB_FILE_COHERENT)
            holds = true;
        else if (let_go(e, i, slot)) {
            queue_flush(e, o);
            if (tb_file_put(e, o->file))
                tb_file_forget(e, o->file);
            tb_open_free(e, o);
        }
    }
    return holds;
}
