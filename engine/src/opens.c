#include "opens.h"

#include <errno.h>
#include <stdlib.h>

#include "file.h"
#include "flush.h"

uint32_t tb_open_new(tb_engine *e, uint32_t file, int flags)
{
    struct tb_header *h = e->header;
    tb_lock_take(&h->opens_lock);
    uint32_t i = h->free_open;
    if (i != TB_NONE)
        h->free_open = e->region.opens[i].next_free;
    tb_lock_drop(&h->opens_lock);
    if (i == TB_NONE)
        return TB_NONE;
    struct tb_open *o = &e->region.opens[i];
    o->file = file;
    o->offset = 0;
    o->flags = flags;
    o->in_kernel = false;
    for (uint32_t k = 0; k < TB_CLIENTS / 64; k++)
        o->holders[k] = 0;
    o->magic = TB_OPEN_MAGIC;
    return i;
}

void tb_open_free(tb_engine *e, struct tb_open *o)
{
    struct tb_header *h = e->header;
    tb_lock_take(&h->opens_lock);
    o->magic = 0;
    o->next_free = h->free_open;
    h->free_open = (uint32_t)(o - e->region.opens);
    tb_lock_drop(&h->opens_lock);
}

static _Atomic uint32_t *slot_of(const tb_engine *e, int fd)
{
    if (fd < 0 || (uint32_t)fd >= TB_FD_PIECES * TB_FD_PIECE)
        return NULL;
    _Atomic uint32_t *piece = e->fds[(uint32_t)fd / TB_FD_PIECE];
    return piece ? &piece[(uint32_t)fd % TB_FD_PIECE] : NULL;
}

static void hold(tb_engine *e, uint32_t open)
{
    e->local_refs[open]++;
    e->region.opens[open].holders[e->slot / 64] |= 1ull << (e->slot % 64);
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

/* True where this client was the last holder. */
static bool let_go(struct tb_open *o, uint32_t client)
{
    uint64_t mask = 1ull << (client % 64);
    uint64_t before = atomic_fetch_and(&o->holders[client / 64], ~mask);
    uint64_t others = before & ~mask;
    for (uint32_t k = 0; k < TB_CLIENTS / 64; k++)
        others |= k == client / 64 ? 0 : o->holders[k];
    return (before & mask) && !others;
}

struct tb_open *tb_open_unbind(tb_engine *e, int fd, bool *last)
{
    _Atomic uint32_t *slot = slot_of(e, fd);
    uint32_t open = slot ? atomic_exchange(slot, 0) : 0;
    *last = false;
    if (!open)
        return NULL;
    if (--e->local_refs[open - 1] == 0)
        *last = let_go(&e->region.opens[open - 1], e->slot);
    return &e->region.opens[open - 1];
}

void tb_opens_hold(tb_engine *e, uint32_t slot)
{
    for (uint32_t i = 0; i < e->region.n_opens; i++)
        if (e->local_refs[i])
            e->region.opens[i].holders[slot / 64] |= 1ull << (slot % 64);
}

/* A process that ends without closing its files has closed them. */
static void queue_flush(tb_engine *e, const struct tb_open *o)
{
    struct tb_file *f = &e->region.files[o->file];
    if (f->n_dirty && !(f->flags & (TB_FILE_SCRATCH | TB_FILE_UNLINKED)) && tb_config_of(e)->flush.policy == TB_FLUSH_ON_CLOSE)
        tb_flush_queue(e, o->file);
}

void tb_opens_forget_client(tb_engine *e, uint32_t slot)
{
    for (uint32_t i = 0; i < e->region.n_opens; i++) {
        struct tb_open *o = &e->region.opens[i];
        if (o->magic == TB_OPEN_MAGIC && let_go(o, slot)) {
            queue_flush(e, o);
            if (tb_file_put(e, o->file))
                tb_file_forget(e, o->file);
            tb_open_free(e, o);
        }
    }
}
