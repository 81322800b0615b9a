#include "flush_copy.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "filemap.h"
#include "interval.h"
#include "medium.h"
#include "step.h"

#define RUN_BYTES (1u << 20)   /* adjacent dirty bytes are written in pieces of at most this, or one buffer */
#define SHARE_BYTES (8u << 20) /* less is not worth a thread of its own */
#define SHARES_MAX 64u

/* What one thread copies, and the run of adjacent bytes that it is about to write. */
struct share {
    struct tb_flush_copy *c;
    const struct tb_buffer_ref *refs;
    uint32_t n_refs, n_done;
    struct tb_flushed *done; /* place for n_refs */
    bool moved, journaled;
    int rc;
    uint64_t written;
    char *bytes;
    size_t room, n;
    uint64_t offset; /* of the file */
    pthread_t thread;
};

static int write_run(struct share *r)
{
    TB_STEP("flush write");
    int rc = r->n ? tb_io_write_all(r->c->io, r->c->fd, r->bytes, r->n, r->offset) : 0;
    TB_STEP("flush written");
    if (r->n) /* behind the write: a sync takes the mark away and then syncs */
        r->c->e->region.files[r->c->file].flags |= TB_FILE_UNSYNCED;
    if (!rc) {
        r->written += r->n;
        r->c->e->header->pfs_written += r->n;
    }
    r->n = 0;
    return rc;
}

/* Copy bytes [a, z) of a buffer behind the run, which is written out first where they don't follow or don't fit. */
static int add_to_run(struct share *r, const struct tb_buffer *b, uint32_t a, uint32_t z, int *medium_error)
{
    uint64_t offset = tb_buffer_start(r->c->e, b) + a;
    if (r->n && (r->offset + r->n != offset || r->n + (z - a) > r->room))
        return -EAGAIN;
    if (!r->n)
        r->offset = offset;
    *medium_error = tb_medium_read(r->c->e, b, a, z - a, r->bytes + r->n);
    if (!*medium_error)
        r->n += z - a;
    return 0;
}

/* The file may have been cut since: bytes behind its end are not written. */
static uint32_t end_of(const tb_engine *e, const struct tb_buffer *b, uint64_t size)
{
    uint64_t start = tb_buffer_start(e, b);
    return size <= start ? 0 : size - start < b->dirty_hi ? (uint32_t)(size - start) : b->dirty_hi;
}

/*
 * Copy a buffer's dirty bytes from `*at` on into the run.  -EAGAIN: the run must
 * be written first, `*at` says where to go on.  `out` keeps the version of the
 * first call: what is written between two calls may lie before `*at`.
 */
static int gather(struct share *r, const struct tb_buffer_ref *ref, uint32_t *at, struct tb_flushed *out, bool *journaled)
{
    tb_engine *e = r->c->e;
    struct tb_buffer *b = &e->region.buffers[ref->buffer];
    uint32_t a, z;
    int rc = 0, medium_error = 0;
    int stripe = tb_chunk_lock(e, r->c->file, ref->start);
    if (stripe < 0)
        return stripe;
    bool first = *at == 0;
    if (!tb_buffer_is_at(b, r->c->file, ref->cell)) {
        out->buffer = TB_NONE;
        r->moved = true;
    } else {
        uint32_t end = end_of(e, b, e->region.files[r->c->file].size);
        while (!rc && !medium_error && tb_interval_dirty(e, b, *at, end, &a, &z)) {
            rc = add_to_run(r, b, a, z, &medium_error);
            if (!rc)
                *at = z;
        }
        if (first)
            *out = (struct tb_flushed){.buffer = ref->buffer, .version = b->version, .cell = ref->cell, .start = ref->start,
                                       .journaled = b->flags & TB_BUFFER_JOURNALED || b->prev != TB_NONE,
                                       .fragmented = b->fragment != TB_NONE, .sequence = e->header->sequence,
                                       .lo = b->dirty_lo, .hi = end};
        *journaled = *journaled || b->flags & TB_BUFFER_JOURNALED || b->prev != TB_NONE;
    }
    tb_chunk_unlock(e, stripe);
    return medium_error ? medium_error : rc;
}

static int copy_one(struct share *r, const struct tb_buffer_ref *ref)
{
    uint32_t at = 0;
    int rc;
    while ((rc = gather(r, ref, &at, &r->done[r->n_done], &r->journaled)) == -EAGAIN)
        if ((rc = write_run(r)))
            break;
    if (!rc && r->done[r->n_done].buffer != TB_NONE)
        r->n_done++;
    return rc;
}

static void *copy_share(void *arg)
{
    struct share *r = arg;
    r->bytes = malloc(r->room);
    r->rc = r->bytes ? 0 : -ENOMEM;
    for (uint32_t i = 0; i < r->n_refs && !r->rc; i++)
        r->rc = copy_one(r, &r->refs[i]);
    if (!r->rc)
        r->rc = write_run(r);
    free(r->bytes);
    return NULL;
}

/* A thread's debt to a modelled device would end with it. */
static void *copy_share_and_pay(void *arg)
{
    copy_share(arg);
    tb_model_settle(true);
    return NULL;
}

static uint32_t n_shares(const struct tb_flush_copy *c, const struct tb_buffer_ref *refs, uint32_t n)
{
    uint64_t span = n ? refs[n - 1].start - refs[0].start : 0, most = span / SHARE_BYTES + 1;
    uint32_t threads = c->e->flush_threads < SHARES_MAX ? c->e->flush_threads : SHARES_MAX;
    return threads > most ? (uint32_t)most : threads ? threads : 1;
}

static void share_out(struct tb_flush_copy *c, struct share *shares, uint32_t n, const struct tb_buffer_ref *refs, uint32_t n_refs)
{
    uint64_t largest = c->e->header->layout.class_size[c->e->header->layout.n_classes - 1];
    for (uint32_t i = 0; i < n; i++) {
        uint32_t from = (uint32_t)((uint64_t)n_refs * i / n), to = (uint32_t)((uint64_t)n_refs * (i + 1) / n);
        shares[i] = (struct share){.c = c, .refs = refs + from, .n_refs = to - from, .done = c->done + from,
                                   .room = largest > RUN_BYTES ? (size_t)largest : RUN_BYTES};
    }
}

/* Results stand at the front of each share's part of `done`: close the gaps. */
static int add_up(struct tb_flush_copy *c, const struct share *shares, uint32_t n)
{
    int rc = 0;
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t k = 0; k < shares[i].n_done; k++)
            c->done[c->n_done++] = shares[i].done[k];
        c->moved |= shares[i].moved;
        c->journaled |= shares[i].journaled;
        c->written += shares[i].written;
        rc = rc ? rc : shares[i].rc;
    }
    return rc;
}

int tb_flush_copy(struct tb_flush_copy *c, const struct tb_buffer_ref *refs, uint32_t n_refs)
{
    struct share shares[SHARES_MAX];
    bool started[SHARES_MAX] = {false};
    uint32_t n = n_shares(c, refs, n_refs);
    c->n_done = 0;
    c->moved = c->journaled = false;
    c->done = malloc((n_refs + 1) * sizeof(*c->done));
    if (!c->done)
        return -ENOMEM;
    share_out(c, shares, n, refs, n_refs);
    for (uint32_t i = 1; i < n; i++)
        started[i] = pthread_create(&shares[i].thread, NULL, copy_share_and_pay, &shares[i]) == 0;
    for (uint32_t i = 0; i < n; i++)
        if (!started[i]) /* the first, and those no thread could be made for */
            copy_share(&shares[i]);
    for (uint32_t i = 1; i < n; i++)
        if (started[i])
            pthread_join(shares[i].thread, NULL);
    return add_up(c, shares, n);
}
