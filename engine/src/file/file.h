/*
 * File records: found by the identity of the backing file, named by directory and name,
 * kept while they have buffers, descriptors or an error to report.
 *
 * Common file systems reuse inode numbers at once. So a record also holds the birth time,
 * and a flush that opens the file by name compares both.
 */
#ifndef TB_FILE_H
#define TB_FILE_H

#include <sys/stat.h>

#include "io/identity.h"
#include "region/handle.h"

bool tb_identity_is(const struct tb_file *f, const struct tb_identity *id);

int tb_file_lock(tb_engine *e, uint32_t file);
void tb_file_unlock(tb_engine *e, int stripe);

/* Besides 0 and -errno: the bytes of that record have to go first, and the caller asks again. */
enum tb_file_found {
    TB_FILE_IS_VOID = 1, /* none of them is of any file any more */
    TB_FILE_IS_OLD,      /* the clean ones: the file, open as `fd`, is not as it was last seen.  They are believed when `dropped` */
};
/* One try of tb_file_get (buffer/of_file.h). */
int tb_file_try_get(tb_engine *e, int fd, const struct tb_identity *id, const char *path, uint32_t flags, bool dropped, uint32_t *out);
/* The record of that identity; TB_NONE: there is none. */
uint32_t tb_file_find(tb_engine *e, const struct tb_identity *id);
/* False: no record can be of this file.  Without a lock. */
bool tb_file_may_be_known(const tb_engine *e, const struct stat *st);
/* Lower n_open; frees a record that nothing needs.  True where its bytes are void now: the caller forgets them. */
bool tb_file_put(tb_engine *e, uint32_t file);
/*
 * The prefix is write-through but this file asked for write-back: the last close must
 * flush it, whatever the flush policy.
 */
static inline bool tb_file_owes_flush(const struct tb_file *f)
{
    return (f->flags & (TB_FILE_OTHER_MODE | TB_FILE_SYNC)) == TB_FILE_OTHER_MODE;
}
/* Free the record if nothing needs it. */
void tb_file_release(tb_engine *e, uint32_t file);

int tb_file_rename(tb_engine *e, uint32_t file, const char *path);
/* The name that tb_names_set gave to `from`, which is no record of the region. Cannot fail. */
void tb_file_take_name(tb_engine *e, uint32_t file, struct tb_file *from, const char *path);
/* The absolute path; returns its length. */
size_t tb_file_path(tb_engine *e, const struct tb_file *f, char *out, size_t size);

/*
 * The equations of struct tb_file (region/region.h); locked by the file. Whole: the list is
 * walked. Both hold also while buffers of the list are repaired.
 */
bool tb_file_is_valid(const struct tb_file *f);
bool tb_file_is_whole(const tb_engine *e, const struct tb_file *f);

/* Make backward links and counts of its list from forward links and flags; locked by the caller. */
void tb_file_recount(tb_engine *e, struct tb_file *f);

/*
 * The file's bytes, length or name on the PFS have changed: said after the change.  Each change has
 * a number of its own, so that a sync takes back only what it saw before it began, also where
 * several sync at once, and a sync that failed or was killed takes back nothing.
 */
static inline void tb_file_note_change(tb_engine *e, struct tb_file *f)
{
    uint32_t number;
    do
        number = ++e->header->files.n_changes;
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
 * A writer was killed before it raised the size: make the file reach to the bytes that are
 * there. Otherwise they would show when the file becomes longer. Not while the file is
 * being cut. Locked by the chunk.
 */
static inline void tb_file_cover(struct tb_file *f, uint64_t start, const struct tb_buffer *b)
{
    if (b->valid_hi > b->valid_lo && !(f->flags & TB_FILE_CUTTING))
        tb_file_raise_size(f, start + b->valid_hi);
}

#endif
