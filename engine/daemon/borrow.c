/*
 * Borrowed buffers, as the daemon sees them (borrow.h). One table of lenders under one lock, which no thread holds while it asks another
 * node. Free buffers of a node that is lost or ending are taken by the daemon itself, so that placement sees what room there is.
 */
#include "borrow.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "buffer/heat.h"
#include "buffer/map.h"
#include "buffer/slab.h"
#include "flush/queue.h"
#include "relay.h"
#include "shared/borrow.h"
#include "tiering/move.h"

#define TRIES 100
#define JOIN_NS 1000000 /* a lender that has not joined yet is asked again */
#define JOIN_TRIES 5000
#define FRESH_NS 100000000 /* counts are as old as this, at most */

struct lender {
    _Atomic bool gone; /* it has given this node's memory back: it is lost, also if it lives */
    bool leaves;       /* it is about to end, */
    bool leaves_known; /* and this: */
    bool is_lost;      /* as borrow_look saw it last */
    struct borrowed here;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct tb_net *net_now; /* of this process's instance, which is one */
static struct lender *lenders; /* as long as a thread of the daemon may ask */
static uint64_t looked_ns;
static _Atomic bool was_refused; /* a buffer that is lost was given to a writer: it is free, and comes again */
static uint32_t *kept, n_kept;   /* free buffers of nodes that have no use for them now */

/* In the log, and for `tierctl status`. Of a buffer that is not published nothing is lost: the write goes on elsewhere. */
static TB_UNLOCKED void say(tb_engine *e, const struct tb_net *net, uint32_t buffer, uint32_t lo, uint32_t n, unsigned node, int64_t why)
{
    const struct tb_buffer *b = &e->region.buffers[buffer];
    uint32_t file = b->file;
    if (b->state != TB_BUFFER_LIVE || file >= e->region.n_file_buckets)
        return;
    const struct tb_file *f = &e->region.files[file];
    uint64_t start = tb_buffer_start(e, b) + lo;
    relay_say_lost(e, net, &(struct tb_wire){.file = {f->inode, f->birth_ns}, .lo = start, .hi = start + n}, node, why);
}

/* The request's length, or the answer's, tells that all of it was done. -ESTALE: to be done once more, with a later number. */
static int64_t call(tb_engine *e, struct tb_net *net, const struct tb_wire *asked, void *request, size_t n, void *answer, size_t room)
{
    struct tb_wire *w = request;
    struct tb_borrowed at = tb_borrowed_at(e, (uint32_t)asked->lo);
    w->lo = at.place;
    w->hi = at.place + asked->hi;
    int64_t got = lenders[at.node].gone ? -ENODATA : -EAGAIN;
    for (int i = 0; got == -EAGAIN && i < JOIN_TRIES; i++) {
        if (i)
            nanosleep(&(struct timespec){0, JOIN_NS}, NULL);
        got = tb_net_call(net, at.node, request, n, answer, room);
    }
    if (got >= 0 || got == -ESTALE)
        return got;
    lenders[at.node].gone |= got == -ENODATA;
    was_refused = true;
    say(e, net, (uint32_t)asked->lo, (uint32_t)asked->hi, asked->n, at.node, got == -ENODATA ? -EHOSTDOWN : got);
    return -EHOSTDOWN;
}

/*
 * A client wrote the message, and may be any program: the buffer is a remote one, and the bytes are in it. `lo` is the buffer's number
 * and `hi` the place in it.
 */
static bool is_sound(const tb_engine *e, const struct tb_wire *w, size_t n)
{
    const struct tb_buffer *b = &e->region.buffers[w->lo];
    return w->lo < e->header->layout.n_buffers && tb_buffer_is_remote(e, b) && w->n <= TB_BORROW_PIECE && w->hi <= tb_buffer_size(e, b) &&
           w->n <= tb_buffer_size(e, b) - w->hi && n == sizeof(*w) + (w->op == TB_WIRE_PUT ? w->n : 0);
}

/* The bytes of a PUT are sent from the region without a copy, and those of a GET are received into it. */
int64_t borrow_request(tb_engine *e, struct tb_net *net, char *bytes, size_t n, size_t room)
{
    struct tb_wire asked, get;
    if (n < sizeof(asked))
        return -EPROTO;
    memcpy(&asked, bytes, sizeof(asked));
    get = asked;
    if (!is_sound(e, &asked, n) || (asked.op != TB_WIRE_PUT && asked.op != TB_WIRE_GET))
        return -EINVAL;
    return asked.op == TB_WIRE_PUT ? call(e, net, &asked, bytes, n, NULL, 0) : call(e, net, &asked, &get, sizeof(get), bytes, room);
}

/* One message of the daemon's own. A use by a client may have come first: then once more, with a later number. */
static int ask(tb_engine *e, struct tb_wire *request, size_t n, void *to)
{
    const struct tb_wire asked = *request;
    int64_t got = -ESTALE;
    for (int i = 0; i < TRIES && got == -ESTALE; i++) {
        request->version = ++e->header->asking.borrowings;
        got = call(e, net_now, &asked, request, n, to, to ? asked.n : 0);
    }
    return got == (to ? (int64_t)asked.n : 0) ? 0 : -EHOSTDOWN;
}

/* In pieces, as a message carries no more. Each is a use with a number of its own. */
static int read_there(tb_engine *e, const struct tb_buffer *b, uint32_t lo, uint32_t n, void *to)
{
    int rc = 0;
    for (uint32_t done = 0, take; done < n && !rc; done += take) {
        take = n - done < TB_BORROW_PIECE ? n - done : TB_BORROW_PIECE;
        struct tb_wire w = {.op = TB_WIRE_GET, .n = take, .lo = tb_buffer_number(e, b), .hi = lo + done};
        rc = ask(e, &w, sizeof(w), (char *)to + done);
    }
    return rc;
}

/* In pieces, each copied after its head. After an error the bytes there are undefined. */
static int write_there(tb_engine *e, const struct tb_buffer *b, uint32_t lo, uint32_t n, const void *from)
{
    size_t most = n < TB_BORROW_PIECE ? n : TB_BORROW_PIECE;
    struct tb_wire *w = malloc(sizeof(*w) + most);
    int rc = w ? 0 : -ENOMEM;
    for (uint32_t done = 0, take; done < n && !rc; done += take) {
        take = n - done < TB_BORROW_PIECE ? n - done : TB_BORROW_PIECE;
        *w = (struct tb_wire){.op = TB_WIRE_PUT, .n = take, .lo = tb_buffer_number(e, b), .hi = lo + done};
        memcpy(w + 1, (const char *)from + done, take);
        rc = ask(e, w, sizeof(*w) + take, NULL);
    }
    free(w);
    return rc;
}

static const struct tb_borrow_ops directly = {read_there, write_there};

/* Under the lock: another node may ask this one for its state as soon as the network is there. */
static int make_tables(const tb_engine *e, struct tb_net *net)
{
    lenders = calloc(tb_net_count(net), sizeof(*lenders));
    kept = calloc(e->header->layout.n_buffers, sizeof(*kept));
    net_now = net;
    return lenders && kept ? 0 : -ENOMEM;
}

int borrow_begin(tb_engine *e, struct tb_net *net)
{
    if (tb_config_remote_tier(&e->header->config) == e->header->config.n_tiers)
        return 0;
    pthread_mutex_lock(&lock);
    int rc = make_tables(e, net);
    pthread_mutex_unlock(&lock);
    if (!rc)
        e->borrow = &directly;
    return rc;
}

/* Free buffers that were kept go back first: the region outlives this daemon. */
void borrow_end(tb_engine *e)
{
    e->borrow = tb_borrow_by_daemon();
    pthread_mutex_lock(&lock);
    for (uint32_t i = 0; i < n_kept; i++)
        tb_slab_give(e, &e->region.buffers[kept[i]]);
    n_kept = 0;
    free(lenders);
    free(kept);
    lenders = NULL;
    kept = NULL;
    pthread_mutex_unlock(&lock);
}

/*
 * The buffer is looked at without its lock, and the move looks again under it. The node's own tiers are tried in their order. Clean
 * bytes of any heat make room there: the PFS has those.
 */
static TB_UNLOCKED bool bring_home(tb_engine *e, struct tb_buffer *b)
{
    struct tb_buffer_ref ref = {tb_buffer_number(e, b), b->cell, b->cell * tb_buffer_size(e, b)};
    uint32_t file = b->file;
    if (b->state != TB_BUFFER_LIVE || !tb_buffer_is_dirty(b) || file >= e->region.n_file_buckets)
        return true;
    int rc = -ENOSPC;
    for (uint32_t t = 0; rc == -ENOSPC && t < e->header->config.n_tiers; t++)
        if (e->header->config.tiers[t].medium != TB_MEDIUM_REMOTE)
            rc = tb_move(e, file, &ref, t, TB_HEAT_ANY);
    return !rc;
}

/* Bytes at a node that is lost are not counted: they cannot come. */
uint64_t borrow_bring_home(tb_engine *e)
{
    uint64_t left = 0;
    for (uint32_t i = 0; lenders && i < e->header->layout.n_buffers; i++) {
        struct tb_buffer *b = &e->region.buffers[i];
        if (tb_buffer_is_remote(e, b) && !bring_home(e, b) && tb_net_is_alive(net_now, tb_borrowed_at(e, i).node))
            left += tb_buffer_size(e, b);
    }
    return left;
}

/* The next look is at once, and sees that the node leaves. */
void borrow_return(unsigned node)
{
    pthread_mutex_lock(&lock);
    if (lenders)
        lenders[node].leaves = true;
    looked_ns = 0;
    pthread_mutex_unlock(&lock);
}

/* Under the lock. */
static bool is_out(unsigned node)
{
    return lenders[node].is_lost || lenders[node].leaves;
}

/*
 * Under the lock. All free buffers of the slab are taken: those at a node that is out are kept, and the others are given back at once.
 * If there is no memory for the list, nothing is kept now, and writers find the lost buffers themselves (`was_refused`).
 */
static void keep_free(tb_engine *e, uint32_t s)
{
    uint32_t n = e->header->layout.slab[s].n_buffers, taken = 0;
    struct tb_buffer **all = malloc(n * sizeof(*all));
    while (all && taken < n && (all[taken] = tb_slab_take(e, s, 0)))
        taken++;
    for (uint32_t i = 0; i < taken; i++) {
        uint32_t buffer = tb_buffer_number(e, all[i]);
        if (is_out(tb_borrowed_at(e, buffer).node))
            kept[n_kept++] = buffer;
        else
            tb_slab_give(e, all[i]);
    }
    free(all);
}

/* Under the lock. */
static void give_kept(tb_engine *e)
{
    uint32_t left = 0;
    for (uint32_t i = 0; i < n_kept; i++)
        if (is_out(tb_borrowed_at(e, kept[i]).node))
            kept[left++] = kept[i];
        else
            tb_slab_give(e, &e->region.buffers[kept[i]]);
    n_kept = left;
}

struct seen {
    uint32_t file;
    bool is_used, is_live;
    uint64_t dirty;
};

/* Without a lock of the chunk: a count for people, and a buffer that is dropped or flushed is looked at again. */
static TB_UNLOCKED struct seen look(const tb_engine *e, const struct tb_buffer *b)
{
    return (struct seen){.file = b->file,
                         .is_used = b->state == TB_BUFFER_LIVE || (b->state == TB_BUFFER_ALLOCATED && b->client != e->slot),
                         .is_live = b->state == TB_BUFFER_LIVE,
                         .dirty = b->dirty_hi > b->dirty_lo ? b->dirty_hi - b->dirty_lo : 0};
}

/* Under the lock. What the PFS has need not be there; what it lacks is flushed before a node ends, and is lost with one that is lost. */
static void leave(tb_engine *e, struct tb_buffer *b, const struct seen *seen, const struct lender *l)
{
    if (!seen->dirty)
        tb_map_drop_clean(e, b);
    else if (!l->is_lost && seen->file < e->region.n_file_buckets)
        tb_flush_queue(e, seen->file);
}

/* Under the lock. */
static void look_at_slab(tb_engine *e, uint32_t s)
{
    const struct tb_layout_slab *slab = &e->header->layout.slab[s];
    for (uint32_t i = slab->first_buffer; i < slab->first_buffer + slab->n_buffers; i++) {
        struct tb_buffer *b = &e->region.buffers[i];
        struct seen seen = look(e, b);
        if (!seen.is_used)
            continue;
        unsigned node = tb_borrowed_at(e, i).node;
        struct lender *l = &lenders[node];
        l->here.used += slab->buffer_size;
        l->here.dirty += seen.is_live ? seen.dirty : slab->buffer_size; /* one that is being filled is about to be dirty */
        if (seen.is_live && is_out(node))
            leave(e, b, &seen, l);
    }
}

/* Under the lock. True: there may be free buffers of a node that was lost since, or that a writer found. */
static bool look_at_nodes(struct tb_net *net)
{
    bool any = false, again = atomic_exchange(&was_refused, false);
    for (unsigned i = 0; i < tb_net_count(net); i++) {
        struct lender *l = &lenders[i];
        bool was_out = l->is_lost || l->leaves_known;
        l->is_lost = l->gone || !tb_net_is_alive(net, i);
        l->leaves_known = l->leaves;
        l->here = (struct borrowed){0};
        any |= is_out(i) && (again || !was_out);
    }
    return any;
}

/* Under the lock. */
static void look_at_all(tb_engine *e, struct tb_net *net)
{
    const struct tb_layout *l = &e->header->layout;
    uint32_t t = tb_config_remote_tier(&e->header->config);
    bool any = look_at_nodes(net);
    give_kept(e);
    for (uint32_t s = l->tier_first_slab[t]; tb_is_slab_of(l, s, t); s++) {
        if (any)
            keep_free(e, s);
        look_at_slab(e, s);
    }
    looked_ns = tb_now_ns();
}

/* Under the lock. */
static bool is_due(const tb_engine *e)
{
    return lenders && e->header->asking.n_nodes > 1 && tb_now_ns() - looked_ns > FRESH_NS;
}

void borrow_look(tb_engine *e, struct tb_net *net)
{
    pthread_mutex_lock(&lock);
    if (is_due(e))
        look_at_all(e, net);
    pthread_mutex_unlock(&lock);
}

void borrow_of(tb_engine *e, unsigned node, struct borrowed *out)
{
    *out = (struct borrowed){0};
    pthread_mutex_lock(&lock);
    if (is_due(e))
        look_at_all(e, net_now);
    if (lenders)
        *out = lenders[node].here;
    pthread_mutex_unlock(&lock);
}

/* Summed under the lock, so the totals are of one moment. */
void borrow_all(struct borrowed *all, struct borrowed *lost)
{
    *all = *lost = (struct borrowed){0};
    pthread_mutex_lock(&lock);
    for (unsigned i = 0; lenders && i < tb_net_count(net_now); i++) {
        all->used += lenders[i].here.used;
        all->dirty += lenders[i].here.dirty;
        lost->used += lenders[i].is_lost ? lenders[i].here.used : 0;
        lost->dirty += lenders[i].is_lost ? lenders[i].here.dirty : 0;
    }
    pthread_mutex_unlock(&lock);
}
