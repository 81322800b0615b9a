/*
 * Bytes of shared files in this node's buffers (shared/local.h).
 *
 * Dirty bytes here are newer than what any other node committed, or they were committed and the file's keeper knows
 * them as this node's, or it knows that this node has to let go of them. When another node commits the same bytes, they go before that
 * commit returns, under the file's claim: no flush is under way that could put them over newer ones.
 */
#include "shared/local.h"

#include <errno.h>
#include <stdlib.h>

#include "buffer/interval.h"
#include "buffer/map.h"
#include "buffer/medium.h"
#include "buffer/of_file.h"
#include "file/claim.h"
#include "file/state.h"
#include "journal/journal.h"
#include "region/counters.h"
#include "shared/recent.h"

#define TRIES 100 /* a list of buffers is made again where the organizer moved one of them */

uint32_t tb_local_find(tb_engine *e, const struct tb_wire_file *id)
{
    const struct tb_identity as_here = {.device = e->shared_device, .inode = id->inode, .birth_ns = id->birth_ns};
    return tb_file_find(e, &as_here);
}

/* A record that is not held may have become another file's: asked again under the lock that keeps it. */
static bool is_it(const tb_engine *e, uint32_t file, const struct tb_wire_file *id)
{
    const struct tb_file *f = &e->region.files[file];
    return f->inode == id->inode && f->birth_ns == id->birth_ns && f->device == e->shared_device;
}

/* 1: it is not there any more. */
static int add_dirty(tb_engine *e, uint32_t file, const struct tb_buffer_ref *ref, struct tb_ranges *out)
{
    const struct tb_buffer *b = &e->region.buffers[ref->buffer];
    int stripe = tb_chunk_lock(e, file, ref->start);
    if (stripe < 0)
        return stripe;
    int rc = tb_buffer_is_at(b, file, ref->cell) ? 0 : 1;
    uint64_t size = e->region.files[file].size;
    for (uint32_t lo = 0, a, z; !rc && tb_interval_dirty(e, b, lo, (uint32_t)tb_buffer_size(e, b), &a, &z); lo = z)
        if (ref->start + a < size)
            rc = tb_ranges_add(out, ref->start + a, ref->start + z < size ? ref->start + z : size);
    tb_chunk_unlock(e, stripe);
    return rc;
}

void tb_local_hear(tb_engine *e, uint32_t file, uint64_t version)
{
    struct tb_file_nodes *f = &e->region.file_nodes[file];
    uint64_t heard = f->heard;
    while (heard < version && !atomic_compare_exchange_weak(&f->heard, &heard, version))
        ;
}

uint64_t tb_local_tick(tb_engine *e)
{
    return ++e->header->asking.clock;
}

/* Buffer by buffer, each under its chunk's lock. What is cleaned in that time, the keeper learns later than this list (daemon/turn.h). */
static int list_dirty(tb_engine *e, uint32_t file, struct tb_ranges *out)
{
    uint32_t n;
    struct tb_buffer_ref *refs = tb_file_buffers(e, file, TB_BUFFERS_DIRTY, &n);
    int rc = n && !refs ? -ENOMEM : 0;
    for (uint32_t i = 0; i < n && !rc; i++)
        rc = add_dirty(e, file, &refs[i], out);
    free(refs);
    return rc;
}

/* What was listed twice is one range in the end. */
int tb_local_dirty(tb_engine *e, uint32_t file, struct tb_ranges *out)
{
    int rc = 1;
    for (int i = 0; i < TRIES && rc == 1; i++)
        rc = list_dirty(e, file, out);
    tb_ranges_settle(out);
    return rc == 1 ? -EAGAIN : rc;
}

/* Of one chunk; its lock is held. */
static int read_locked(tb_engine *e, uint32_t file, uint64_t lo, uint64_t hi, char *to)
{
    int rc = 0;
    for (uint64_t at = lo, end; at < hi && !rc; at = end) {
        const struct tb_buffer *b = tb_map_owner(e, file, at, hi, &end);
        assert(end > at && end <= hi);
        uint32_t from, until, start = b ? (uint32_t)(at - tb_buffer_start(e, b)) : 0, n = (uint32_t)(end - at);
        if (!b || !tb_interval_valid(e, b, start, start + n, &from, &until) || from != start || until != start + n)
            return -ESTALE;
        rc = tb_medium_read(e, b, start, n, to + (at - lo));
        if (rc == -EHOSTDOWN) /* clean bytes are on the PFS, as the keeper is about to learn */
            rc = tb_buffer_is_clean(b) ? -ESTALE : -EIO;
    }
    return rc;
}

/* Clean bytes are as good: they were flushed from here a moment ago, and the keeper is about to learn it. */
int tb_local_read(tb_engine *e, const struct tb_wire_file *id, uint64_t lo, uint64_t hi, char *to)
{
    uint32_t file = tb_local_find(e, id);
    int rc = file == TB_NONE ? -ESTALE : 0;
    for (uint64_t at = lo, end; at < hi && !rc; at = end) {
        end = (tb_size_divide(at, e->header->chunk) + 1) * e->header->chunk.bytes;
        end = end < hi ? end : hi;
        int stripe = tb_chunk_lock(e, file, at);
        if (stripe < 0)
            return stripe;
        rc = is_it(e, file, id) ? read_locked(e, file, at, end, to + (at - lo)) : -ESTALE;
        tb_chunk_unlock(e, stripe);
    }
    return rc;
}

/* The part of a buffer inside [lo, hi). False: none. */
static bool part_of(const tb_engine *e, const struct tb_buffer *b, uint64_t lo, uint64_t hi, uint32_t *from, uint32_t *to)
{
    uint64_t start = tb_buffer_start(e, b), end = start + tb_buffer_size(e, b);
    if (hi <= start || lo >= end)
        return false;
    *from = lo > start ? (uint32_t)(lo - start) : 0;
    *to = (uint32_t)((hi < end ? hi : end) - start);
    assert(*from < *to && *to <= tb_buffer_size(e, b));
    return true;
}

/* Nothing of it is left then that the PFS lacks, so it may go as a whole. */
static bool holds_all_dirty(const struct tb_buffer *b, uint32_t lo, uint32_t hi)
{
    return !tb_buffer_is_dirty(b) || (b->dirty_lo >= lo && b->dirty_hi <= hi);
}

/* Bytes of a file that go from here, or are looked at for that (`try`). */
struct removal {
    tb_engine *e;
    uint32_t file;
    bool try;
    bool some; /* there are, and they can go; */
    bool busy; /* or can't: dirty bytes that stay are on both sides in their block */
};

/* Locked by the chunk. What ends inside a block on both sides may be between dirty bytes that stay. */
static int remove_bytes(struct removal *r, struct tb_buffer *b, uint32_t lo, uint32_t hi)
{
    uint32_t from, to;
    if (!tb_interval_valid(r->e, b, lo, hi, &from, &to))
        return 0;
    int rc = !tb_interval_may_remove(r->e, b, lo, hi) ? -ENOBUFS : r->try ? 0 : tb_interval_remove(r->e, b, lo, hi);
    r->busy |= rc == -ENOBUFS;
    r->some |= !rc;
    return rc == -ENOBUFS ? 0 : rc;
}

/* Locked by the chunk. An fsync that is about to make a record of it looks again: its version, or n_voided, has moved. */
static int remove_part(struct removal *r, struct tb_buffer *b, uint32_t from, uint32_t to)
{
    if (holds_all_dirty(b, from, to)) {
        r->some = true;
        if (!r->try)
            tb_map_drop(r->e, b);
        return 0;
    }
    int rc = remove_bytes(r, b, from, to);
    if (!r->try)
        tb_map_count_dirty(r->e, b);
    return rc;
}

/* 1: it is not there any more. */
static int remove_at(struct removal *r, const struct tb_buffer_ref *ref, uint64_t lo, uint64_t hi)
{
    struct tb_buffer *b = &r->e->region.buffers[ref->buffer];
    uint32_t from, to;
    int stripe = tb_chunk_lock(r->e, r->file, ref->start);
    if (stripe < 0)
        return stripe;
    int rc = tb_buffer_is_at(b, r->file, ref->cell) ? 0 : 1;
    if (!rc && part_of(r->e, b, lo, hi, &from, &to)) {
        r->e->region.locks->chunk[stripe].n_voided += !r->try;
        rc = remove_part(r, b, from, to);
    }
    tb_chunk_unlock(r->e, stripe);
    return rc;
}

static int remove_listed(struct removal *r, uint64_t lo, uint64_t hi)
{
    uint32_t n;
    struct tb_buffer_ref *refs = tb_file_buffers(r->e, r->file, TB_BUFFERS_ALL, &n);
    int rc = n && !refs ? -ENOMEM : 0;
    bool missed = false;
    for (uint32_t i = 0; i < n && rc >= 0; i++) {
        rc = remove_at(r, &refs[i], lo, hi);
        missed |= rc == 1;
    }
    free(refs);
    return rc < 0 ? rc : missed;
}

static int remove_range(struct removal *r, uint64_t lo, uint64_t hi)
{
    int rc = 1;
    for (int i = 0; i < TRIES && rc == 1; i++)
        rc = remove_listed(r, lo, hi);
    return rc == 1 ? -EAGAIN : rc;
}

static int remove_ranges(struct removal *r, const struct tb_ranges *ranges)
{
    int rc = 0;
    for (uint32_t i = 0; i < ranges->n && !rc; i++)
        rc = remove_range(r, ranges->at[i].lo, ranges->at[i].hi);
    return rc;
}

/* Claimed, if it is still this file's. */
static bool claim(tb_engine *e, uint32_t file, const struct tb_wire_file *id)
{
    if (!tb_file_try_claim(e, file))
        return false;
    if (is_it(e, file, id))
        return true;
    tb_file_unclaim(e, file);
    return false;
}

/*
 * From here on no process of this node takes the PFS's bytes for the latest. A grant to write there ends, and so does a list of
 * dirty bytes.
 */
static void tell_of_newer(tb_engine *e, uint32_t file)
{
    struct tb_file_nodes *f = &e->region.file_nodes[file];
    f->known |= 1;
    f->n_let_go++;
    tb_stage_void(e);
    tb_chunk_wait_all(e, file);
}

/* Records are void before their bytes go: a crash must not bring these over the newer ones. */
static int drop_records(tb_engine *e, uint32_t file, const struct tb_ranges *ranges)
{
    int rc = 0;
    if (!tb_journal_has_records(e))
        return 0;
    for (uint32_t i = 0; i < ranges->n && !rc; i++) {
        uint64_t lo = ranges->at[i].lo, hi = ranges->at[i].hi;
        rc = tb_journal_drop(e, file, lo, hi == UINT64_MAX ? 0 : hi - lo, 0);
    }
    return rc ? rc : tb_journal_sync(e);
}

/* What of it is older than the commit. */
static int add_older(tb_engine *e, uint32_t file, const struct tb_due *due, struct tb_ranges *older)
{
    struct tb_ranges newer = {0};
    tb_local_hear(e, file, due->version);
    int rc = tb_recent_newer(e, file, due->version, &newer);
    rc = rc ? rc : tb_ranges_without(&due->ranges, &newer, older);
    tb_ranges_free(&newer);
    return rc;
}

/* What of all of them is older. */
static int list_older(tb_engine *e, uint32_t file, const struct tb_due *due, uint32_t n, struct tb_ranges *older)
{
    int rc = 0;
    tb_ranges_free(older);
    for (uint32_t i = 0; i < n && !rc; i++)
        rc = add_older(e, file, &due[i], older);
    tb_ranges_settle(older);
    return rc;
}

/*
 * A write that is under way at that time may lose a part here and not the rest: it sees the count, and is done once more
 * (layer/write.c). So its bytes are here as a whole, or none where the other node has newer ones.
 */
static int remove_older(struct removal *r, const struct tb_due *due, uint32_t n, struct tb_ranges *older)
{
    struct tb_file_nodes *f = &r->e->region.file_nodes[r->file];
    f->n_tearing++;
    tell_of_newer(r->e, r->file);
    int rc = list_older(r->e, r->file, due, n, older);
    rc = rc ? rc : drop_records(r->e, r->file, older);
    rc = rc ? rc : remove_ranges(r, older);
    f->n_let_go++; /* what was fetched at the same time may hold some of it */
    f->n_torn++;
    f->n_tearing--;
    return rc;
}

/*
 * What can go goes: where older and newer bytes take turns in a block its outer ones go first, then newer ones by a flush, and so on. Where
 * nothing can go only the first try moves the counts: else no grant would hold for as long as the flush
 * needs.
 */
static int let_go_claimed(tb_engine *e, uint32_t file, const struct tb_due *due, uint32_t n, bool again)
{
    struct tb_ranges older = {0};
    struct removal look = {.e = e, .file = file, .try = true}, removal = {.e = e, .file = file};
    assert(tb_file_is_claimed(e, file)); /* so no flush puts these bytes on the PFS */
    int rc = list_older(e, file, due, n, &older);
    rc = rc ? rc : remove_ranges(&look, &older);
    if (!rc && look.busy && !look.some && again)
        removal.busy = true;
    else if (!rc)
        rc = remove_older(&removal, due, n, &older);
    tb_ranges_free(&older);
    return rc ? rc : removal.busy ? -EBUSY : 0;
}

/* Never waits for the claim: its holder may be waiting for the node that asks. */
int tb_local_let_go(tb_engine *e, const struct tb_wire_file *id, const struct tb_due *due, uint32_t n, bool again, uint32_t *file,
                    uint64_t *clock)
{
    *file = tb_local_find(e, id);
    if (*file != TB_NONE && !claim(e, *file, id))
        return -EAGAIN;
    int rc = *file == TB_NONE ? 0 : let_go_claimed(e, *file, due, n, again);
    if (*file != TB_NONE)
        tb_file_unclaim(e, *file);
    *clock = rc ? 0 : tb_local_tick(e);
    return rc;
}

/* As unlink_last of layer/names.c, except for the name, which is gone. */
static int lose_claimed(tb_engine *e, uint32_t file)
{
    int rc = tb_journal_tell_removal(e, file);
    if (!rc) {
        tb_file_lose_name(&e->region.files[file]);
        tb_file_forget_claimed(e, file);
    }
    return rc;
}

int tb_local_lose(tb_engine *e, const struct tb_wire_file *id)
{
    uint32_t file = tb_local_find(e, id);
    if (file == TB_NONE)
        return 0;
    if (!claim(e, file, id))
        return -EAGAIN;
    int rc = lose_claimed(e, file);
    tb_file_unclaim(e, file);
    return rc;
}

int tb_local_lose_own(tb_engine *e, uint32_t file)
{
    if (!tb_file_claim(e, file))
        return 0;
    int rc = lose_claimed(e, file);
    tb_file_unclaim(e, file);
    return rc;
}

/* 1: it is not there any more. */
static int forget_clean(tb_engine *e, uint32_t file, const struct tb_buffer_ref *ref)
{
    struct tb_buffer *b = &e->region.buffers[ref->buffer];
    int stripe = tb_chunk_lock(e, file, ref->start);
    if (stripe < 0)
        return stripe;
    bool there = tb_buffer_is_at(b, file, ref->cell);
    if (there && tb_buffer_is_clean(b))
        tb_map_drop(e, b);
    else if (there && tb_buffer_is_dirty(b))
        tb_interval_forget_clean(e, b);
    tb_chunk_unlock(e, stripe);
    return !there;
}

/* Buffers that were moved or made since are looked at again; read-ahead of old bytes is void. */
void tb_local_forget_clean(tb_engine *e, uint32_t file)
{
    int missed = 1;
    tb_stage_void(e);
    for (int i = 0; i < TRIES && missed; i++) {
        uint32_t n;
        struct tb_buffer_ref *refs = tb_file_buffers(e, file, TB_BUFFERS_ALL, &n);
        missed = n && !refs;
        for (uint32_t k = 0; refs && k < n; k++)
            missed |= forget_clean(e, file, &refs[k]) == 1;
        free(refs);
    }
}
