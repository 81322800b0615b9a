/*
 * Open descriptions in the region, and this process's table from descriptors to them. A
 * description holds one bit for each client with a descriptor of it. The client that
 * clears the last bit closes the description; for a killed client, repair clears the bits.
 */
#include "layer/descriptions.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/single_threaded.h>

#include "base/kill_point.h"
#include "buffer/of_file.h"
#include "file/file.h"
#include "file/state.h"
#include "flush/queue.h"
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
 * No other process changes the count, so a store does while there is one thread: a locked instruction waits for all stores before it,
 * and an open and close has many. A signal's handler that comes between leaves the count as it was.
 */
static void move_by(tb_engine *e, uint32_t by)
{
    _Atomic uint32_t *moving = &e->region.clients[e->slot].n_moving;
    assert(e->slot < e->region.n_clients);
    if (__libc_single_threaded)
        atomic_store_explicit(moving, atomic_load_explicit(moving, memory_order_relaxed) + by, memory_order_release);
    else
        *moving += by;
}

/*
 * While a thread has a description in its hand, in no list and without a magic, its client's
 * record says so. If killed there, tb_opens_mend finds the description: it tells one that is
 * lost from one that a living client is about to publish or to give back.
 */
static void begin_moving(tb_engine *e)
{
    move_by(e, 1);
}

static void end_moving(tb_engine *e)
{
    move_by(e, (uint32_t)-1);
}

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

static void push(tb_engine *e, uint32_t open)
{
    uint64_t head = e->header->opens.free;
    assert(!e->region.opens[open].magic);
    for (uint32_t k = 0; k < e->region.n_holders; k++)
        atomic_store_explicit(&holders_of(e, open)[k], 0, memory_order_relaxed);
    do
        atomic_store_explicit(&e->region.opens[open].next_free, (uint32_t)head, memory_order_relaxed);
    while (!atomic_compare_exchange_weak(&e->header->opens.free, &head, head_of(head, open)));
}

/*
 * The creator's holder bit is set before the description is published, so repair finds it
 * if the creator is killed later.  It is set before the new life begins, too: a client that
 * sees that life without an ender sees its holder.
 */
static void publish(tb_engine *e, uint32_t open, uint32_t file, int flags)
{
    struct tb_open *o = &e->region.opens[open];
    assert(!o->magic && (file == TB_NONE || file < e->region.n_file_buckets));
    atomic_store_explicit(&o->file, file, memory_order_relaxed);
    atomic_store_explicit(&o->offset, 0, memory_order_relaxed);
    atomic_store_explicit(&o->flags, flags, memory_order_relaxed);
    atomic_store_explicit(&o->in_kernel, false, memory_order_relaxed);
    atomic_store_explicit(&o->shared, false, memory_order_relaxed);
    atomic_store_explicit(&o->appending, 0, memory_order_relaxed);
    atomic_store_explicit(&holders_of(e, open)[e->slot / 64], 1ull << (e->slot % 64),
                          memory_order_relaxed); /* the stack has none with a bit */
    atomic_store_explicit(&o->ended_by, (o->ended_by | TB_OPEN_ENDER) + 1, memory_order_release);
    atomic_store_explicit(&o->magic, TB_OPEN_MAGIC, memory_order_release);
}

uint32_t tb_open_new(tb_engine *e, uint32_t file, int flags)
{
    begin_moving(e);
    uint32_t open = pop(e);
    TB_STEP("description taken");
    if (open != TB_NONE)
        publish(e, open, file, flags);
    end_moving(e);
    return open;
}

/* No other client can reach the description. Release: a client that sees no magic sees that it is being moved, too. */
void tb_open_free(tb_engine *e, struct tb_open *o)
{
    assert(o->magic == TB_OPEN_MAGIC);
    begin_moving(e);
    atomic_store_explicit(&o->magic, 0, memory_order_release);
    TB_STEP("description given");
    push(e, (uint32_t)(o - e->region.opens));
    end_moving(e);
}

/*
 * The caller cleared the last holder bit. If killed after the first store, repair frees the
 * description and puts the file no second time; if killed right after it, the file counts
 * as open until the instance ends.
 */
void tb_open_end(tb_engine *e, struct tb_open *o)
{
    uint32_t file = o->file;
    assert(tb_open_ender(o->ended_by));
    atomic_store_explicit(&o->file, TB_NONE, memory_order_relaxed);
    if (file != TB_NONE && tb_file_put(e, file))
        tb_file_forget(e, file);
    TB_STEP("description ended");
    tb_open_free(e, o);
}

/* n_open may count killed openers too, never fewer than there are. */
bool tb_open_is_whole(const tb_engine *e, const struct tb_open *o)
{
    const struct tb_file *f = &e->region.files[o->file];
    uint32_t open = (uint32_t)(o - e->region.opens);
    return tb_open_is_valid(e, o) && f->magic == TB_FILE_MAGIC && f->n_open && holders_of(e, open)[e->slot / 64] & 1ull << (e->slot % 64);
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
    assert((unsigned)stripe <= TB_STRIPES);
    if (stripe != TB_OFFSET_IS_OWN)
        tb_lock_drop(&e->region.locks->offset[stripe].lock);
}

/*
 * The first descriptor of a description, and the last, need no locked instruction while there is one thread: a signal's handler has no other
 * by which it could come between.
 */
static bool is_only(const tb_engine *e, uint32_t open, uint32_t refs)
{
    return __libc_single_threaded && e->local_refs[open] == refs;
}

static void add_ref(tb_engine *e, uint32_t open)
{
    if (is_only(e, open, 0))
        atomic_store_explicit(&e->local_refs[open], 1, memory_order_release);
    else
        e->local_refs[open]++;
}

/* True: it was the last. */
static bool take_ref(tb_engine *e, uint32_t open)
{
    if (!is_only(e, open, 1))
        return atomic_fetch_sub(&e->local_refs[open], 1) == 1;
    atomic_store_explicit(&e->local_refs[open], 0, memory_order_release);
    return true;
}

/* local_refs counts this process's descriptors; the shared bit says only that there is at least one. */
static void hold(tb_engine *e, uint32_t open)
{
    _Atomic uint64_t *word = &holders_of(e, open)[e->slot / 64];
    uint64_t mask = 1ull << (e->slot % 64);
    assert(open < e->region.n_opens && e->local_refs[open] < UINT16_MAX);
    add_ref(e, open);
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
    atomic_store_explicit(tb_open_slot(e, fd), open + 1, memory_order_release);
    return 0;
}

static bool is_held(const tb_engine *e, uint32_t open)
{
    const _Atomic uint64_t *holders = holders_of(e, open);
    uint64_t any = 0;
    for (uint32_t k = 0; k < e->region.n_holders; k++)
        any |= holders[k];
    return any;
}

/*
 * One client closes a description that has no holder: true if it is this one.  `seen` was read while the description had
 * a holder, or before it was seen to have none: if it was closed and used again since, the word has changed.
 */
static bool take_end(tb_engine *e, uint32_t open, uint32_t seen)
{
    return atomic_compare_exchange_strong(&e->region.opens[open].ended_by, &seen, (seen & ~TB_OPEN_ENDER) | (e->slot + 1));
}

/*
 * Clear the client's bit; true if no other client holds the description any more. If killed
 * in between, the description is without a holder and without an end: repair ends it.
 */
static bool let_go(tb_engine *e, uint32_t open, uint32_t client)
{
    _Atomic uint64_t *holders = holders_of(e, open);
    uint64_t mask = 1ull << (client % 64);
    assert(client < e->region.n_clients);
    uint32_t seen = e->region.opens[open].ended_by; /* while the bit is set */
    uint64_t before = atomic_fetch_and(&holders[client / 64], ~mask);
    TB_STEP("description let go");
    /* two clients of different words may both see no other: one of them ends the description */
    return (before & mask) && !tb_open_ender(seen) && !is_held(e, open) && take_end(e, open, seen);
}

/*
 * The same where no other process has the description, and no other thread can give it to one. The end is taken while the bit is set:
 * a client that looks for descriptions without a holder finds a holder or an ender. If killed in between, repair takes the end over.
 */
static bool let_go_alone(tb_engine *e, uint32_t open)
{
    struct tb_open *o = &e->region.opens[open];
    _Atomic uint64_t *word = &holders_of(e, open)[e->slot / 64];
    uint32_t seen = o->ended_by;
    if (!(*word & 1ull << (e->slot % 64)) || tb_open_ender(seen))
        return false;
    atomic_store_explicit(&o->ended_by, seen | (e->slot + 1), memory_order_release);
    TB_STEP("description end taken");
    atomic_store_explicit(word, 0, memory_order_release);
    return true;
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

/* Of two threads, or a thread and a signal's handler, that close one descriptor one gets the description. */
static uint32_t take_binding(const tb_engine *e, int fd)
{
    _Atomic uint32_t *slot = tb_open_slot(e, fd);
    return slot ? atomic_exchange(slot, 0) : 0;
}

/* This process's last descriptor of it: true if no other process has one. */
static bool let_go_of(tb_engine *e, uint32_t open)
{
    const struct tb_open *o = &e->region.opens[open];
    if (o->shared && closing_flushes(e, &e->region.files[o->file]))
        forget_ended_holders(e, open);
    return __libc_single_threaded && !o->shared ? let_go_alone(e, open) : let_go(e, open, e->slot);
}

struct tb_open *tb_open_unbind(tb_engine *e, int fd, bool *last)
{
    uint32_t open = take_binding(e, fd);
    *last = false;
    if (!open)
        return NULL;
    struct tb_open *o = &e->region.opens[open - 1];
    assert(o->magic == TB_OPEN_MAGIC && e->local_refs[open - 1]);
    *last = take_ref(e, open - 1) && let_go_of(e, open - 1);
    return o;
}

void tb_open_detach(tb_engine *e, int fd)
{
    uint32_t open = take_binding(e, fd);
    if (open)
        take_ref(e, open - 1);
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
    assert(slot < e->region.n_clients && slot != e->slot);
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

/*
 * Is it this client that makes a close which the dead client of `slot` has begun?  Living clients open and close this
 * description at the same time, so the word is read first, and changed only if it is still the same.
 */
static bool takes_over(tb_engine *e, uint32_t open, uint32_t slot)
{
    uint32_t seen = e->region.opens[open].ended_by, ender = tb_open_ender(seen);
    if (ender)
        return ender == slot + 1 && take_end(e, open, seen);
    if (is_held(e, open))
        return false;
    TB_MEETING("description without holder");
    return take_end(e, open, seen);
}

static void close_for_dead(tb_engine *e, struct tb_open *o)
{
    if (o->file != TB_NONE)
        queue_flush(e, o);
    tb_open_end(e, o);
}

/* For a client that ended, or ends now. Where it was the last holder, the close is made here on its behalf. */
bool tb_opens_forget_client(tb_engine *e, uint32_t slot, bool but_coherent)
{
    uint64_t mask = 1ull << (slot % 64);
    bool holds = false;
    for (uint32_t i = 0; i < e->region.n_opens; i++) {
        struct tb_open *o = &e->region.opens[i];
        if (o->magic != TB_OPEN_MAGIC)
            continue;
        bool held = holders_of(e, i)[slot / 64] & mask;
        uint32_t file = o->file; /* a late one knows none */
        if (held && but_coherent && file != TB_NONE && e->region.files[file].flags & TB_FILE_COHERENT)
            holds = true;
        else if ((held && let_go(e, i, slot)) || takes_over(e, i, slot))
            close_for_dead(e, o);
    }
    e->region.clients[slot].late = 0;
    return holds;
}

#define MEND_LOOKS 100

/* Has no living client a description in its hand? While registry.lock is held, no client comes or goes. */
static bool is_quiet(const tb_engine *e)
{
    for (uint32_t i = 0; i < e->region.n_clients; i++)
        if (e->region.clients[i].n_moving && tb_client_is_alive(&e->region.clients[i]))
            return false;
    return true;
}

/*
 * Which descriptions are free or in use? Read without a lock. It is true of one moment if
 * the head of the list, which changes with every push and pop, is the same after it, and
 * nothing was in a living client's hand before it and after it.
 */
static bool list_known(const tb_engine *e, bool *known)
{
    uint64_t head = e->header->opens.free;
    bool quiet = is_quiet(e);
    for (uint32_t i = 0; i < e->region.n_opens; i++)
        known[i] = e->region.opens[i].magic != 0;
    for (uint32_t i = (uint32_t)head; i < e->region.n_opens && !known[i]; i = e->region.opens[i].next_free)
        known[i] = true;
    return quiet && is_quiet(e) && e->header->opens.free == head;
}

void tb_opens_mend(tb_engine *e)
{
    bool *known = calloc(e->region.n_opens, sizeof(*known)), all = false;
    for (int look = 0; known && !all && look < MEND_LOOKS; look++) {
        all = list_known(e, known);
        if (!all)
            sched_yield();
    }
    for (uint32_t i = 0; all && i < e->region.n_opens; i++)
        if (!known[i])
            push(e, i);
    free(known);
}
