/*
 * File records: found by identity, joined, made, released, renamed (file/file.h). A stripe
 * of the hash has one lock. Records that are open can be joined without it; anything that
 * makes or frees a record takes it.
 */
#include "region/mix.h"
#include "file/file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/kill_point.h"
#include "base/valid.h"
#include "file/name_tree.h"
#include "file/state.h"
#include "io/identity.h"
#include "region/counters.h"

#define LONGEST_WALK 64u /* steps along a chain without its lock */

/* By the number's upper half, because a remainder would cost as much as all else here. */
static uint32_t bucket_of(const tb_engine *e, uint64_t device, uint64_t inode)
{
    return (uint32_t)((tb_mix64(inode ^ tb_mix64(device)) >> 32) * e->region.n_file_buckets >> 32);
}

static inline __attribute__((always_inline)) bool is_identity(const struct tb_file *f, const struct tb_identity *id)
{
    return f->magic == TB_FILE_MAGIC && f->inode == id->inode && f->device == id->device && f->birth_ns == id->birth_ns;
}

bool tb_identity_is(const struct tb_file *f, const struct tb_identity *id)
{
    return is_identity(f, id);
}

bool tb_file_is_valid(const struct tb_file *f)
{
    return f->magic == TB_FILE_MAGIC && f->name_length > 0 && f->name_length <= TB_FILE_NAME && f->error <= 0 &&
           (f->n_buffers == 0) == (f->first == TB_NONE) && f->n_durable <= f->n_dirty && f->n_dirty <= f->n_buffers &&
           tb_file_state_is_valid(f);
}

/* DIRTY and DURABLE change under the file's lock; other flags may change at this moment, under the chunk's. */
static TB_UNLOCKED uint16_t flags_of(const struct tb_buffer *b)
{
    return b->flags;
}

/* A list that leads in a circle ends at the count, too. */
bool tb_file_is_whole(const tb_engine *e, const struct tb_file *f)
{
    uint32_t prev = TB_NONE, n = 0, n_dirty = 0, n_durable = 0;
    for (uint32_t i = f->first; i != TB_NONE; i = e->region.buffers[i].file_next) {
        const struct tb_buffer *b = &e->region.buffers[i];
        if (b->file_prev != prev || &e->region.files[b->file] != f || ++n > f->n_buffers)
            return false;
        prev = i;
        n_dirty += !!(flags_of(b) & TB_BUFFER_DIRTY);
        n_durable += flags_of(b) & TB_BUFFER_DIRTY && flags_of(b) & TB_BUFFER_DURABLE;
    }
    return tb_file_is_valid(f) && n == f->n_buffers && n_dirty == f->n_dirty && n_durable == f->n_durable;
}

/* Locked by the file. Forward links and flags are right, whatever a killed client left. */
void tb_file_recount(tb_engine *e, struct tb_file *f)
{
    uint32_t prev = TB_NONE, n = 0, n_dirty = 0, n_durable = 0;
    for (uint32_t i = f->first; i != TB_NONE; i = e->region.buffers[i].file_next) {
        struct tb_buffer *b = &e->region.buffers[i];
        b->file_prev = prev;
        prev = i;
        n++;
        n_dirty += !!(flags_of(b) & TB_BUFFER_DIRTY);
        n_durable += flags_of(b) & TB_BUFFER_DIRTY && flags_of(b) & TB_BUFFER_DURABLE;
    }
    f->n_buffers = n;
    f->n_dirty = n_dirty;
    f->n_durable = n_durable;
    TB_ASSERT_WHOLE(tb_file_is_whole(e, f));
}

/* Locked by files.lock. If killed here, a record may be lost until the instance ends; the lists stay usable. */
static uint32_t take_record(tb_engine *e)
{
    struct tb_header *h = e->header;
    tb_lock_take(&h->files.lock);
    uint32_t i = h->files.free;
    if (i != TB_NONE) {
        assert(i < e->region.n_file_buckets && e->region.files[i].magic == 0);
        h->files.free = e->region.files[i].next;
        TB_STEP("file taken");
        h->files.n++;
    }
    tb_lock_drop(&h->files.lock);
    return i;
}

/* Locked by files.lock. The count is lowered last: too high costs a look-up, too low would hide a file (tb_file_may_be_known). */
static void give_record(tb_engine *e, uint32_t i)
{
    struct tb_header *h = e->header;
    assert(e->region.files[i].magic == 0 && e->region.files[i].n_open == 0 && e->region.files[i].n_buffers == 0);
    tb_lock_take(&h->files.lock);
    e->region.files[i].next = h->files.free;
    h->files.n_freed++;
    TB_STEP("file given");
    h->files.free = i;
    TB_STEP("file free");
    h->files.n--;
    tb_lock_drop(&h->files.lock);
}

/*
 * Locked by the stripe; `*link` leads to a record with magic 0. If killed after the chain
 * passes it by, the record and its name are lost until the instance ends.
 */
static void take_out(tb_engine *e, uint32_t *link)
{
    uint32_t i = *link;
    *link = e->region.files[i].next;
    TB_STEP("file taken out");
    tb_names_clear(e, &e->region.files[i]);
    give_record(e, i);
}

/*
 * The holder was killed while it changed a list: forward links and flags are right,
 * backward links and counts are made from them. A record without its magic was being freed.
 */
static void repair_lists(tb_engine *e, uint32_t stripe)
{
    for (uint32_t bucket = stripe; bucket < e->region.n_file_buckets; bucket += TB_STRIPES)
        for (uint32_t *link = &e->region.file_buckets[bucket]; *link != TB_NONE;) {
            struct tb_file *f = &e->region.files[*link];
            if (f->magic != TB_FILE_MAGIC) {
                take_out(e, link);
                continue;
            }
            tb_file_recount(e, f);
            link = &f->next;
        }
}

static int lock_stripe(tb_engine *e, uint32_t stripe)
{
    int rc = tb_lock_take(&e->region.locks->file[stripe].lock);
    if (rc == TB_LOCK_ORPHANED)
        repair_lists(e, stripe);
    assert(rc >= 0);
    return (int)stripe;
}

static TB_UNLOCKED uint32_t stripe_of(const tb_engine *e, uint32_t file)
{
    const struct tb_file *f = &e->region.files[file];
    return bucket_of(e, f->device, f->inode) % TB_STRIPES;
}

/*
 * Until the lock is taken, a record that is not held may become the record of another
 * file, in another stripe: then lock that one.
 */
int tb_file_lock(tb_engine *e, uint32_t file)
{
    for (;;) {
        int stripe = lock_stripe(e, stripe_of(e, file));
        if ((uint32_t)stripe == stripe_of(e, file))
            return stripe;
        tb_file_unlock(e, stripe);
    }
}

void tb_file_unlock(tb_engine *e, int stripe)
{
    tb_lock_drop(&e->region.locks->file[stripe].lock);
}

/* Without birth times, an inode number of a removed file may already be another file's. */
static inline __attribute__((always_inline)) bool is_found(const struct tb_file *f, const struct tb_identity *id)
{
    return is_identity(f, id) && (f->birth_ns || !(f->flags & TB_FILE_UNLINKED));
}

static uint32_t find_locked(tb_engine *e, const struct tb_identity *id)
{
    uint32_t i = e->region.file_buckets[bucket_of(e, id->device, id->inode)];
    while (i != TB_NONE && !is_found(&e->region.files[i], id))
        i = e->region.files[i].next;
    return i;
}

/*
 * Locked by the stripe. The chain leads to the record before it has its magic, and a record
 * without it is not found. If killed before, it is lost until the instance ends; between the
 * two, the next holder of the stripe frees it.
 */
static int make_record(tb_engine *e, int fd, const struct tb_identity *id, const char *path, uint32_t flags, uint32_t *out)
{
    struct tb_identity now;
    uint32_t i = take_record(e);
    if (i == TB_NONE)
        return -ENFILE;
    struct tb_file *f = &e->region.files[i];
    memset(f, 0, sizeof(*f));
    if (e->region.file_nodes)
        memset(&e->region.file_nodes[i], 0, sizeof(*e->region.file_nodes));
    f->first = f->queue_next = TB_NONE;
    int rc = tb_names_set(e, f, path);
    if (rc) {
        give_record(e, i);
        return rc;
    }
    e->note_name(e, f, path);
    if (e->header->files.n_freed != id->n_freed && tb_identity_of_fd(fd, &now) == 0)
        id = &now; /* its record may have been flushed and freed since it was asked */
    f->device = id->device;
    f->inode = id->inode;
    f->birth_ns = id->birth_ns;
    f->size = f->backing_size = id->size;
    f->backing_mtime_ns = id->mtime_ns;
    f->backing_ctime_ns = id->ctime_ns;
    f->flags = flags;
    tb_file_note_change(e, f); /* it is not known whether the bytes and the name that were there before are durable */
    uint32_t *head = &e->region.file_buckets[bucket_of(e, id->device, id->inode)];
    f->next = *head;
    TB_STEP("file made");
    *head = *out = i;
    TB_STEP("file chained");
    f->magic = TB_FILE_MAGIC;
    return 0;
}

/* Without a lock, a chain may change during the walk, or lead into another chain. */
static TB_UNLOCKED uint32_t find_unlocked(const tb_engine *e, const struct tb_identity *id)
{
    uint32_t i = e->region.file_buckets[bucket_of(e, id->device, id->inode)];
    for (uint32_t n = 0; i < e->region.n_file_buckets && n < LONGEST_WALK; n++, i = e->region.files[i].next)
        if (is_found(&e->region.files[i], id))
            return i;
    return TB_NONE;
}

TB_UNLOCKED bool tb_file_may_be_known(const tb_engine *e, const struct stat *st)
{
    uint32_t i = e->header->files.n ? e->region.file_buckets[bucket_of(e, st->st_dev, st->st_ino)] : TB_NONE;
    for (uint32_t n = 0; i < e->region.n_file_buckets; n++, i = e->region.files[i].next)
        if (n == LONGEST_WALK || (e->region.files[i].inode == st->st_ino && e->region.files[i].device == st->st_dev))
            return true;
    return false;
}

/* Join a file that is open already: its record cannot go, so raising n_open needs no lock. -EAGAIN: take the lock. */
static int join(tb_engine *e, const struct tb_identity *id, uint32_t *out)
{
    *out = find_unlocked(e, id);
    if (*out == TB_NONE)
        return -EAGAIN;
    struct tb_file *f = &e->region.files[*out];
    uint32_t n = f->n_open;
    while (n && !atomic_compare_exchange_weak(&f->n_open, &n, n + 1))
        ;
    if (n && !is_found(f, id)) /* between look-up and join the record became another file's */
        return tb_file_put(e, *out) ? TB_FILE_IS_VOID : -EAGAIN;
    return n ? 0 : -EAGAIN;
}

/* Lower n_open, if that does not make it 0: the last one needs the lock. */
static bool leave(struct tb_file *f)
{
    uint32_t n = f->n_open;
    while (n > 1 && !atomic_compare_exchange_weak(&f->n_open, &n, n - 1))
        ;
    return n > 1;
}

static bool is_as_last_seen(const struct tb_file *f, const struct tb_identity *id)
{
    return f->backing_size == id->size && f->backing_mtime_ns == id->mtime_ns && f->backing_ctime_ns == id->ctime_ns;
}

/*
 * Another node or a program outside may have changed the file since it was last seen: then
 * its clean buffers are old. Called with the record locked. An opener that would be the
 * first needs this lock too, so the size that is read here cannot go stale. `id` may be
 * older than a write and its flush, so the file is asked again. False: the buffers must be
 * dropped first, unless they were `dropped`.
 */
static bool believe_backing(tb_engine *e, struct tb_file *f, int fd, const struct tb_identity *id, bool dropped)
{
    struct tb_identity now;
    if (f->n_open || f->n_dirty || is_as_last_seen(f, id) || tb_identity_of_fd(fd, &now) || is_as_last_seen(f, &now))
        return true;
    if (f->n_buffers && !dropped)
        return false;
    tb_stage_void(e); /* read-ahead may have read old bytes that are in no buffer yet */
    f->size = f->backing_size = now.size;
    f->backing_mtime_ns = now.mtime_ns;
    f->backing_ctime_ns = now.ctime_ns;
    return true;
}

/* First without the lock, which is enough for a file that is open already. */
int tb_file_try_get(tb_engine *e, int fd, const struct tb_identity *id, const char *path, uint32_t flags, bool dropped, uint32_t *out)
{
    int rc = join(e, id, out);
    if (rc != -EAGAIN)
        return rc;
    int stripe = lock_stripe(e, bucket_of(e, id->device, id->inode) % TB_STRIPES);
    *out = find_locked(e, id);
    rc = *out == TB_NONE                                             ? make_record(e, fd, id, path, flags, out)
       : believe_backing(e, &e->region.files[*out], fd, id, dropped) ? 0
                                                                     : TB_FILE_IS_OLD;
    if (!rc)
        e->region.files[*out].n_open++;
    tb_file_unlock(e, stripe);
    return rc;
}

uint32_t tb_file_find(tb_engine *e, const struct tb_identity *id)
{
    int stripe = lock_stripe(e, bucket_of(e, id->device, id->inode) % TB_STRIPES);
    uint32_t i = find_locked(e, id);
    tb_file_unlock(e, stripe);
    return i;
}

/*
 * Locked by the stripe. A record is freed when it has no opener, no buffer, no claim, no
 * error to report and no place in the queue. The magic goes first: if killed after it, the
 * next holder of the stripe frees the record; a record with its magic is in its chain.
 */
static void release_locked(tb_engine *e, uint32_t i)
{
    struct tb_file *f = &e->region.files[i];
    if (f->magic != TB_FILE_MAGIC || f->n_open || f->n_buffers || f->flusher || f->error ||
        f->flags & (TB_FILE_QUEUED | TB_FILE_TAKEN | TB_FILE_WAITING))
        return;
    uint32_t *link = &e->region.file_buckets[bucket_of(e, f->device, f->inode)];
    while (*link != i) {
        assert(*link != TB_NONE);
        link = &e->region.files[*link].next;
    }
    f->magic = 0;
    TB_STEP("file freed");
    take_out(e, link);
}

void tb_file_release(tb_engine *e, uint32_t file)
{
    int stripe = tb_file_lock(e, file);
    release_locked(e, file);
    tb_file_unlock(e, stripe);
}

/*
 * The last opener needs the lock: the record may be freed here. True: its bytes are void,
 * and the caller forgets them.
 */
bool tb_file_put(tb_engine *e, uint32_t file)
{
    struct tb_file *f = &e->region.files[file];
    if (leave(f))
        return false;
    int stripe = tb_file_lock(e, file);
    assert(f->n_open && tb_file_is_valid(f));
    TB_ASSERT_WHOLE(tb_file_is_whole(e, f));
    bool last = --f->n_open == 0;
    if (last)
        tb_file_end_opens(f);
    if (last && f->flags & TB_FILE_UNLINKED)
        f->error = 0; /* no process can ask for the error any more */
    bool void_now = last && f->flags & TB_FILE_UNLINKED && f->n_buffers;
    release_locked(e, file);
    tb_file_unlock(e, stripe);
    return void_now;
}

void tb_file_take_name(tb_engine *e, uint32_t file, struct tb_file *from, const char *path)
{
    int stripe = tb_file_lock(e, file);
    struct tb_file *f = &e->region.files[file];
    tb_names_take(e, f, from);
    e->note_name(e, f, path);
    tb_file_unlock(e, stripe);
}

/* If the table of names is full it keeps its old name, and its next flush tells that. */
int tb_file_rename(tb_engine *e, uint32_t file, const char *path)
{
    struct tb_file named;
    int rc = tb_names_set(e, &named, path);
    if (!rc)
        tb_file_take_name(e, file, &named, path);
    return rc;
}

size_t tb_file_path(tb_engine *e, const struct tb_file *f, char *out, size_t size)
{
    return tb_names_path(e, f, out, size);
}
