/*
 * Times of a buffered file.  A flush comes later than the write, and would be
 * taken for it: so the time of the last write is kept, shown while bytes are
 * dirty, and given to the backing file behind the flush.  Its ctime can't be
 * given; as long as it is the one our flush left, the write's is shown instead.
 * A file with dirty bytes shows as many blocks as its size fills: a program that
 * skips holes must not take it for one.
 */
#ifndef TB_TIMES_H
#define TB_TIMES_H

#include "region/handle.h"

/* Bytes were buffered now. */
void tb_times_written(struct tb_file *f);

/* `st` was asked for before a flush ended: ask again. */
bool tb_times_are_old(const struct tb_file *f, const struct stat *st);
/* What the backing file's `st` says, as the program shall see it. */
void tb_times_show(const struct tb_file *f, struct stat *st);

/* Behind a flush through `fd`: the time it was given, 0 for none.  When the backing file's times are noted, it has been given. */
int64_t tb_times_give(const struct tb_file *f, int fd);
void tb_times_given(struct tb_file *f, int64_t written);

#endif
