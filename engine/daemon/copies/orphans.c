/*
 * What a lost keeper had committed of its own files is on the PFS, since it had no second node for them. What others committed is in their
 * tiers, or on the PFS. So all that live are asked for what they have, and the rest is read from the PFS.
 *
 * A commit needs the keeper. So nothing moves from a node to another as long as none of them reaches it; each says so, and all are asked
 * twice: only if nothing has changed in between the answers are of one moment.
 */
#include "copies/orphans.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "region/mix.h"
#include "shared/commit.h"
#include "shared/local.h"

#define PARTS_MOST TB_WIRE_MOST_FETCHED

bool orphans_has(const tb_engine *e, const struct tb_net *net, const struct tb_wire_file *file)
{
    return tb_has_copies(e) && !tb_net_is_alive(net, relay_keeper(net, file));
}

/* Moves with each change of what is dirty of the file here. */
static uint64_t state_of(const tb_engine *e, uint32_t file)
{
    const struct tb_file_nodes *f = &e->region.file_nodes[file];
    return tb_mix64((uint64_t)f->n_written << 32 | f->n_let_go) ^ f->n_cleaned;
}

/* As extents, up to the end of the last one; of more parts than there is room for, -ENOBUFS. */
static int list(const struct tb_ranges *r, const struct tb_wire *w, struct tb_told *told, struct tb_wire_extent *x, uint32_t most)
{
    uint64_t at = w->lo, from, to;
    told->end = r->n ? r->at[r->n - 1].hi : 0;
    told->elsewhere = r->n > 0;
    for (; w->version && at < w->hi && tb_ranges_inside(r, at, w->hi, &from, &to); at = to) {
        if (told->n == most)
            return -ENOBUFS;
        x[told->n++] = (struct tb_wire_extent){from, to, 0, 0, 0};
    }
    return 0;
}

int64_t orphans_answer(tb_engine *e, const struct tb_net *net, const struct tb_wire *w, void *answer, size_t room)
{
    struct tb_told told = {0};
    struct tb_ranges dirty = {0};
    if (room < sizeof(told))
        return -ENOBUFS;
    if (!net || !orphans_has(e, net, &w->file))
        return -EAGAIN;
    uint32_t file = tb_local_find(e, &w->file);
    if (file != TB_NONE && e->region.file_nodes[file].n_spilling)
        return -EAGAIN;
    told.version = file == TB_NONE ? 0 : state_of(e, file);
    int rc = file == TB_NONE ? 0 : tb_local_dirty(e, file, &dirty);
    rc = rc ? rc
            : list(&dirty, w, &told, (void *)((char *)answer + sizeof(told)),
                   (uint32_t)((room - sizeof(told)) / sizeof(struct tb_wire_extent)));
    tb_ranges_free(&dirty);
    memcpy(answer, &told, sizeof(told));
    return rc ? rc : (int64_t)(sizeof(told) + told.n * sizeof(struct tb_wire_extent));
}

/* All that one round of questions told. `state` is equal in two rounds only if each node had the same bytes in both. */
struct round {
    uint64_t state;
    struct relay_answer all;
    struct relay_answer one;
};

static int add(struct round *r, unsigned node)
{
    for (uint32_t i = 0; i < r->one.told.n; i++) {
        if (r->all.told.n == PARTS_MOST)
            return -EIO;
        r->one.extent[i].node = node;
        r->all.extent[r->all.told.n++] = r->one.extent[i];
    }
    r->state = tb_mix64(r->state ^ r->one.told.version) + node;
    r->all.told.elsewhere |= r->one.told.elsewhere;
    r->all.told.end = r->one.told.end > r->all.told.end ? r->one.told.end : r->all.told.end;
    return 0;
}

/* Every living node has to answer: bytes of one that does not would be read from the PFS, where older ones are. */
static int ask_one(struct tb_net *net, const struct tb_wire *w, unsigned node, struct relay_answer *one)
{
    size_t room = sizeof(one->told) + PARTS_MOST * sizeof(one->extent[0]);
    int64_t got = tb_net_call(net, node, w, sizeof(*w), one, room);
    if (got < 0)
        return got == -EAGAIN ? -EAGAIN : -EIO;
    return got >= (int64_t)sizeof(one->told) && one->told.n <= PARTS_MOST &&
                   got == (int64_t)(sizeof(one->told) + one->told.n * sizeof(one->extent[0]))
             ? 0
             : -EIO;
}

/* One node after the other. Few files have a lost keeper, and the second round has to come after the whole first one. */
static int ask_all(struct tb_net *net, const struct tb_wire *w, struct round *r)
{
    unsigned keeper = relay_keeper(net, &w->file);
    int rc = 0;
    *r = (struct round){.state = 0};
    for (unsigned i = 0; i < tb_net_count(net) && !rc; i++)
        if (i != keeper && i != tb_net_self(net)) {
            rc = ask_one(net, w, i, &r->one);
            rc = rc ? rc : add(r, i);
        }
    return rc;
}

static int by_lo(const void *a, const void *b)
{
    const struct tb_wire_extent *x = a, *y = b;
    return x->lo < y->lo ? -1 : x->lo > y->lo;
}

/* Of bytes that two nodes have only the keeper knew which are newer. Another node may say anything. */
static int put_in_order(const struct tb_wire *w, struct relay_answer *a)
{
    if (a->told.n)
        qsort(a->extent, a->told.n, sizeof(a->extent[0]), by_lo);
    for (uint32_t i = 0; i < a->told.n; i++) {
        const struct tb_wire_extent *x = &a->extent[i];
        if (x->lo < w->lo || x->lo >= x->hi || x->hi > w->hi || (i && x->lo < x[-1].hi))
            return -EIO;
    }
    return 0;
}

/* The version is the latest that this node has heard of: so the file's size is believed, and the keeper, if it comes back, too. */
int orphans_ask(tb_engine *e, struct tb_net *net, const struct tb_wire *asked, struct relay_answer *answer)
{
    struct tb_wire w = {.op = TB_WIRE_DIRTY, .file = asked->file, .lo = asked->lo, .hi = asked->hi, .version = asked->op != TB_WIRE_LOOK};
    struct round *r = malloc(2 * sizeof(*r));
    uint32_t file = tb_local_find(e, &w.file);
    int rc = r ? ask_all(net, &w, r) : -ENOMEM;
    rc = rc ? rc : ask_all(net, &w, r + 1);
    if (!rc && (r[0].state != r[1].state || r[0].all.told.n != r[1].all.told.n || !orphans_has(e, net, &w.file)))
        rc = -EAGAIN;
    rc = rc ? rc : put_in_order(&w, &r[1].all);
    if (!rc) {
        *answer = r[1].all;
        answer->told.version = file == TB_NONE ? 0 : e->region.file_nodes[file].heard;
        answer->told.before = asked->op == TB_WIRE_LOOK ? UINT64_MAX : asked->hi; /* changed, for all that is known; whole up to there */
    }
    free(r);
    return rc;
}
