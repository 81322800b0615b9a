#include "journal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "file.h"
#include "medium.h"
#include "step.h"

#define LIMIT_LEAST (1u << 20) /* bytes */

uint64_t tb_checksum(const void *bytes, size_t n)
{
    return XXH3_64bits(bytes, n);
}

static uint64_t record_checksum(const struct tb_record *r)
{
    struct tb_record head = *r;
    head.checksum = 0;
    return XXH3_64bits_withSeed(tb_record_path(r), r->path_length, XXH3_64bits(&head, sizeof(head)));
}

/*
 * Under the lock, so that the file's order is that of the sequence (but for drops
 * with an older one).  A killed appender's record is written over; nothing of it may
 * stay behind the next one.
 */
static int append_locked(tb_engine *e, struct tb_record *r, const char *path)
{
    struct tb_header *h = e->header;
    union {
        struct tb_record record;
        char bytes[(sizeof(struct tb_record) + TB_PATH_MAX + TB_JOURNAL_SLOT - 1) / TB_JOURNAL_SLOT * TB_JOURNAL_SLOT];
    } out;
    size_t n = (size_t)r->slots * TB_JOURNAL_SLOT;
    if (!r->sequence)
        r->sequence = h->sequence + 1;
    memset(out.bytes, 0, n);
    out.record = *r;
    memcpy(out.bytes + sizeof(*r), path, r->path_length);
    out.record.checksum = record_checksum(&out.record);
    TB_STEP("journal append");
    int rc = tb_io_write_all(e->tier[e->journal_tier], e->journal_fd, &out, n, h->journal_end);
    TB_STEP("journal appended");
    if (rc)
        return rc;
    if (h->sequence < r->sequence)
        h->sequence = r->sequence;
    TB_STEP("journal sequence");
    h->journal_end += n;
    return 0;
}

/* A modelled device's time is paid behind the lock. */
static int append(tb_engine *e, struct tb_record *r, const char *path)
{
    struct tb_header *h = e->header;
    struct tb_io *io = e->tier[e->journal_tier];
    r->path_length = (uint32_t)strlen(path);
    r->magic = TB_JOURNAL_MAGIC;
    r->slots = (uint32_t)((sizeof(*r) + r->path_length + TB_JOURNAL_SLOT - 1) / TB_JOURNAL_SLOT);
    tb_model_defer_begin();
    if (tb_lock_take(&h->journal_lock) == TB_LOCK_ORPHANED)
        io->ops->ftruncate(io, e->journal_fd, (off_t)h->journal_end);
    int rc = append_locked(e, r, path);
    tb_lock_drop(&h->journal_lock);
    tb_model_defer_end();
    tb_model_settle(false);
    return rc;
}

int tb_journal_create(tb_engine *e)
{
    struct tb_record r = {.type = TB_RECORD_HEADER, .digest = e->header->digest};
    e->header->journal_end = 0;
    return append(e, &r, e->header->config.file);
}

/* The file is locked by the caller. */
static int append_for(tb_engine *e, uint32_t file, struct tb_record *r)
{
    const struct tb_file *f = &e->region.files[file];
    char path[TB_PATH_MAX];
    tb_file_path(e, f, path, sizeof(path));
    r->device = f->device;
    r->inode = f->inode;
    r->birth_ns = f->birth_ns;
    r->size = f->size;
    return append(e, r, path);
}

static int lock_and_append(tb_engine *e, uint32_t file, struct tb_record *r)
{
    int stripe = tb_file_lock(e, file);
    int rc = append_for(e, file, r);
    tb_file_unlock(e, stripe);
    return rc;
}

int tb_journal_write(tb_engine *e, uint32_t file, const struct tb_buffer *b, uint32_t lo, uint32_t hi, uint64_t checksum)
{
    struct tb_record r = {.type = TB_RECORD_WRITE, .offset = tb_buffer_start(e, b) + lo, .length = hi - lo, .byte = lo,
                          .slab = b->slab, .buffer = tb_buffer_number(e, b) - tb_slab_layout(e, b)->first_buffer,
                          .data_checksum = checksum};
    int stripe = tb_file_lock(e, file);
    int rc = e->region.files[file].flags & TB_FILE_HELD ? -EAGAIN : append_for(e, file, &r);
    tb_file_unlock(e, stripe);
    return rc;
}

int tb_journal_drop(tb_engine *e, uint32_t file, uint64_t offset, uint64_t length, uint64_t sequence)
{
    return lock_and_append(e, file, &(struct tb_record){.type = TB_RECORD_DROP, .offset = offset, .length = length,
                                                        .sequence = sequence});
}

int tb_journal_unlink(tb_engine *e, uint32_t file)
{
    return lock_and_append(e, file, &(struct tb_record){.type = TB_RECORD_UNLINK});
}

int tb_journal_rename(tb_engine *e, const char *from, const char *to)
{
    char both[2 * TB_PATH_MAX];
    int n = snprintf(both, sizeof(both), "%s%c%s", from, TB_RENAME_SEPARATOR, to);
    return n < TB_PATH_MAX ? append(e, &(struct tb_record){.type = TB_RECORD_RENAME}, both) : -ENAMETOOLONG;
}

int tb_journal_sync(tb_engine *e)
{
    struct tb_io *io = e->tier[e->journal_tier];
    return io->ops->fsync(io, e->journal_fd, true);
}

static int sync_slabs(tb_engine *e)
{
    struct tb_header *h = e->header;
    int rc = 0;
    for (uint32_t s = 0; s < h->layout.n_slabs && !rc; s++)
        if (atomic_exchange(&h->slab_unsynced[s], false)) {
            struct tb_io *io = e->tier[h->layout.slab[s].tier];
            TB_STEP("slab sync");
            rc = io->ops->fsync(io, e->slab_fd[s], true);
            TB_STEP("slab synced");
            if (rc)
                h->slab_unsynced[s] = true;
        }
    return rc;
}

/* The holder was killed between taking a mark and the sync. */
static void mark_slabs(tb_engine *e)
{
    for (uint32_t s = 0; s < e->header->layout.n_slabs; s++)
        e->header->slab_unsynced[s] = e->slab_fd[s] >= 0;
}

/*
 * Who waits for the lock while another syncs is often served by the next holder:
 * many concurrent fsyncs cost one sync.  After a failed sync the system may have
 * thrown the bytes away and will not say so again, so all who had asked by then
 * have failed.
 */
static int commit(tb_engine *e, struct tb_commit *c, int (*sync)(tb_engine *e))
{
    uint64_t mine = ++c->wanted, upto;
    int rc = 0;
    tb_model_pay();
    if (tb_lock_take(&c->lock) == TB_LOCK_ORPHANED)
        mark_slabs(e);
    if (mine <= c->failed) {
        rc = -EIO;
    } else if (mine > c->done) {
        upto = c->wanted;
        TB_STEP("commit");
        /* A model's time for it is paid when this caller's own call ends: here it would keep the others from the device. */
        rc = sync(e);
        TB_STEP("committed");
        if (rc)
            c->failed = upto;
        else
            c->done = upto;
    }
    tb_lock_drop(&c->lock);
    return rc;
}

int tb_journal_commit_slabs(tb_engine *e)
{
    return commit(e, &e->header->slab_commit, sync_slabs);
}

int tb_journal_commit(tb_engine *e)
{
    return commit(e, &e->header->journal_commit, tb_journal_sync);
}

static TB_UNLOCKED uint64_t end_seen(const tb_engine *e)
{
    return e->header->journal_end;
}

bool tb_journal_is_full(tb_engine *e)
{
    uint64_t eighth = tb_config_of(e)->tiers[e->journal_tier].capacity / 8;
    return end_seen(e) >= (eighth > LIMIT_LEAST ? eighth : LIMIT_LEAST);
}

void tb_journal_trim(tb_engine *e)
{
    struct tb_header *h = e->header;
    struct tb_io *io = e->tier[e->journal_tier];
    if (h->n_journaled)
        return;
    /* An appender that has its record but not yet its count would lose it: it counts first (see promise.c). */
    tb_lock_take(&h->journal_lock);
    bool empty = h->n_journaled == 0 && h->journal_end >= 64 * TB_JOURNAL_SLOT;
    uint64_t header = (sizeof(struct tb_record) + strlen(h->config.file) + TB_JOURNAL_SLOT - 1) / TB_JOURNAL_SLOT * TB_JOURNAL_SLOT;
    if (empty) { /* killed between the two: the next record stands behind a gap, which is read as nothing */
        TB_STEP("journal trim");
        int rc = io->ops->ftruncate(io, e->journal_fd, (off_t)header);
        TB_STEP("journal trimmed");
        h->journal_end = rc ? h->journal_end : header;
    }
    tb_lock_drop(&h->journal_lock);
}

static bool is_sound(const struct tb_record *r, size_t rest)
{
    return r->magic == TB_JOURNAL_MAGIC && r->slots && (size_t)r->slots * TB_JOURNAL_SLOT <= rest &&
           sizeof(*r) + r->path_length <= (size_t)r->slots * TB_JOURNAL_SLOT && r->path_length < TB_PATH_MAX &&
           r->checksum == record_checksum(r);
}

static bool is_zero(const char *slot)
{
    static const char zeros[TB_JOURNAL_SLOT];
    return memcmp(slot, zeros, TB_JOURNAL_SLOT) == 0;
}

static int scan(const char *bytes, size_t n, int (*each)(void *, const struct tb_record *),
                int (*damaged)(void *, uint64_t), void *arg)
{
    bool in_damage = false;
    int rc = 0;
    size_t at = 0;
    while (at + TB_JOURNAL_SLOT <= n && !rc) {
        const struct tb_record *r = (const struct tb_record *)(bytes + at);
        if (is_sound(r, n - at)) {
            rc = each(arg, r);
            at += (size_t)r->slots * TB_JOURNAL_SLOT;
            in_damage = false;
            continue;
        }
        if (!is_zero(bytes + at) && !in_damage) {
            rc = damaged(arg, at);
            in_damage = true;
        }
        at += TB_JOURNAL_SLOT;
    }
    return !rc && at < n && !in_damage ? damaged(arg, at) : rc; /* the file ends inside a slot */
}

int tb_journal_read(int fd, int (*each)(void *, const struct tb_record *), int (*damaged)(void *, uint64_t), void *arg)
{
    struct tb_io *io = tb_io_libc();
    struct stat st;
    int rc = io->ops->fstat(io, fd, &st);
    char *bytes = rc ? NULL : aligned_alloc(TB_JOURNAL_SLOT, (size_t)st.st_size / TB_JOURNAL_SLOT * TB_JOURNAL_SLOT + TB_JOURNAL_SLOT);
    if (rc || !bytes)
        return rc ? rc : -ENOMEM;
    ssize_t n = tb_io_read_all(io, fd, bytes, (size_t)st.st_size, 0);
    rc = n < 0 ? (int)n : scan(bytes, (size_t)n, each, damaged, arg);
    free(bytes);
    return rc;
}
