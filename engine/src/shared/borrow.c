/*
 * Places in other nodes' memory, and a client's requests for what is there: shared/borrow.h.
 *
 * A place is computed from the buffer's number: buffer i of a slab is at the node i modulo the number of lenders, counted from the node
 * after this one. So nothing about places is stored, and all processes of the node find the same one.
 */
#include "shared/borrow.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "buffer/interval.h"
#include "buffer/map.h"
#include "buffer/of_file.h"
#include "shared/requests.h"

#define SECONDS 9 /* a lender that does not answer is lost after 8 */
#define TRIES 100 /* another use of the buffer came first: of a mover, which reads without the lock */

/* Of `n` buffers that go to other nodes in turn, those that the first of them gets. */
static uint64_t share_of(uint32_t n, uint32_t lenders)
{
    return (n + lenders - 1) / lenders;
}

/* The bytes that each other node lends to this one: the share of the first lender, which is the largest, of each remote slab. */
uint64_t tb_borrow_section(const struct tb_config *c, const struct tb_layout *l, uint32_t n_nodes)
{
    uint32_t t = tb_config_remote_tier(c);
    uint64_t bytes = 0;
    if (t == c->n_tiers || n_nodes < 2)
        return 0;
    for (uint32_t s = l->tier_first_slab[t]; tb_is_slab_of(l, s, t); s++)
        bytes += share_of(l->slab[s].n_buffers, n_nodes - 1) * l->slab[s].buffer_size;
    return bytes;
}

struct tb_borrowed tb_borrowed_at(const tb_engine *e, uint32_t buffer)
{
    const struct tb_layout *l = &e->header->layout;
    const struct tb_layout_slab *slab = &l->slab[e->region.buffers[buffer].slab];
    uint32_t nodes = e->header->asking.n_nodes, lenders = nodes - 1, at = buffer - slab->first_buffer;
    struct tb_borrowed b = {.place = 0};
    assert(nodes > 1);
    for (uint32_t s = l->tier_first_slab[slab->tier]; &l->slab[s] != slab; s++)
        b.place += share_of(l->slab[s].n_buffers, lenders) * l->slab[s].buffer_size;
    b.place += at / lenders * slab->buffer_size;
    b.node = (e->header->asking.self + 1 + at % lenders) % nodes;
    assert(b.place % TB_BORROW_UNIT == 0 && b.node != e->header->asking.self); /* as the lender checks */
    return b;
}

/* What was found in remote buffers: from the first of the bytes to the last, and the node that has the first. */
struct found {
    uint64_t lo, hi, bytes;
    uint32_t node, n;
};

/* The buffer is looked at under its chunk's lock: since it was listed it may have moved, or its bytes may have been flushed. */
static void add(tb_engine *e, uint32_t file, const struct tb_buffer_ref *ref, struct found *f)
{
    const struct tb_buffer *b = &e->region.buffers[ref->buffer];
    int stripe = tb_chunk_lock(e, file, ref->start);
    if (stripe < 0)
        return;
    bool counts = tb_buffer_is_at(b, file, ref->cell) && tb_buffer_is_dirty(b);
    if (counts && !f->n++) {
        f->lo = ref->start + b->dirty_lo;
        f->node = tb_borrowed_at(e, ref->buffer).node;
    }
    if (counts) {
        f->hi = ref->start + b->dirty_hi;
        f->bytes += tb_interval_dirty_bytes(e, b);
    }
    tb_chunk_unlock(e, stripe);
}

/* As far as names are shown. */
static const char *name_of(const tb_engine *e, uint32_t node)
{
    return node < TB_NODES_SHOWN ? e->header->asking.node[node].name : "of a high number";
}

uint64_t tb_borrowed_describe(tb_engine *e, uint32_t file, char *why, size_t size)
{
    struct found f = {0};
    uint32_t n = 0;
    struct tb_buffer_ref *refs = e->header->asking.n_nodes > 1 ? tb_file_buffers(e, file, TB_BUFFERS_DIRTY, &n) : NULL;
    for (uint32_t i = 0; refs && i < n; i++)
        if (tb_buffer_is_remote(e, &e->region.buffers[refs[i].buffer]))
            add(e, file, &refs[i], &f);
    free(refs);
    if (f.bytes)
        snprintf(why, size, "%llu bytes from %llu to %llu, only in the memory of %snode %s", (unsigned long long)f.bytes,
                 (unsigned long long)f.lo, (unsigned long long)f.hi,
                 f.n > 1 && e->header->asking.n_nodes > 2 ? "other nodes, the first of " : "", name_of(e, f.node));
    return f.bytes;
}

/* As `add`, by the chunk's lock. */
static void forget(tb_engine *e, uint32_t file, const struct tb_buffer_ref *ref)
{
    struct tb_buffer *b = &e->region.buffers[ref->buffer];
    int stripe = tb_chunk_lock(e, file, ref->start);
    if (stripe < 0)
        return;
    if (tb_buffer_is_at(b, file, ref->cell) && tb_buffer_is_remote(e, b))
        tb_map_drop(e, b);
    tb_chunk_unlock(e, stripe);
}

void tb_borrowed_forget(tb_engine *e, uint32_t file)
{
    uint32_t n;
    struct tb_buffer_ref *refs = tb_file_buffers(e, file, TB_BUFFERS_ALL, &n);
    for (uint32_t i = 0; refs && i < n; i++)
        forget(e, file, &refs[i]);
    free(refs);
}

/* One message. Again with another number as long as this client lives and other uses come first. */
static int ask(tb_engine *e, struct tb_wire w, const void *from, void *to)
{
    int64_t got = -ESTALE;
    bool puts = w.op == TB_WIRE_PUT;
    for (int i = 0; i < TRIES && got == -ESTALE; i++) {
        w.version = ++e->header->asking.borrowings;
        got = tb_ask_for(e, &w, from, puts ? w.n : 0, to, puts ? 0 : w.n, SECONDS);
    }
    return got == (puts ? 0 : (int64_t)w.n) ? 0 : -EHOSTDOWN;
}

/* The most that one message can carry, of `n` bytes. */
static uint32_t piece(const tb_engine *e, uint32_t n)
{
    size_t room = tb_ask_room(e) < TB_BORROW_PIECE ? tb_ask_room(e) : TB_BORROW_PIECE;
    return n < room ? n : (uint32_t)room;
}

static int read_borrowed(tb_engine *e, const struct tb_buffer *b, uint32_t lo, uint32_t n, void *to)
{
    int rc = 0;
    for (uint32_t done = 0, take; done < n && !rc; done += take) {
        take = piece(e, n - done);
        rc = ask(e, (struct tb_wire){.op = TB_WIRE_GET, .n = take, .lo = tb_buffer_number(e, b), .hi = lo + done}, NULL, (char *)to + done);
    }
    return rc;
}

static int write_borrowed(tb_engine *e, const struct tb_buffer *b, uint32_t lo, uint32_t n, const void *from)
{
    int rc = 0;
    for (uint32_t done = 0, take; done < n && !rc; done += take) {
        take = piece(e, n - done);
        rc = ask(e, (struct tb_wire){.op = TB_WIRE_PUT, .n = take, .lo = tb_buffer_number(e, b), .hi = lo + done},
                 (const char *)from + done, NULL);
    }
    return rc;
}

const struct tb_borrow_ops *tb_borrow_by_daemon(void)
{
    static const struct tb_borrow_ops ops = {read_borrowed, write_borrowed};
    return &ops;
}
