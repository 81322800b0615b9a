/*
 * Times of a buffered file. A flush comes later than the write, and its time would be
 * taken for the write's. So the time of the last write is kept, shown while bytes are
 * dirty, and given to the backing file after the flush. The ctime cannot be given: as long
 * as it is the one that our flush left, the time of the write is shown instead. Before a
 * program sets times it flushes, and that gives the time also where no bytes are dirty. A file
 * with dirty bytes shows as many blocks as its size fills, because a program that skips
 * holes must not take it for one; but no more than its buffers can fill.
 */
#ifndef TB_TIMES_H
#define TB_TIMES_H

#include "region/handle.h"

/* Bytes were buffered now. */
void tb_times_written(struct tb_file *f);

/* `st` was asked for before a flush ended: ask again. */
bool tb_times_are_old(const struct tb_file *f, const struct stat *st);
/* What the backing file's `st` says, as the program has to see it. */
void tb_times_show(const tb_engine *e, const struct tb_file *f, struct stat *st);

/*
 * After a flush through `fd`: the time that was given, 0 for none. When the backing file's
 * times are noted, it has been given.
 */
int64_t tb_times_give(const struct tb_file *f, int fd);
void tb_times_given(struct tb_file *f, int64_t written);

#endif
