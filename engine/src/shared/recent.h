/*
 * The latest writes of a file that several nodes share: which of its dirty bytes here no commit has named yet.
 *
 * Another node's commit makes older bytes go from here, and those alone: what was written here since this node's own last commit
 * is of no order with it, and stays as a whole. A write is noted under the same lock as its bytes, chunk by chunk: a note without its
 * bytes would keep older ones, and bytes without their note would go. A note goes when a commit of its bytes was taken. Notes are few a
 * file; where they are full the writer commits first. What commits and what lets go take turns (daemon/turn.h), so each sees all of the
 * other or nothing.
 */
#ifndef TB_SHARED_RECENT_H
#define TB_SHARED_RECENT_H

#include "region/handle.h"
#include "shared/ranges.h"

/* What struct tb_recent says of its notes, under its lock; whole: of each of them. */
bool tb_recent_is_valid(const struct tb_recent *r);
bool tb_recent_is_whole(const struct tb_recent *r);

/*
 * A write of [lo, hi), under the lock of its chunk. -ENOBUFS: commit first. 0 also where so many files have notes that this one
 * can't: then nothing of it is kept.
 */
int tb_recent_add(tb_engine *e, uint32_t file, uint64_t lo, uint64_t hi);
/* A list of dirty bytes begins. What is noted from now on is of a later one. */
uint64_t tb_recent_begin(tb_engine *e, uint32_t file);
/* A list of dirty bytes that the keeper took. */
struct tb_recent_taken {
    uint64_t began, version; /* its number, and that of its commit */
    bool keep;               /* this node has yet to let go for earlier commits, and must not let go of these writes then */
    struct tb_ranges left;   /* what of it was not sent: other nodes have newer bytes there */
};

/* The writes before that list are committed, except for those that meet what was left. */
void tb_recent_committed(tb_engine *e, uint32_t file, const struct tb_recent_taken *taken);
/*
 * The first part of [lo, hi) that is of a write in no commit. Under the lock of its chunk, so that this stays true of the bytes. False:
 * there is none.
 */
bool tb_recent_unsaid(tb_engine *e, uint32_t file, uint64_t lo, uint64_t hi, uint64_t *from, uint64_t *to);
/* Writes that are not committed, or after that version: added to `out`, which is settled then. 0 or -ENOMEM. */
int tb_recent_newer(tb_engine *e, uint32_t file, uint64_t version, struct tb_ranges *out);

#endif
