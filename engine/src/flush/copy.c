/*
 * The first half of a flush: dirty bytes are copied out under the chunk's lock and written
 * to the PFS outside it, in long runs, by several threads. What was copied is returned
 * with the buffer's version, so that the second half (flush.c) marks only unchanged
 * buffers clean.
 */
#include "flush/copy.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/kill_point.h"
#include "base/valid.h"
#include "buffer/interval.h"
#include "buffer/map.h"
#include "buffer/medium.h"
#include "buffer/of_file.h"
#include "file/claim.h"
#include "shared/recent.h"

#define RUN_BYTES (2u << 20)   /* adjacent dirty bytes are written in pieces of at most this, or one buffer */
#define BEGUN_BYTES (8u << 20) /* what a thread has written before the device is told to begin: less would be small transfers */
#define SHARE_BYTES (8u << 20) /* less is not worth a thread of its own, */
#define SHARE_SECONDS 1e-3     /* nor is less waiting for the PFS */
#define SHARES_MAX 64u
#define STEP_BYTES (16u << 20) /* bytes that a thread writes at least before it gives the claim to a waiter */

/* What one thread copies, and the run of adjacent bytes that it is about to write. */
struct share {
    struct tb_flush_copy *c;
    const struct tb_buffer_ref *refs;
    uint32_t n_refs, n_done, n_left;
    struct tb_flushed *done;    /* place for n_refs */
    struct tb_buffer_ref *left; /* the same */
    struct tb_flushed_part *parts;
    uint32_t n_parts, parts_room;
    bool journaled, gave_way, spared;
    int rc, unread;
    uint64_t written;
    char *bytes;
    size_t room, n;
    uint64_t offset; /* of the file */
    uint64_t begun;  /* of the file: what is written from here on the device was not told of, */
    uint64_t waits;  /* and so many bytes these are */
    pthread_t thread;
};

/*
 * Where a sync follows, the device writes while the rest is copied. Else the kernel would keep all of it until the sync, and the
 * device would be idle first and the processors then.
 */
static void begin_to_sync(struct share *r)
{
    if (!r->waits)
        r->begun = r->offset;
    r->waits += r->n;
    if (r->waits < BEGUN_BYTES || !(r->c->syncs || r->journaled))
        return;
    tb_target_will_sync(&r->c->target, r->begun, r->offset + r->n - r->begun);
    r->waits = 0;
}

/* Outside all locks, but that of a caller that holds it all along. */
static int write_run(struct share *r)
{
    TB_STEP("flush write");
    int rc = r->n ? tb_target_write(&r->c->target, r->bytes, r->n, r->offset) : 0;
    TB_STEP("flush written");
    if (!rc)
        begin_to_sync(r);
    r->written += rc ? 0 : r->n;
    r->n = 0;
    return rc;
}

/*
 * Append bytes [a, z) of a buffer to the run. -EAGAIN: they do not follow or do not fit,
 * so the run must be written first.
 */
static int add_to_run(struct share *r, const struct tb_buffer *b, uint32_t a, uint32_t z, int *medium_error)
{
    tb_engine *e = r->c->target.engine;
    uint64_t offset = tb_buffer_start(e, b) + a;
    if (r->n && (r->offset + r->n != offset || r->n + (z - a) > r->room))
        return -EAGAIN;
    if (!r->n)
        r->offset = offset;
    *medium_error = tb_medium_read(e, b, a, z - a, r->bytes + r->n);
    if (!*medium_error)
        r->n += z - a;
    assert(r->n <= r->room);
    return 0;
}

/* The file may have been cut since: bytes past its end are not written. */
static uint32_t end_of(const tb_engine *e, const struct tb_buffer *b, uint64_t size)
{
    uint64_t start = tb_buffer_start(e, b);
    return size <= start ? 0 : size - start < b->dirty_hi ? (uint32_t)(size - start) : b->dirty_hi;
}

/* Where the bytes of a listed buffer are now. NULL: unknown, or gone if the list is settled. */
static struct tb_buffer *find_now(const struct share *r, const struct tb_buffer_ref *ref)
{
    tb_engine *e = r->c->target.engine;
    struct tb_buffer *b = &e->region.buffers[ref->buffer];
    if (tb_buffer_is_at(b, r->c->target.file, ref->cell))
        return b;
    return r->c->settled ? tb_map_find(e, r->c->target.file, tb_slab_layout(e, b)->class_index, ref->cell) : NULL;
}

static int note_part(struct share *r, struct tb_flushed *out, uint32_t lo, uint32_t hi)
{
    if (r->n_parts == r->parts_room) {
        uint32_t room = r->parts_room ? 2 * r->parts_room : 64;
        struct tb_flushed_part *parts = realloc(r->parts, room * sizeof(*parts));
        if (!parts)
            return -ENOMEM;
        r->parts = parts;
        r->parts_room = room;
    }
    r->parts[r->n_parts++] = (struct tb_flushed_part){lo, hi};
    out->n_parts++;
    return 0;
}

static void note_first(const struct share *r, struct tb_buffer *b, uint32_t end, struct tb_flushed *out)
{
    tb_engine *e = r->c->target.engine;
    *out = (struct tb_flushed){.buffer = tb_buffer_number(e, b),
                               .version = tb_buffer_see(b),
                               .cell = b->cell,
                               .start = tb_buffer_start(e, b),
                               .journaled = b->flags & TB_BUFFER_JOURNALED || b->prev != TB_NONE,
                               .fragmented = b->fragment != TB_NONE || r->c->only,
                               .sequence = e->header->journal.sequence,
                               .lo = b->dirty_lo,
                               .hi = end,
                               .first_part = r->n_parts};
}

/*
 * Of [from, *to) the first part that is not to be spared. False: it begins with bytes that are, up to `*to`. The grant may cover one part
 * of a newer write and not the other. If that part went to the PFS alone, and the rest came after a commit of another node, others
 * would read a part of both.
 */
static bool spare_newer(struct share *r, uint64_t from, uint64_t *to)
{
    uint64_t lo, hi;
    if (!r->c->spares || !tb_recent_unsaid(r->c->target.engine, r->c->target.file, from, *to, &lo, &hi))
        return true;
    r->spared = true;
    *to = lo > from ? lo : hi;
    return lo > from;
}

/*
 * Of dirty bytes [*a, *z) the first part that may be written now. False: none, and `*z` is where to go on.
 */
static bool may_write(struct share *r, const struct tb_buffer *b, uint32_t *a, uint32_t *z, struct tb_flushed *out)
{
    uint64_t from, to, start = tb_buffer_start(r->c->target.engine, b);
    if (!r->c->only)
        return true;
    bool some = tb_ranges_inside(r->c->only, start + *a, start + *z, &from, &to), may = some && spare_newer(r, from, &to);
    if (!may || from != start + *a || to != start + *z)
        out->partial = true;
    if (some) {
        *a = (uint32_t)(from - start);
        *z = (uint32_t)(to - start);
    }
    return may;
}

/* Copy the dirty bytes from `*at` on.  -EAGAIN: the run must be written first, `*at` says where to go on. */
static int gather_from(struct share *r, struct tb_buffer *b, uint32_t *at, struct tb_flushed *out)
{
    tb_engine *e = r->c->target.engine;
    uint32_t a, z, end = end_of(e, b, e->region.files[r->c->target.file].size);
    int rc = 0, medium_error = 0;
    if (*at == 0)
        note_first(r, b, end, out);
    r->journaled |= b->flags & TB_BUFFER_JOURNALED || b->prev != TB_NONE;
    while (!rc && !medium_error && tb_interval_dirty(e, b, *at, end, &a, &z)) {
        if (!may_write(r, b, &a, &z, out)) {
            *at = z;
            continue;
        }
        rc = add_to_run(r, b, a, z, &medium_error);
        if (!rc && !medium_error && out->fragmented && (out->journaled || r->c->only))
            medium_error = note_part(r, out, a, z);
        if (!rc)
            *at = z;
    }
    return medium_error ? medium_error : rc;
}

/*
 * Locked by the chunk during the copy only. `out` keeps the version of the first call:
 * bytes that are written between two calls may be before `*at`, and then the buffer must
 * stay dirty.
 */
static int gather(struct share *r, const struct tb_buffer_ref *ref, uint32_t *at, struct tb_flushed *out, bool *there)
{
    int stripe = tb_flush_lock(r->c, ref->start);
    if (stripe < 0)
        return stripe;
    struct tb_buffer *b = find_now(r, ref);
    *there = b != NULL;
    int rc = b ? gather_from(r, b, at, out) : 0;
    tb_flush_unlock(r->c, stripe);
    return rc;
}

static int copy_one(struct share *r, const struct tb_buffer_ref *ref)
{
    uint32_t at = 0;
    bool there = false;
    int rc;
    while ((rc = gather(r, ref, &at, &r->done[r->n_done], &there)) == -EAGAIN)
        if ((rc = write_run(r)))
            return rc;
    if (rc == -EHOSTDOWN) {
        r->unread = -EIO; /* the others go on: what can be put on the PFS is */
        return 0;
    }
    if (rc)
        return rc;
    assert(r->n_done + r->n_left < r->n_refs);
    if (there)
        r->n_done++;
    else if (!r->c->settled)
        r->left[r->n_left++] = *ref;
    return 0;
}

static bool is_to_give_way(const struct share *r)
{
    return r->c->gives_way && r->written >= STEP_BYTES && tb_file_claim_is_wanted(r->c->target.engine, r->c->target.file);
}

/* What is not done, because of an error or to give way, is returned in `left`. */
static void *copy_share(void *arg)
{
    struct share *r = arg;
    r->bytes = malloc(r->room);
    r->rc = r->bytes ? 0 : -ENOMEM;
    uint32_t i = 0;
    for (; i < r->n_refs && !r->rc && !is_to_give_way(r); i++)
        r->rc = copy_one(r, &r->refs[i]);
    if (!r->rc)
        r->rc = write_run(r);
    r->gave_way = i < r->n_refs;
    for (; i < r->n_refs; i++)
        r->left[r->n_left++] = r->refs[i];
    free(r->bytes);
    return NULL;
}

/* The thread pays the device model before it ends: its debt would end with it. */
static void *copy_share_and_pay(void *arg)
{
    copy_share(arg);
    tb_model_settle(true);
    return NULL;
}

/* The writes that a list of buffers comes to, as far as it was walked. */
struct runs {
    uint64_t end, bytes; /* of the last one */
    uint64_t dirty;      /* bytes of all */
    uint32_t n;
};

/* Without a lock: what has changed when the bytes are copied makes other runs, and no harm. */
static TB_UNLOCKED bool begins_run(const tb_engine *e, const struct tb_buffer_ref *ref, struct runs *r)
{
    const struct tb_buffer *b = &e->region.buffers[ref->buffer];
    uint64_t size = tb_buffer_size(e, b);
    bool begins = !r->n || ref->start != r->end || r->bytes + size > RUN_BYTES;
    r->n += begins;
    r->bytes = begins ? size : r->bytes + size;
    r->end = ref->start + size;
    r->dirty += b->dirty_hi > b->dirty_lo ? b->dirty_hi - b->dirty_lo : 0;
    return begins;
}

static struct runs all_runs(const tb_engine *e, const struct tb_buffer_ref *refs, uint32_t n)
{
    struct runs r = {0};
    for (uint32_t i = 0; i < n; i++)
        begins_run(e, &refs[i], &r);
    return r;
}

/* What the PFS's model or profile says; NULL: nothing is known. */
static const struct tb_device *pfs_figures(const tb_engine *e)
{
    const struct tb_config *c = tb_config_of(e);
    return c->pfs.modelled ? &c->pfs.model : c->pfs.profiled ? &c->pfs.profile : NULL;
}

double tb_pfs_latency(const tb_engine *e)
{
    const struct tb_device *d = pfs_figures(e);
    return d ? d->write_latency : 0;
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/*
 * So many that the PFS has always a transfer to do while the others wait. More would only make a queue there, in which a
 * program's read waits, too.
 */
static uint64_t worth_waiting(const tb_engine *e, const struct runs *r)
{
    const struct tb_device *d = pfs_figures(e);
    double waiting = r->n * tb_pfs_latency(e), transfer = d && d->write_bandwidth > 0 ? (double)r->dirty / d->write_bandwidth : 0;
    uint64_t most = (uint64_t)(waiting / SHARE_SECONDS);
    return transfer * (double)most > waiting ? 2 + (uint64_t)(waiting / transfer) : most;
}

/* As many as the bytes or the waiting are worth, and none without a write. */
static uint32_t n_shares(const struct tb_flush_copy *c, const struct tb_buffer_ref *refs, uint32_t n, const struct runs *r)
{
    const tb_engine *e = c->target.engine;
    uint64_t span = n ? refs[n - 1].start - refs[0].start : 0, by_bytes = span / SHARE_BYTES + 1, by_waiting = worth_waiting(e, r);
    uint64_t most = least(by_waiting > by_bytes ? by_waiting : by_bytes, r->n), threads = least(e->flush_threads, SHARES_MAX);
    return (uint32_t)(most < 2 || threads < 2 ? 1 : least(most, threads));
}

/* Parts of the list with equally many writes, in order of offset, so that each thread writes one stretch of the file. */
static void share_out(struct tb_flush_copy *c, struct share *shares, uint32_t n, const struct tb_buffer_ref *refs, uint32_t n_refs,
                      uint32_t n_runs)
{
    const tb_engine *e = c->target.engine;
    uint64_t largest = e->header->layout.class_size[e->header->layout.n_classes - 1];
    uint32_t from[SHARES_MAX + 1] = {0}, begun = 1;
    struct runs r = {0};
    assert(n <= n_runs || n == 1);
    for (uint32_t i = 0; i < n_refs && begun < n; i++)
        if (begins_run(e, &refs[i], &r) && r.n - 1 == (uint64_t)n_runs * begun / n)
            from[begun++] = i;
    from[n] = n_refs;
    for (uint32_t i = 0; i < n; i++)
        shares[i] = (struct share){.c = c,
                                   .refs = refs + from[i],
                                   .n_refs = from[i + 1] - from[i],
                                   .done = c->done + from[i],
                                   .left = c->left + from[i],
                                   .room = largest > RUN_BYTES ? (size_t)largest : RUN_BYTES};
}

/* Append a share's parts to those of the shares before it. */
static int add_parts(struct tb_flush_copy *c, struct share *s)
{
    struct tb_flushed_part *parts = s->n_parts ? realloc(c->parts, (c->n_parts + s->n_parts) * sizeof(*parts)) : NULL;
    if (s->n_parts && !parts)
        return -ENOMEM;
    if (parts) {
        memcpy(parts + c->n_parts, s->parts, s->n_parts * sizeof(*parts));
        c->parts = parts;
    }
    for (uint32_t k = 0; k < s->n_done; k++)
        s->done[k].first_part += c->n_parts;
    c->n_parts += s->n_parts;
    return 0;
}

static __attribute__((unused)) bool is_ascending(const struct tb_buffer_ref *refs, uint32_t n)
{
    for (uint32_t i = 1; i < n; i++)
        if (refs[i - 1].start > refs[i].start)
            return false;
    return true;
}

/* Each buffer has its own parts, and what is left is in the order of the list. */
static __attribute__((unused)) bool is_whole(const struct tb_flush_copy *c)
{
    for (uint32_t i = 0; i < c->n_done; i++) {
        const struct tb_flushed *d = &c->done[i];
        if (d->first_part + d->n_parts > c->n_parts)
            return false;
        for (uint32_t k = d->first_part; k < d->first_part + d->n_parts; k++)
            if (c->parts[k].lo >= c->parts[k].hi)
                return false;
    }
    return is_ascending(c->left, c->n_left);
}

/* Results are at the front of each share's part of `done` and `left`: close the gaps between them. */
static int add_up(struct tb_flush_copy *c, struct share *shares, uint32_t n)
{
    int rc = 0;
    for (uint32_t i = 0; i < n; i++) {
        int added = add_parts(c, &shares[i]);
        for (uint32_t k = 0; k < shares[i].n_done; k++)
            c->done[c->n_done++] = shares[i].done[k];
        for (uint32_t k = 0; k < shares[i].n_left; k++)
            c->left[c->n_left++] = shares[i].left[k];
        c->journaled |= shares[i].journaled;
        c->gave_way |= shares[i].gave_way;
        c->spared |= shares[i].spared;
        c->unread = c->unread ? c->unread : shares[i].unread;
        c->written += shares[i].written;
        rc = rc ? rc : shares[i].rc ? shares[i].rc : added;
        free(shares[i].parts);
    }
    return rc;
}

void tb_flush_copy_free(struct tb_flush_copy *c)
{
    free(c->done);
    free(c->left);
    free(c->parts);
    c->done = NULL;
    c->left = NULL;
    c->parts = NULL;
    c->n_done = c->n_left = c->n_parts = 0;
}

/* Threads only where the bytes are worth them. The caller's thread works too, so one thread is always there. */
int tb_flush_copy(struct tb_flush_copy *c, const struct tb_buffer_ref *refs, uint32_t n_refs)
{
    struct share shares[SHARES_MAX];
    bool started[SHARES_MAX] = {false};
    struct runs runs = all_runs(c->target.engine, refs, n_refs);
    uint32_t n = n_shares(c, refs, n_refs, &runs);
    assert(c->target.fd >= 0 && c->target.can_write && tb_file_is_claimed(c->target.engine, c->target.file));
    TB_ASSERT_WHOLE(is_ascending(refs, n_refs));
    c->n_done = c->n_left = c->n_parts = 0;
    c->journaled = c->gave_way = c->spared = false;
    c->parts = NULL;
    c->done = malloc((n_refs + 1) * sizeof(*c->done));
    c->left = malloc((n_refs + 1) * sizeof(*c->left));
    if (!c->done || !c->left)
        return -ENOMEM;
    share_out(c, shares, n, refs, n_refs, runs.n);
    for (uint32_t i = 1; i < n; i++)
        started[i] = pthread_create(&shares[i].thread, NULL, copy_share_and_pay, &shares[i]) == 0;
    for (uint32_t i = 0; i < n; i++)
        if (!started[i]) /* the first, and those no thread could be made for */
            copy_share(&shares[i]);
    for (uint32_t i = 1; i < n; i++)
        if (started[i])
            pthread_join(shares[i].thread, NULL);
    int rc = add_up(c, shares, n);
    assert(c->n_done + c->n_left <= n_refs);
    TB_ASSERT_WHOLE(rc || is_whole(c));
    return rc;
}
