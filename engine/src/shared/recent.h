/*
 * The latest writes of a file that several nodes share: which of its dirty bytes here no commit has named yet.
 *
 * Another node's commit makes older bytes go from here, and those alone: what was written here since this node's own last commit
 * is of no order with it, and stays as a whole. A write is noted before its bytes are there, and its note goes when a commit of them
 * was taken. Notes are few a file; where they are full the writer commits first.
 */
#ifndef TB_SHARED_RECENT_H
#define TB_SHARED_RECENT_H

#include "region/handle.h"
#include "shared/ranges.h"

/* A write of [lo, hi) begins. -ENOBUFS: commit first. 0 also where so many files have notes that this one can't: then nothing of it is kept. */
int tb_recent_add(tb_engine *e, uint32_t file, uint64_t lo, uint64_t hi);
/* A list of dirty bytes begins. What is noted from now on is of a later one. */
uint64_t tb_recent_begin(tb_engine *e, uint32_t file);
/*
 * Commits of the file by this node take turns, where it has yet to let go of something: each says which writes are newer, and two
 * must not say it of the same ones. The lock is held while the keeper answers, and no other node is waited for. False: this very thread
 * has the turn already, and is in a signal handler.
 */
bool tb_recent_hold(tb_engine *e, uint32_t file);
void tb_recent_release(tb_engine *e, uint32_t file);
/*
 * The turn is held. The writes before that list are committed as `version`, but for those that meet `left`. `keep`: this node has yet
 * to let go for earlier commits, and must not let go of these writes then.
 */
void tb_recent_committed(tb_engine *e, uint32_t file, uint64_t began, uint64_t version, bool keep, const struct tb_ranges *left);
/* Writes that are not committed, or after that version: added to `out`, which is settled then. 0 or -ENOMEM. */
int tb_recent_newer(tb_engine *e, uint32_t file, uint64_t version, struct tb_ranges *out);

#endif
