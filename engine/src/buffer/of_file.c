/*
 * All buffers of one file: listing them, cutting them at a new length, dropping the clean
 * ones, forgetting those of a removed file. A list is a snapshot. Each buffer is checked
 * again under its chunk's lock, and a walk is repeated while a buffer was not where the
 * list said.
 */
#include "buffer/of_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/kill_point.h"
#include "buffer/interval.h"
#include "buffer/map.h"
#include "file/claim.h"
#include "file/file.h"
#include "journal/journal.h"
#include "region/clients.h"
#include "region/counters.h"

static int by_start(const void *a, const void *b)
{
    const struct tb_buffer_ref *x = a, *y = b;
    return x->start < y->start ? -1 : x->start > y->start;
}

/* How many of them the file's list has. Exact: counts and flags change under the file's lock. */
static uint32_t count_of(const struct tb_file *f, enum tb_buffers_which which)
{
    return which == TB_BUFFERS_ALL ? f->n_buffers : which == TB_BUFFERS_DIRTY ? f->n_dirty : f->n_dirty - f->n_durable;
}

/*
 * Other flags may change at this moment. A buffer that is not LIVE is about to be freed,
 * or was left so by a killed client.
 */
static TB_UNLOCKED bool is_one_of(const struct tb_buffer *b, enum tb_buffers_which which)
{
    uint16_t flags = b->flags;
    return b->state == TB_BUFFER_LIVE &&
           (which == TB_BUFFERS_ALL || (flags & TB_BUFFER_DIRTY && (which == TB_BUFFERS_DIRTY || !(flags & TB_BUFFER_DURABLE))));
}

/* Locked by the file. The latest to become dirty are in front, so the walk ends with the last one that counts. */
struct tb_buffer_ref *tb_file_buffers(tb_engine *e, uint32_t file, enum tb_buffers_which which, uint32_t *n)
{
    const struct tb_file *f = &e->region.files[file];
    int stripe = tb_file_lock(e, file);
    uint32_t want = *n = count_of(f, which), found = 0;
    struct tb_buffer_ref *refs = want ? malloc(want * sizeof(*refs)) : NULL;
    for (uint32_t i = refs ? f->first : TB_NONE; i != TB_NONE && found < want; i = e->region.buffers[i].file_next) {
        const struct tb_buffer *b = &e->region.buffers[i];
        if (is_one_of(b, which))
            refs[found++] = (struct tb_buffer_ref){i, b->cell, tb_buffer_start(e, b)};
    }
    tb_file_unlock(e, stripe);
    if (refs)
        *n = found;
    if (found)
        qsort(refs, found, sizeof(*refs), by_start);
    return refs;
}

uint32_t tb_buffers_overlapping(const tb_engine *e, struct tb_buffer_ref *refs, uint32_t n, const struct tb_buffer_ref *with,
                                uint32_t n_with)
{
    uint64_t largest = e->header->layout.class_size[e->header->layout.n_classes - 1];
    uint32_t kept = 0, first = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint64_t start = refs[i].start, end = start + tb_buffer_size(e, &e->region.buffers[refs[i].buffer]);
        bool overlaps = false;
        while (first < n_with && with[first].start + largest <= start)
            first++;
        for (uint32_t k = first; k < n_with && with[k].start < end && !overlaps; k++)
            overlaps = with[k].start + tb_buffer_size(e, &e->region.buffers[with[k].buffer]) > start;
        if (overlaps)
            refs[kept++] = refs[i];
    }
    return kept;
}

/* Locked by the chunk. True also if the lock is not to be had: the caller would wait for its own thread. */
static bool cut_one(tb_engine *e, uint32_t file, const struct tb_buffer_ref *ref, uint64_t length)
{
    struct tb_buffer *b = &e->region.buffers[ref->buffer];
    int stripe = tb_chunk_lock(e, file, ref->start);
    if (stripe < 0)
        return true;
    bool there = tb_buffer_is_at(b, file, ref->cell);
    if (there && ref->start >= length) {
        tb_map_drop(e, b);
    } else if (there && ref->start + b->valid_hi > length) {
        tb_interval_cut(e, b, (uint32_t)(length - ref->start));
        tb_map_count_dirty(e, b);
    }
    tb_chunk_unlock(e, stripe);
    return there;
}

static bool drop_if_clean(tb_engine *e, uint32_t file, const struct tb_buffer_ref *ref, uint64_t unused)
{
    struct tb_buffer *b = &e->region.buffers[ref->buffer];
    int stripe = tb_chunk_lock(e, file, ref->start);
    (void)unused;
    if (stripe < 0)
        return true;
    bool there = tb_buffer_is_at(b, file, ref->cell);
    if (there && tb_buffer_is_clean(b))
        tb_map_drop(e, b);
    tb_chunk_unlock(e, stripe);
    return there;
}

static TB_UNLOCKED bool is_past(const struct tb_buffer *b, uint64_t start, uint64_t length)
{
    return start >= length || start + b->valid_hi > length;
}

static TB_UNLOCKED bool is_clean(const struct tb_buffer *b, uint64_t start, uint64_t unused)
{
    (void)start;
    (void)unused;
    return tb_buffer_is_clean(b);
}

/* What happens to each buffer of a file, and to which it still has to. */
struct each {
    bool (*act)(tb_engine *e, uint32_t file, const struct tb_buffer_ref *ref, uint64_t length); /* false: it is not there any more */
    bool (*is_left)(const struct tb_buffer *b, uint64_t start, uint64_t length);
};

static const struct each cut = {cut_one, is_past}, drop_clean = {drop_if_clean, is_clean};

/* The first buffer of the list that is left. */
static bool find_left(tb_engine *e, uint32_t file, uint64_t length, const struct each *each, struct tb_buffer_ref *out)
{
    int stripe = tb_file_lock(e, file);
    uint32_t i = e->region.files[file].first;
    while (i != TB_NONE && !each->is_left(&e->region.buffers[i], tb_buffer_start(e, &e->region.buffers[i]), length))
        i = e->region.buffers[i].file_next;
    if (i != TB_NONE)
        *out = (struct tb_buffer_ref){i, e->region.buffers[i].cell, tb_buffer_start(e, &e->region.buffers[i])};
    tb_file_unlock(e, stripe);
    return i != TB_NONE;
}

/* Without memory for a list: slow, and as right.  One that can't be changed is met twice, and ends it. */
static void one_by_one(tb_engine *e, uint32_t file, uint64_t length, const struct each *each)
{
    struct tb_buffer_ref ref, before = {.buffer = TB_NONE};
    while (find_left(e, file, length, each, &ref) && (ref.buffer != before.buffer || ref.cell != before.cell)) {
        before = ref;
        if (!each->act(e, file, &ref, length))
            before.buffer = TB_NONE;
    }
}

/*
 * Repeat until every listed buffer was met where the list said. A buffer that moved during
 * the walk is somewhere else now.
 */
static void with_each(tb_engine *e, uint32_t file, uint64_t length, const struct each *each)
{
    bool missed;
    do {
        uint32_t n;
        struct tb_buffer_ref *refs = tb_file_buffers(e, file, TB_BUFFERS_ALL, &n);
        missed = false;
        if (n && !refs)
            one_by_one(e, file, length, each);
        for (uint32_t i = 0; refs && i < n; i++)
            missed |= !each->act(e, file, &refs[i], length);
        free(refs);
    } while (missed);
}

void tb_file_cut(tb_engine *e, uint32_t file, uint64_t length)
{
    assert(tb_file_is_claimed(e, file));
    with_each(e, file, length, &cut);
}

void tb_file_drop_clean(tb_engine *e, uint32_t file)
{
    with_each(e, file, 0, &drop_clean);
}

static bool is_journaled(tb_engine *e, uint32_t file)
{
    uint32_t n;
    struct tb_buffer_ref *refs = tb_file_buffers(e, file, TB_BUFFERS_ALL, &n);
    bool journaled = n && !refs;
    for (uint32_t i = 0; refs && i < n && !journaled; i++) {
        const struct tb_buffer *b = &e->region.buffers[refs[i].buffer];
        journaled = b->flags & TB_BUFFER_JOURNALED || b->prev != TB_NONE;
    }
    free(refs);
    return journaled;
}

/*
 * A node crash may undo a removal on the PFS until its directory is synced. Then the file
 * is there again, and the bytes that were promised to it must be there too. So the
 * directory is synced before the records are made void.
 */
static int sync_removal(tb_engine *e, const struct tb_file *f)
{
    char path[TB_PATH_MAX];
    tb_file_path(e, f, path, sizeof(path));
    char *slash = strrchr(path, '/');
    if (!slash)
        return 0;
    slash[slash == path] = '\0';
    int fd = TB_IO(e->pfs, open, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    if (fd < 0)
        return fd == -ENOENT ? 0 : fd;
    int rc = TB_IO(e->pfs, fsync, fd, false);
    TB_IO(e->pfs, close, fd);
    return rc;
}

/*
 * The file is claimed. Order: sync of the removal, records void, journal sync, then the
 * buffers. If killed between, the buffers stay until the next forget or repair.
 */
void tb_file_forget_claimed(tb_engine *e, uint32_t file)
{
    struct tb_file *f = &e->region.files[file];
    assert(tb_file_is_claimed(e, file));
    int stripe = tb_file_lock(e, file);
    bool is_void = f->flags & TB_FILE_UNLINKED && !f->n_open;
    tb_file_unlock(e, stripe);
    if (!is_void)
        return;
    f->error = 0;
    bool journaled = f->n_buffers && tb_journal_has_records(e);
    if (journaled && is_journaled(e, file) && sync_removal(e, f))
        return; /* the sync failed: records and buffers are kept until the instance ends */
    TB_STEP("removal synced");
    if (journaled && tb_journal_drop(e, file, 0, 0, 0) == 0)
        tb_journal_sync(e);
    TB_STEP("forget");
    tb_file_cut(e, file, 0);
    if (journaled)
        tb_journal_trim(e);
}

void tb_file_forget(tb_engine *e, uint32_t file)
{
    if (!tb_file_claim(e, file))
        return;
    tb_file_forget_claimed(e, file);
    tb_file_unclaim(e, file);
}

/* The file has no opener; a client that opens it now comes here too, and waits for the claim. */
static void drop_old(tb_engine *e, uint32_t file)
{
    if (!tb_file_claim(e, file)) /* the record was freed in between */
        return;
    tb_stage_void(e);
    tb_file_drop_clean(e, file);
    tb_file_unclaim(e, file);
}

/* What has to go first is dropped here without the file's lock, and the look-up is repeated. */
int tb_file_get(tb_engine *e, int fd, const struct tb_identity *id, const char *path, uint32_t flags, uint32_t *out)
{
    struct tb_identity now;
    bool dropped = false;
    int rc;
    while ((rc = tb_file_try_get(e, fd, id, path, flags, dropped, out)) > 0)
        if (rc == TB_FILE_IS_VOID) {
            tb_file_forget(e, *out);
        } else {
            drop_old(e, *out);
            dropped = true;
            id = tb_identity_of_fd(fd, &now) ? id : &now;
        }
    return rc;
}
