/*
 * File records: found by the identity of the backing file, named by directory
 * and name, kept while they have buffers, descriptors or an error to report.
 *
 * Inode numbers are reused at once by common file systems, so a record also
 * holds the birth time, and whoever flushes opens by name and compares.
 */
#ifndef TB_FILE_H
#define TB_FILE_H

#include <sys/stat.h>

#include "io/identity.h"
#include "region/handle.h"

bool tb_identity_is(const struct tb_file *f, const struct tb_identity *id);

int tb_file_lock(tb_engine *e, uint32_t file);
void tb_file_unlock(tb_engine *e, int stripe);

/*
 * The record of that identity, made where there is none, with n_open raised by
 * one.  Where nobody had it open and the file, open as `fd`, is not as it was last
 * seen, what was clean of it has been dropped.  -ENFILE: the table (max_files) is
 * full.  `path` is absolute.
 */
int tb_file_get(tb_engine *e, int fd, const struct tb_identity *id, const char *path, uint32_t flags, uint32_t *out);
/* As above, but TB_NONE where there is none, and n_open is left alone. */
uint32_t tb_file_find(tb_engine *e, const struct tb_identity *id);
/* False: no record can be of this file.  Without a lock. */
bool tb_file_may_be_known(const tb_engine *e, const struct stat *st);
/* Lower n_open; frees a record that nothing needs.  True where its bytes are void now: the caller forgets them. */
bool tb_file_put(tb_engine *e, uint32_t file);
/* Written behind in a file whose prefix writes through: whoever closes it flushes, whatever the flush policy. */
static inline bool tb_file_owes_flush(const struct tb_file *f)
{
    return (f->flags & (TB_FILE_OTHER_MODE | TB_FILE_SYNC)) == TB_FILE_OTHER_MODE;
}
/* Free the record if nothing needs it. */
void tb_file_release(tb_engine *e, uint32_t file);

int tb_file_rename(tb_engine *e, uint32_t file, const char *path);
/* The absolute path; returns its length. */
size_t tb_file_path(tb_engine *e, const struct tb_file *f, char *out, size_t size);

/* Make backward links and counts of its list from forward links and flags; locked by the caller. */
void tb_file_recount(tb_engine *e, struct tb_file *f);

/*
 * The one who flushes, truncates or renames; waits for another living one.
 * Nests not.  False where the record is free: who has no hold on it (a
 * descriptor, a buffer, its place in the queue) may find it another file's.
 */
bool tb_file_claim(tb_engine *e, uint32_t file);
bool tb_file_try_claim(tb_engine *e, uint32_t file);
void tb_file_unclaim(tb_engine *e, uint32_t file);
/* Somebody waits for the claim: who has it for long gives it up for a moment. */
bool tb_file_claim_is_wanted(const tb_engine *e, uint32_t file);
/* After the claim was given up: until somebody who waits for it has it. */
void tb_file_let_others_claim(const tb_engine *e, uint32_t file);

/* Buffers of the file, at most `max` numbers from the list; a snapshot to be checked again under the chunk's lock. */
struct tb_buffer_ref {
    uint32_t buffer;
    uint64_t cell, start;
};
enum tb_buffers_which { TB_BUFFERS_ALL, TB_BUFFERS_DIRTY, TB_BUFFERS_UNPROMISED };
/*
 * Allocates; sorted by start.  UNPROMISED: dirty and not DURABLE.  NULL with *n 0
 * where there are none, with *n above 0 where there is no memory.  Costs what has
 * become dirty since it was last asked, not what the file has.
 */
struct tb_buffer_ref *tb_file_buffers(tb_engine *e, uint32_t file, enum tb_buffers_which which, uint32_t *n);

/* Drop every buffer at or behind `length` and cut the one across it; the file is claimed. */
void tb_file_cut(tb_engine *e, uint32_t file, uint64_t length);
/* Where nothing names the file and nobody has it open its bytes are void: drop them.  The second for who claimed it. */
void tb_file_forget(tb_engine *e, uint32_t file);
void tb_file_forget_claimed(tb_engine *e, uint32_t file);
/* Drop buffers without dirty bytes. */
void tb_file_drop_clean(tb_engine *e, uint32_t file);

/*
 * The file's bytes, length or name on the PFS have changed: said after the change.  Each change has
 * a number of its own, so that a sync takes back only what it saw before it began, also where
 * several sync at once, and a sync that failed or was killed takes back nothing.
 */
static inline void tb_file_note_change(tb_engine *e, struct tb_file *f)
{
    uint32_t number;
    do
        number = ++e->header->pfs_changes;
    while (!number);
    f->unsynced = number;
}

/* A sync has succeeded that began when `unsynced` was this. */
static inline void tb_file_note_synced(struct tb_file *f, uint32_t unsynced)
{
    atomic_compare_exchange_strong(&f->unsynced, &unsynced, 0);
}

/* Something of it is not on the PFS: bytes, or its name. */
static inline bool tb_file_has_news(const struct tb_file *f)
{
    return f->n_dirty || f->flags & TB_FILE_WAITING;
}

/* The file reaches to `end` at least; its bytes are there. */
static inline void tb_file_raise_size(struct tb_file *f, uint64_t end)
{
    uint64_t size = f->size;
    while (size < end && !atomic_compare_exchange_weak(&f->size, &size, end))
        ;
}

/*
 * A writer was killed before it raised the size: what it wrote is there, rather than
 * coming back with a longer file.  What is being cut goes.  Its chunk is locked.
 */
static inline void tb_file_cover(struct tb_file *f, uint64_t start, const struct tb_buffer *b)
{
    if (b->valid_hi > b->valid_lo && !(f->flags & TB_FILE_CUTTING))
        tb_file_raise_size(f, start + b->valid_hi);
}

#endif
