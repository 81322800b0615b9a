/*
 * Writing the journal: records of what `fsync: tier` promised, in the order of their
 * sequence (journal/journal.h). A record counts when a later sync covered it. The mark
 * file remembers how far the journal was synced, so that damage below that is told from an
 * unfinished end.
 */
#include "journal/journal.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/kill_point.h"
#include "file/file.h"
#include "io/identity.h"
#include "io/whole.h"

#define LIMIT_LEAST (1u << 20) /* bytes */
#define EMPTIED_FROM (64 * TB_JOURNAL_SLOT)
#define FILL_BYTES (256u << 10)
#define FILL_TIMES 4u           /* the daemon makes the journal so many times as long as its records */
#define BYTES_UP_TO (64u << 20) /* of the journal: recovery reads all of it into memory */

uint64_t tb_checksum(const void *bytes, size_t n)
{
    return XXH3_64bits(bytes, n);
}

uint64_t tb_record_checksum(const struct tb_record *r)
{
    struct tb_record head = *r;
    head.checksum = 0;
    return XXH3_64bits_withSeed(tb_record_path(r), tb_record_tail(r), XXH3_64bits(&head, sizeof(head)));
}

bool tb_journal_is_valid(const tb_engine *e)
{
    const struct tb_journal *j = &e->header->journal;
    bool in_order = j->synced <= j->end && j->end % TB_JOURNAL_SLOT == 0 && j->synced % TB_JOURNAL_SLOT == 0;
    return j->is_emptied || in_order;
}

/*
 * Locked by journal.lock. A sync of blocks that the file has already is one transfer; where the
 * file grows, the file system writes down its length and blocks too, which takes longer than the
 * bytes. So zeros are written ahead of the records: past them is an unfinished end, as before. If
 * that fails, the record is written all the same. Without the device model: no
 * program asked for this transfer.
 */
static int fill_piece(tb_engine *e)
{
    static const char zeros[FILL_BYTES];
    struct tb_journal *j = &e->header->journal;
    uint64_t from = j->filled > j->end ? j->filled : j->end;
    int rc = tb_io_write_own(e->base, e->journal_fd, zeros, sizeof(zeros), from);
    if (rc == 0)
        j->filled = from + sizeof(zeros);
    return rc;
}

static void fill_for(tb_engine *e, size_t n)
{
    const struct tb_journal *j = &e->header->journal;
    if (j->end && j->end + n > j->filled) /* only a journal that is used is longer than its header */
        fill_piece(e);
}

#define ROOM ((sizeof(struct tb_record) + TB_PATH_MAX + TB_RECORD_BYTES_MAX + TB_JOURNAL_SLOT - 1) / TB_JOURNAL_SLOT * TB_JOURNAL_SLOT)

/*
 * Locked by journal.lock, so that the order in the file is that of the sequence (a DROP
 * may have an older one).
 * If killed before the end is moved, the half-written record is past the end, and the
 * next one overwrites it.
 */
static int append_locked(tb_engine *e, struct tb_record *r, const char *path, const char *bytes)
{
    struct tb_header *h = e->header;
    union {
        struct tb_record record;
        char bytes[ROOM];
    } out;
    assert(r->slots > 0 && (size_t)r->slots * TB_JOURNAL_SLOT <= sizeof(out) && sizeof(*r) + tb_record_tail(r) <= sizeof(out));
    size_t n = (size_t)r->slots * TB_JOURNAL_SLOT;
    if (!r->sequence)
        r->sequence = h->journal.sequence + 1;
    r->instance = h->id;
    r->generation = h->journal.generation;
    r->place = h->journal.end;
    r->synced = h->journal.synced;
    memset(out.bytes + n - TB_JOURNAL_SLOT, 0, TB_JOURNAL_SLOT); /* the rest is written below */
    out.record = *r;
    memcpy(out.bytes + sizeof(*r), path, r->path_length);
    if (bytes)
        memcpy(out.bytes + sizeof(*r) + r->path_length, bytes, r->length);
    out.record.checksum = tb_record_checksum(&out.record);
    fill_for(e, n);
    TB_STEP("journal append");
    int rc = tb_io_write_own(e->tier[e->journal_tier], e->journal_fd, &out, n, h->journal.end);
    TB_STEP("journal appended");
    if (rc)
        return rc;
    if (h->journal.sequence < r->sequence)
        h->journal.sequence = r->sequence;
    TB_STEP("journal sequence");
    h->journal.end += n;
    assert(tb_journal_is_valid(e));
    return 0;
}

static void measure(struct tb_record *r, const char *path)
{
    r->magic = TB_JOURNAL_MAGIC;
    r->path_length = (uint32_t)strlen(path);
    r->slots = (uint32_t)((sizeof(*r) + tb_record_tail(r) + TB_JOURNAL_SLOT - 1) / TB_JOURNAL_SLOT);
}

/* One slot, so that a crash leaves the old header or the new one. A long path is cut. */
static int append_header(tb_engine *e)
{
    struct tb_record r = {
        .type = TB_RECORD_HEADER, .digest = e->header->digest, .inode = e->header->root.inode, .birth_ns = e->header->root.birth_ns};
    char path[TB_JOURNAL_SLOT - sizeof(r)];
    snprintf(path, sizeof(path), "%.*s", (int)sizeof(path) - 1, e->header->config.file);
    measure(&r, path);
    return append_locked(e, &r, path, NULL);
}

/*
 * Locked by journal.lock. Begin a new, empty generation. What was synced of the old one is
 * void when the new header is durable, not before. If killed or failed in between, the
 * next record begins one more generation.
 */
static int empty_locked(tb_engine *e)
{
    struct tb_header *h = e->header;
    struct tb_io *io = e->tier[e->journal_tier];
    h->journal.is_emptied = true;
    TB_STEP("journal empty");
    h->journal.generation++;
    TB_STEP("journal generation");
    h->journal.end = h->journal.synced = 0; /* if killed before, or between the two, is_emptied has them set again */
    h->journal.is_doubtful = false;
    int rc = append_header(e);
    TB_STEP("journal header");
    rc = rc ? rc : TB_IO(io, fsync, e->journal_fd, true);
    if (rc)
        return rc;
    /* only to give the room back: records of an older generation do not count */
    h->journal.filled = 0;
    TB_IO(io, ftruncate, e->journal_fd, TB_JOURNAL_SLOT);
    TB_STEP("journal emptied");
    h->journal.is_emptied = false;
    assert(tb_journal_is_valid(e) && h->journal.end == TB_JOURNAL_SLOT);
    return 0;
}

/* The time of a modelled device is paid after the lock is dropped. */
static int append(tb_engine *e, struct tb_record *r, const char *path, const char *bytes)
{
    struct tb_header *h = e->header;
    measure(r, path);
    tb_model_defer_begin();
    int rc = tb_lock_take(&h->journal.lock);
    if (rc >= 0) {
        rc = h->journal.is_emptied ? empty_locked(e) : 0;
        rc = rc ? rc : append_locked(e, r, path, bytes);
        tb_lock_drop(&h->journal.lock);
    }
    tb_model_defer_end();
    tb_model_settle(false);
    return rc;
}

/*
 * A lower bound of what was synced. It is not synced itself: if a crash loses it, later
 * records say the same. If the write fails, the older mark stays.
 */
static void write_mark(tb_engine *e)
{
    struct tb_header *h = e->header;
    struct tb_journal_mark m = {TB_JOURNAL_MARK, h->id, h->journal.generation, h->journal.synced, 0};
    m.checksum = tb_checksum(&m, offsetof(struct tb_journal_mark, checksum));
    tb_io_write_own(e->base, e->mark_fd, &m, sizeof(m), 0);
}

/* An eighth of the tier: the rest is for the buffers that the records refer to. */
static uint64_t most(const tb_engine *e)
{
    uint64_t eighth = tb_config_of(e)->tiers[e->journal_tier].capacity / 8;
    return eighth > LIMIT_LEAST ? eighth : LIMIT_LEAST;
}

int tb_journal_create(tb_engine *e)
{
    struct tb_identity pfs = {.inode = 0};
    const char *path = tb_config_of(e)->pfs.path; /* empty: a Hermes configuration, which names none */
    int rc = *path ? tb_identity_of_path(e->pfs, path, &pfs) : 0;
    if (rc)
        return rc; /* a journal that does not know its PFS keeps no bytes of files that are gone: lost.c */
    e->header->root.device = pfs.device;
    e->header->root.inode = pfs.inode;
    e->header->root.birth_ns = pfs.birth_ns;
    e->header->journal.bytes_up_to = most(e) / 2 < BYTES_UP_TO ? most(e) / 2 : BYTES_UP_TO;
    write_mark(e);
    return append_header(e);
}

/*
 * Locked by the file, so its name and identity cannot change. The journal's lock comes after
 * the file's, and nothing is locked after it.
 */
static int append_for(tb_engine *e, uint32_t file, struct tb_record *r, const char *bytes)
{
    const struct tb_file *f = &e->region.files[file];
    assert(f->magic == TB_FILE_MAGIC); /* its buffers, or its claim, keep the record */
    char path[TB_PATH_MAX];
    tb_file_path(e, f, path, sizeof(path));
    r->device = f->device;
    r->inode = f->inode;
    r->birth_ns = f->birth_ns;
    r->size = f->size;
    return append(e, r, path, bytes);
}

static int lock_and_append(tb_engine *e, uint32_t file, struct tb_record *r)
{
    int stripe = tb_file_lock(e, file);
    int rc = append_for(e, file, r, NULL);
    tb_file_unlock(e, stripe);
    return rc;
}

/*
 * -EAGAIN: the file is being cut or renamed, or has lost its name. A record would name a
 * file that recovery cannot find.
 */
static int append_written(tb_engine *e, uint32_t file, struct tb_record *r, const char *bytes)
{
    int stripe = tb_file_lock(e, file);
    int rc = e->region.files[file].flags & (TB_FILE_HELD | TB_FILE_UNLINKED) ? -EAGAIN : append_for(e, file, r, bytes);
    tb_file_unlock(e, stripe);
    return rc;
}

int tb_journal_write(tb_engine *e, uint32_t file, const struct tb_buffer *b, uint32_t lo, uint32_t hi, uint64_t checksum)
{
    assert(lo < hi && hi <= tb_buffer_size(e, b));
    struct tb_record r = {.type = TB_RECORD_WRITE,
                          .offset = tb_buffer_start(e, b) + lo,
                          .length = hi - lo,
                          .byte = lo,
                          .slab = b->slab,
                          .buffer = tb_buffer_number(e, b) - tb_slab_layout(e, b)->first_buffer,
                          .data_checksum = checksum};
    return append_written(e, file, &r, NULL);
}

/* Locked by the chunk, and JOURNALED: its bytes stay as they are. */
int tb_journal_write_bytes(tb_engine *e, uint32_t file, const struct tb_buffer *b, uint32_t lo, uint32_t hi)
{
    assert(lo < hi && hi <= tb_buffer_size(e, b) && hi - lo <= TB_RECORD_BYTES_MAX);
    const struct tb_layout_slab *l = tb_slab_layout(e, b);
    uint64_t at = l->data_offset + (uint64_t)(tb_buffer_number(e, b) - l->first_buffer) * l->buffer_size + lo;
    assert(tb_tier_is_memory(e, l->tier));
    struct tb_record r = {.type = TB_RECORD_BYTES, .offset = tb_buffer_start(e, b) + lo, .length = hi - lo};
    return append_written(e, file, &r, e->region.base + at);
}

int tb_journal_drop(tb_engine *e, uint32_t file, uint64_t offset, uint64_t length, uint64_t sequence)
{
    return lock_and_append(e, file, &(struct tb_record){.type = TB_RECORD_DROP, .offset = offset, .length = length, .sequence = sequence});
}

int tb_journal_unlink(tb_engine *e, uint32_t file)
{
    return lock_and_append(e, file, &(struct tb_record){.type = TB_RECORD_UNLINK});
}

int tb_journal_rename(tb_engine *e, const char *from, const char *to)
{
    char both[2 * TB_PATH_MAX];
    int n = snprintf(both, sizeof(both), "%s%c%s", from, TB_RENAME_SEPARATOR, to);
    return n < TB_PATH_MAX ? append(e, &(struct tb_record){.type = TB_RECORD_RENAME}, both, NULL) : -ENAMETOOLONG;
}

/*
 * After a failed sync it is unknown what later syncs cover: the mark stays where it is
 * until the journal is empty again.
 */
static void note_sync(tb_engine *e, uint64_t generation, uint64_t end, bool failed)
{
    struct tb_header *h = e->header;
    if (tb_lock_take(&h->journal.lock) < 0)
        return;
    assert(generation <= h->journal.generation);
    bool same = h->journal.generation == generation && !h->journal.is_emptied;
    h->journal.is_doubtful |= same && failed;
    if (same && !h->journal.is_doubtful && h->journal.synced < end) {
        h->journal.synced = end;
        TB_STEP("journal synced");
        assert(tb_journal_is_valid(e));
        write_mark(e);
        TB_STEP("journal marked");
    }
    tb_lock_drop(&h->journal.lock);
}

/* The end is read before the sync: records that are appended during it are not covered. */
static int sync_by(tb_engine *e, struct tb_io *io, int fd)
{
    struct tb_header *h = e->header;
    uint64_t generation = 0, end = 0;
    if (tb_lock_take(&h->journal.lock) >= 0) {
        generation = h->journal.generation;
        end = h->journal.end;
        tb_lock_drop(&h->journal.lock);
    }
    int rc = TB_IO(io, fsync, fd, true);
    if (end)
        note_sync(e, generation, end, rc != 0);
    return rc;
}

int tb_journal_sync(tb_engine *e)
{
    return sync_by(e, e->tier[e->journal_tier], e->journal_fd);
}

/* The more it is used, the more room is made: at most as much as records with bytes of their own take. */
static bool wants_room(const struct tb_journal *j)
{
    uint64_t most = FILL_TIMES * j->end < j->bytes_up_to ? FILL_TIMES * j->end : j->bytes_up_to;
    return !j->is_emptied && j->end > TB_JOURNAL_SLOT && j->filled < most;
}

int tb_journal_open_again(tb_engine *e)
{
    char path[32];
    snprintf(path, sizeof(path), "/proc/self/fd/%d", e->journal_fd);
    return TB_IO(e->base, open, path, O_WRONLY | O_CLOEXEC, 0);
}

/*
 * Synced at once, so that a client's sync seldom waits for these zeros. The system tells a failure once to each
 * descriptor: this sync has one of its own, takes no other sync's away, and counts as they do.
 */
int tb_journal_make_room(tb_engine *e, int fd)
{
    struct tb_journal *j = &e->header->journal;
    int rc = tb_lock_take(&j->lock);
    if (rc < 0)
        return rc;
    bool wanted = wants_room(j);
    rc = wanted ? fill_piece(e) : 0;
    tb_lock_drop(&j->lock);
    rc = wanted && !rc ? sync_by(e, e->base, fd) : rc;
    return rc ? rc : wanted;
}

static TB_UNLOCKED uint64_t end_seen(const tb_engine *e)
{
    return e->header->journal.end;
}

TB_UNLOCKED bool tb_journal_is_doubtful(const tb_engine *e)
{
    return e->header->journal.is_doubtful;
}

bool tb_journal_is_full(tb_engine *e)
{
    return end_seen(e) >= most(e);
}

bool tb_journal_takes_bytes(const tb_engine *e)
{
    return end_seen(e) < e->header->journal.bytes_up_to;
}

void tb_journal_trim(tb_engine *e)
{
    struct tb_header *h = e->header;
    if (h->journal.n_journaled)
        return;
    /*
     * n_journaled is checked again under the lock. An fsync raises it before it appends
     * (layer/promise.c), so no record is lost.
     */
    if (tb_lock_take(&h->journal.lock) < 0)
        return;
    tb_model_defer_begin();
    if (h->journal.n_journaled == 0 && (h->journal.end >= EMPTIED_FROM || h->journal.is_doubtful))
        empty_locked(e);
    tb_lock_drop(&h->journal.lock);
    tb_model_defer_end();
    tb_model_settle(false);
}

/* Synced before the file is removed: replay must not report promised bytes of a file that was removed on purpose. */
int tb_journal_tell_removal(tb_engine *e, uint32_t file)
{
    if (!tb_journal_has_records(e) || !e->region.files[file].n_buffers)
        return 0;
    int rc = tb_journal_unlink(e, file);
    return rc ? rc : tb_journal_sync(e);
}
