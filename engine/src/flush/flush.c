/*
 * Dirty bytes of a file to the PFS: copy and write (flush/copy.h), sync if it was asked
 * for or a journal record refers to the bytes, make the records void, then mark the
 * buffers clean. The file is claimed. A buffer that changed since it was copied stays
 * dirty. If killed anywhere, the buffers are still dirty or their bytes are on the PFS.
 */
#include "flush/flush.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/kill_point.h"
#include "buffer/interval.h"
#include "buffer/map.h"
#include "buffer/of_file.h"
#include "file/claim.h"
#include "file/file.h"
#include "file/state.h"
#include "file/times.h"
#include "flush/backing.h"
#include "flush/copy.h"
#include "flush/queue.h"
#include "io/identity.h"
#include "journal/journal.h"
#include "namespace/rename.h"
#include "region/clients.h"
#include "shared/commit.h"

#define SOME_LOOKS 4096u /* buffers looked at for dirty ones */
#define SOME_CHOICE 8u   /* dirty ones looked at */
#define SPARING 4        /* so often a flush leaves newer writes and takes a new grant; then it takes them along */

struct some { /* buffers of one tier, about so many bytes */
    uint32_t tier;
    uint64_t bytes;
};

/*
 * Locked by the chunk, and nothing in the buffer changed since the copy. The other dirty bytes are not this node's any more, and can
 * go when they have nothing of this node's on both sides in their block: so what the PFS has now leaves the buffer.
 */
static void remove_parts(struct tb_flush_copy *c, const struct tb_flushed *d, struct tb_buffer *b)
{
    tb_engine *e = c->target.engine;
    for (uint32_t i = d->first_part; i < d->first_part + d->n_parts; i++) {
        uint32_t lo = c->parts[i].lo, hi = c->parts[i].hi;
        if (tb_interval_may_remove(e, b, lo, hi) && tb_interval_remove(e, b, lo, hi) == 0)
            tb_counters(e, b)->flushed += hi - lo;
    }
    e->region.file_nodes[c->target.file].n_cleaned++;
    tb_map_count_dirty(e, b);
}

/* It may have been recorded only since it was copied. */
static bool is_journaled(const struct tb_buffer *b)
{
    return b->flags & TB_BUFFER_JOURNALED || b->prev != TB_NONE;
}

/* Locked by the chunk. The record is forgotten before the bytes count as clean, because a clean buffer may be reclaimed at once. */
static void clean_buffer(tb_engine *e, uint32_t file, struct tb_buffer *b)
{
    TB_STEP("set clean");
    tb_map_forget_record(e, b);
    TB_STEP("record forgotten");
    tb_buffer_release_prev(e, b);
    tb_counters(e, b)->flushed += tb_interval_dirty_bytes(e, b);
    TB_STEP("flushed");
    tb_interval_clean(e, b);
    TB_STEP("clean");
    if (e->region.file_nodes)
        e->region.file_nodes[file].n_cleaned++;
    tb_map_count_dirty(e, b);
    assert(tb_buffer_is_clean(b));
}

/*
 * Locked by the chunk. Only if the version is that of the copy, and no fsync recorded the
 * buffer after its records were made void: nothing would make the newer record void.
 */
static void set_clean(struct tb_flush_copy *c, const struct tb_flushed *d, bool *dropped_journaled)
{
    tb_engine *e = c->target.engine;
    struct tb_buffer *b = &e->region.buffers[d->buffer];
    int stripe = tb_flush_lock(c, d->start);
    if (stripe < 0)
        return;
    bool same = tb_buffer_is_at(b, c->target.file, d->cell) && b->version == d->version;
    bool journaled = same && is_journaled(b);
    if (d->partial) {
        if (same && (d->journaled || !journaled))
            remove_parts(c, d, b);
        tb_flush_unlock(c, stripe);
        return;
    }
    bool newer = same && b->flags & TB_BUFFER_JOURNALED && !d->sealed;
    if (same && !newer && (d->voided || !journaled)) {
        *dropped_journaled |= journaled;
        clean_buffer(e, c->target.file, b);
    }
    tb_flush_unlock(c, stripe);
}

/* Interval by interval: bytes between them may belong to a smaller buffer with a record of its own. */
static int void_intervals(tb_engine *e, uint32_t file, const struct tb_buffer *b, uint64_t start)
{
    int rc = 0;
    for (uint32_t lo = b->dirty_lo, a, z; !rc && tb_interval_dirty(e, b, lo, b->dirty_hi, &a, &z); lo = z)
        rc = tb_journal_drop(e, file, start + a, z - a, 0);
    return rc;
}

/* A buffer changed since it was copied: records that are not newer than the copy are void. */
static int void_copied(tb_engine *e, uint32_t file, const struct tb_flushed *d, const struct tb_flushed_part *parts)
{
    int rc = 0;
    if (!d->fragmented)
        return d->lo < d->hi ? tb_journal_drop(e, file, d->start + d->lo, d->hi - d->lo, d->sequence) : 0;
    for (uint32_t i = 0; i < d->n_parts && !rc; i++)
        rc = tb_journal_drop(e, file, d->start + parts[i].lo, parts[i].hi - parts[i].lo, d->sequence);
    return rc;
}

/*
 * Locked by the chunk, so that a newer record of the same bytes comes after the DROP in
 * the journal. If the buffer changed since, records up to the copy are void all the same:
 * an fsync may rely on the PFS now, and replay must not put older bytes there. For the
 * same reason an fsync that has put aside what the buffer replaced makes no record of it
 * any more: n_voided tells it so, before the DROP.
 */
static int void_record(struct tb_flush_copy *c, struct tb_flushed *d)
{
    tb_engine *e = c->target.engine;
    uint32_t file = c->target.file;
    struct tb_buffer *b = &e->region.buffers[d->buffer];
    int rc = 0, stripe = tb_flush_lock(c, d->start);
    if (stripe < 0)
        return stripe;
    bool same = tb_buffer_is_at(b, file, d->cell) && b->version == d->version, unchanged = same && !d->partial;
    d->sequence = same ? 0 : d->sequence; /* of bytes that leave the buffer no record counts, however new */
    d->voided = unchanged && (b->flags & TB_BUFFER_JOURNALED || b->prev != TB_NONE);
    d->sealed = d->voided && b->flags & TB_BUFFER_JOURNALED;
    if (d->voided || d->journaled)
        e->region.locks->chunk[tb_chunk_of(e, file, d->start).stripe].n_voided++;
    if (d->voided)
        rc = void_intervals(e, file, b, d->start);
    else if (d->journaled && !unchanged)
        rc = void_copied(e, file, d, c->parts + d->first_part);
    /*
     * not earlier: an fsync that finds the flag frees the bytes of older records, which
     * the DROP must have made void
     */
    if (d->sealed && !rc)
        b->flags |= TB_BUFFER_RECORDED; /* an fsync that is about to record it has its promise kept on the PFS */
    tb_flush_unlock(c, stripe);
    return rc;
}

/* Make records of bytes that are on the PFS now void, before a buffer that they refer to is used again. */
static int void_records(struct tb_flush_copy *c)
{
    int rc = 0;
    for (uint32_t i = 0; i < c->n_done && !rc; i++)
        rc = void_record(c, &c->done[i]);
    TB_STEP("dropped records");
    return rc ? rc : tb_journal_sync(c->target.engine);
}

static int sync_backing(struct tb_flush_copy *c)
{
    TB_STEP("flush sync");
    int rc = tb_target_sync(&c->target);
    TB_STEP("flush synced");
    return rc;
}

/* What the backing file looks like after our own flush, so that the next first opener sees a change by others. */
static void note_backing(tb_engine *e, uint32_t file, int fd)
{
    struct tb_file *f = &e->region.files[file];
    struct tb_identity id;
    int64_t given = tb_times_give(f, fd);
    if (tb_identity_of_fd(fd, &id))
        return;
    int stripe = tb_file_lock(e, file);
    f->backing_size = id.size;
    /* a flush of another node could have the same time: never believe it */
    f->backing_mtime_ns = e->header->config.several_nodes ? TB_NEVER_NS : id.mtime_ns;
    f->backing_ctime_ns = id.ctime_ns;
    tb_file_unlock(e, stripe);
    tb_times_given(f, given);
}

/* The keeper drops its copies of what a flush has put there, also of what no journal promised. */
static bool has_copies(const struct tb_flush_copy *c)
{
    const tb_engine *e = c->target.engine;
    return tb_has_copies(e) && tb_is_shared(e, &e->region.files[c->target.file]);
}

/* Copy, sync, void: after that nothing can take back the bytes that were copied. */
static int put(struct tb_flush_copy *c, const struct tb_buffer_ref *refs, uint32_t n, bool sync)
{
    c->syncs = sync;
    int rc = tb_flush_copy(c, refs, n);
    if (!rc && (sync || c->journaled || has_copies(c)))
        rc = sync_backing(c);
    if (!rc && c->journaled)
        rc = void_records(c);
    return rc;
}

/* The journal is emptied only after the last buffer with a record has forgotten it. */
static void set_all_clean(struct tb_flush_copy *c)
{
    bool dropped = false;
    for (uint32_t i = 0; i < c->n_done; i++)
        set_clean(c, &c->done[i], &dropped);
    if (dropped)
        tb_journal_trim(c->target.engine);
}

static bool is_gone(int error)
{
    return error == -ENOENT || error == -ESTALE;
}

/* A record that waits may have a place that its file has left: it learns the name first. */
static int open_followed(const struct tb_target *t, int flags)
{
    int fd = tb_target_open(t->engine, t->file, flags);
    bool follows = is_gone(fd) && t->engine->region.files[t->file].flags & TB_FILE_WAITING && !tb_rename_follow(t->engine, t->file);
    return follows ? tb_target_open(t->engine, t->file, flags) : fd;
}

/*
 * A descriptor of the flush's own is opened for each list, and closed when the bytes are written. To look and to sync, one of a file
 * that may not be written is as good.
 */
static int open_own(struct tb_flush_copy *c, bool writes)
{
    c->target.fd = open_followed(&c->target, O_WRONLY);
    if (c->target.fd == -EACCES && !writes)
        c->target.fd = open_followed(&c->target, O_RDONLY);
    return c->target.fd < 0 ? c->target.fd : 0;
}

static int close_own(struct tb_flush_copy *c)
{
    note_backing(c->target.engine, c->target.file, c->target.fd);
    int rc = TB_IO(c->target.io, close, c->target.fd);
    c->target.fd = -1;
    return rc;
}

/* It is closed before the buffers count as clean: some file systems report a failed write only then. */
static int flush_refs(struct tb_flush_copy *c, const struct tb_buffer_ref *refs, uint32_t n, bool sync)
{
    bool own = c->target.fd < 0;
    int rc = own ? open_own(c, n > 0) : 0;
    if (rc)
        return rc;
    rc = put(c, refs, n, sync);
    int closed = own ? close_own(c) : 0;
    rc = rc ? rc : closed;
    if (!rc)
        set_all_clean(c);
    return rc;
}

/* Keep the first buffers of one tier: enough for `bytes`, and at least a part of all, to pay for the walk. */
static uint32_t keep_some(const tb_engine *e, struct tb_buffer_ref *refs, uint32_t n, const struct some *some)
{
    uint32_t kept = 0, least = n / 16;
    uint64_t size = 0;
    for (uint32_t i = 0; i < n && (size < some->bytes || kept < least); i++) {
        const struct tb_buffer *b = &e->region.buffers[refs[i].buffer];
        if (tb_slab_layout(e, b)->tier == some->tier) {
            refs[kept++] = refs[i];
            size += tb_buffer_size(e, b);
        }
    }
    return kept;
}

/* The buffers that hold bytes which were dirty at the start and are not copied yet. With a new grant: all. */
static struct tb_buffer_ref *list_left(struct tb_flush_copy *c, uint32_t *n)
{
    struct tb_buffer_ref *refs = tb_file_buffers(c->target.engine, c->target.file, TB_BUFFERS_DIRTY, n);
    if (refs && !c->spared)
        *n = tb_buffers_overlapping(c->target.engine, refs, *n, c->left, c->n_left);
    return refs;
}

/* False: the record has become another file's, or the file lost its name and must not be flushed any more. */
static bool claim_again(tb_engine *e, uint32_t file, const struct tb_identity *id, bool named)
{
    const struct tb_file *f = &e->region.files[file];
    if (!tb_file_claim(e, file))
        return false;
    bool same = tb_identity_is(f, id) && !(named && f->flags & TB_FILE_UNLINKED);
    if (!same)
        tb_file_unclaim(e, file);
    return same;
}

/*
 * Let a waiter have the claim once, then claim again. Another node may have taken bytes in between, or some were spared. Then a new grant
 * comes first, since a process that waits for other nodes must not hold the claim. `*rc`: why there is no grant.
 */
static bool give_way(struct tb_flush_copy *c, bool named, int *rc)
{
    tb_engine *e = c->target.engine;
    uint32_t file = c->target.file;
    const struct tb_file *f = &e->region.files[file];
    struct tb_identity id = {.device = f->device, .inode = f->inode, .birth_ns = f->birth_ns};
    bool again = c->spared, shared = tb_is_shared(e, f);
    TB_MEETING("flush gives way");
    tb_file_unclaim(e, file);
    tb_file_let_others_claim(e, file);
    do {
        *rc = !again && tb_grant_of(e, file) ? 0 : tb_grant_take(e, file);
        if (!claim_again(e, file, &id, named))
            return false;
        c->only = tb_grant_of(e, file);
        again = shared && !*rc && !c->only;
        if (again)
            tb_file_unclaim(e, file);
    } while (again);
    return true;
}

/* All bytes that were dirty at the start. What is written later may wait for another flush. */
static int flush_all(struct tb_flush_copy *c, bool sync, bool named, bool *gone)
{
    uint32_t n;
    struct tb_buffer_ref *refs = tb_file_buffers(c->target.engine, c->target.file, TB_BUFFERS_DIRTY, &n);
    int rc, grants = 0;
    do {
        c->spares = c->gives_way && grants++ < SPARING;
        rc = n && !refs ? -ENOMEM : flush_refs(c, refs, n, sync);
        free(refs);
        bool more = !rc && (c->n_left || c->spared), gives_way = c->gave_way || c->spared;
        *gone = more && gives_way && !give_way(c, named, &rc);
        c->settled = !gives_way;
        more &= !rc;
        refs = more && !*gone ? list_left(c, &n) : (n = 0, NULL);
        tb_flush_copy_free(c);
    } while (n);
    free(refs); /* the last list had no buffer that was left */
    return rc ? rc : c->unread;
}

static int flush_some(struct tb_flush_copy *c, const struct some *some)
{
    uint32_t n;
    struct tb_buffer_ref *refs = tb_file_buffers(c->target.engine, c->target.file, TB_BUFFERS_DIRTY, &n);
    c->spares = true;
    n = refs ? keep_some(c->target.engine, refs, n, some) : 0;
    int rc = n ? flush_refs(c, refs, n, false) : 0;
    tb_flush_copy_free(c);
    free(refs);
    return rc ? rc : c->unread;
}

/* The file takes its place. That moves its ctime, so the backing file is looked at once more. */
static int publish(struct tb_flush_copy *c)
{
    int rc = tb_rename_publish(c->target.engine, c->target.file);
    bool own = c->target.fd < 0;
    rc = rc || !own ? rc : open_own(c, false);
    return rc || !own ? rc : close_own(c);
}

/* Nothing is dirty, or the file has neither a name nor a descriptor to reach it by. */
static bool has_no_work(const struct tb_file *f, int fd, bool sync)
{
    return (!tb_file_has_news(f) && !sync) || (fd < 0 && f->flags & TB_FILE_UNLINKED);
}

/*
 * A time may be left that no flush of bytes will give: a cut took the bytes, or a flush took them before their writer had noted the time. It
 * would be shown instead of what the program sets next. The backing file is not noted here: another program may have changed it.
 */
static void give_time(struct tb_flush_copy *c)
{
    struct tb_file *f = &c->target.engine->region.files[c->target.file];
    bool own = c->target.fd < 0;
    if (f->written_ns <= 0 || (own && (f->flags & TB_FILE_UNLINKED || open_own(c, false))))
        return;
    tb_times_given(f, tb_times_give(f, c->target.fd));
    if (own)
        TB_IO(c->target.io, close, c->target.fd);
    c->target.fd = own ? -1 : c->target.fd;
}

/* It waited for a name that no file will have: another program or another call removed it. Bytes of it would be kept apart. */
static bool is_to_forget(const struct tb_file *f, int error)
{
    return is_gone(error) && !f->n_dirty && !(f->flags & TB_FILE_WAITING);
}

/* The bytes, and then the name that the file waits for, where all its bytes are there. `lost`: as `gone` of flush_all. */
static int flush_and_publish(struct tb_flush_copy *c, bool sync, const struct some *some, bool *lost)
{
    const struct tb_file *f = &c->target.engine->region.files[c->target.file];
    bool waits = f->flags & TB_FILE_WAITING;
    int rc = some ? flush_some(c, some) : flush_all(c, sync, c->target.fd < 0, lost);
    if (!rc && !some && !*lost && f->flags & TB_FILE_WAITING)
        rc = publish(c);
    return waits && !*lost && is_to_forget(f, rc) ? 0 : rc;
}

/*
 * The claim is still held. The error is kept for the next fsync or close. A name that leads
 * elsewhere would fail every flush to come, so the file is tied.
 */
static void note_outcome(tb_engine *e, uint32_t file, int fd, int error)
{
    struct tb_file *f = &e->region.files[file];
    if (fd >= 0)
        note_backing(e, file, fd);
    if (error == -ENOENT || error == -ESTALE)
        tb_file_tie(f);
    if (error)
        f->error = error;
}

/* Of a file that other nodes may write only those bytes go that the owner says are this node's, until tb_grant_end. */
static int take_grant(struct tb_flush_copy *c)
{
    tb_engine *e = c->target.engine;
    uint32_t file = c->target.file;
    if (!tb_is_shared(e, &e->region.files[file]))
        return 0;
    int rc = tb_grant_of(e, file) ? 0 : tb_grant_take_claimed(e, file);
    c->only = tb_grant_of(e, file);
    return rc ? rc : c->only ? 0 : -EAGAIN;
}

/*
 * Flush all dirty bytes, or `some`. With `gone`, the claim may be given up in between; it
 * says whether the record is lost then.
 */
static struct tb_flush_result flush(tb_engine *e, uint32_t file, int fd, bool sync, const struct some *some, bool *gone)
{
    bool lost = false;
    assert(tb_file_is_claimed(e, file));
    struct tb_flush_copy c = {.target = {.engine = e, .io = tb_file_io(e, file), .file = file, .fd = fd, .can_write = true},
                              .gives_way = gone != NULL};
    if (has_no_work(&e->region.files[file], fd, sync)) {
        give_time(&c);
        tb_grant_end(e, file);
        return (struct tb_flush_result){0, 0};
    }
    int error = take_grant(&c);
    if (!error)
        error = flush_and_publish(&c, sync, some, &lost);
    if (!lost)
        note_outcome(e, file, fd, error);
    tb_grant_end(e, file);
    if (gone)
        *gone = lost;
    return (struct tb_flush_result){c.written, error};
}

struct one {
    struct tb_flush_copy copy;
    struct tb_buffer_ref ref;
};

/* The caller keeps the chunk's lock, so the copy cannot be out of date before it counts. */
static int put_one(struct tb_target *t, int fd, void *arg)
{
    struct one *one = arg;
    one->copy.target = *t;
    one->copy.target.fd = fd;
    one->copy.target.can_write = true;
    return put(&one->copy, &one->ref, 1, false);
}

/* The descriptor is closed before the buffer counts as clean: some file systems report a failed write only then. */
int tb_flush_and_empty(struct tb_target *t, struct tb_buffer *b)
{
    tb_engine *e = t->engine;
    struct one one = {.copy = {.locked = true}, .ref = {tb_buffer_number(e, b), b->cell, tb_buffer_start(e, b)}};
    assert(tb_buffer_is_at(b, t->file, b->cell) && tb_file_is_claimed(e, t->file));
    int rc = tb_target_with_writable(t, put_one, &one);
    rc = rc ? rc : one.copy.unread;
    if (!rc) {
        set_all_clean(&one.copy);
        TB_STEP("flushed one");
        tb_interval_empty(e, b);
        tb_map_count_dirty(e, b);
    }
    tb_flush_copy_free(&one.copy);
    return rc;
}

struct tb_flush_result tb_flush_claimed(tb_engine *e, uint32_t file, int fd, bool sync)
{
    return flush(e, file, fd, sync, NULL, NULL);
}

struct tb_flush_result tb_flush_giving_way(tb_engine *e, uint32_t file, int fd, bool sync)
{
    bool gone = false;
    struct tb_flush_result result = flush(e, file, fd, sync, NULL, &gone);
    if (gone)
        return result;
    tb_file_unclaim(e, file);
    tb_file_let_others_claim(e, file);
    return result;
}

/* Read without a lock: the claim checks again. */
static TB_UNLOCKED uint32_t file_to_flush(const tb_engine *e, const struct tb_buffer *b)
{
    uint32_t file = b->file;
    if (b->state != TB_BUFFER_LIVE || !tb_buffer_is_dirty(b) || file >= e->region.n_file_buckets)
        return TB_NONE;
    return tb_file_flush_state(&e->region.files[file]) == TB_FLUSH_DUE ? file : TB_NONE;
}

/*
 * Look at the next few dirty buffers of the tier and take the file that has most dirty
 * buffers, or TB_NONE. A file that was just begun is a bad choice: the flush would take
 * the chunk that is being written, and the writer cannot reclaim a buffer of a chunk that
 * it has locked.
 */
static uint32_t next_to_flush(tb_engine *e, uint32_t tier)
{
    const struct tb_layout *l = &e->header->layout;
    uint32_t best = TB_NONE, met = 0;
    for (uint32_t s = l->tier_first_slab[tier]; tb_is_slab_of(l, s, tier); s++)
        for (uint32_t looks = 0; looks < SOME_LOOKS && looks < l->slab[s].n_buffers && met < SOME_CHOICE; looks++) {
            uint32_t at = l->slab[s].first_buffer + e->region.slabs[s].hand++ % l->slab[s].n_buffers;
            uint32_t file = file_to_flush(e, &e->region.buffers[at]);
            met += file != TB_NONE;
            if (file != TB_NONE && (best == TB_NONE || e->region.files[file].n_dirty > e->region.files[best].n_dirty))
                best = file;
        }
    return best;
}

/* For a writer without room. It never waits for a claim: if the file is claimed, the writer tries again later. */
void tb_flush_some(tb_engine *e, uint32_t tier, uint64_t bytes)
{
    uint32_t file = next_to_flush(e, tier);
    if (file == TB_NONE || tb_grant_take(e, file))
        return;
    if (!tb_file_try_claim(e, file)) {
        tb_grant_end(e, file);
        return;
    }
    flush(e, file, -1, false, &(struct some){tier, bytes > TB_FLUSH_SOME ? bytes : TB_FLUSH_SOME}, NULL);
    tb_file_unclaim(e, file);
}

/*
 * The grant comes first: a flush that waits for other nodes must not hold the claim, which a node that waits for this one may
 * need here. Where it fails the flush asks once more, and says why.
 */
bool tb_flush_claim(tb_engine *e, uint32_t file)
{
    for (;;) {
        int rc = tb_grant_take(e, file);
        if (!tb_file_claim(e, file))
            return tb_grant_end(e, file), false;
        if (rc || !tb_is_shared(e, &e->region.files[file]) || tb_grant_of(e, file))
            return true;
        tb_file_unclaim(e, file);
    }
}

void tb_flush_unclaim(tb_engine *e, uint32_t file)
{
    tb_file_unclaim(e, file);
    tb_grant_end(e, file);
}

int tb_file_take_error(tb_engine *e, uint32_t file)
{
    _Atomic int32_t *error = &e->region.files[file].error;
    return *error ? atomic_exchange(error, 0) : 0; /* most have none, and an exchange waits for all stores before it */
}
