/*
 * A file's buffers as a whole: which there are, cutting them at a new length, dropping what is old or void.
 */
#ifndef TB_BUFFER_OF_FILE_H
#define TB_BUFFER_OF_FILE_H

#include "file/file.h"

/*
 * The record of that identity, made where there is none, with n_open raised by
 * one.  Where no client had it open and the file, open as `fd`, is not as it was
 * last seen, what was clean of it has been dropped.  -ENFILE: the table (max_files)
 * is full.  `path` is absolute.
 */
int tb_file_get(tb_engine *e, int fd, const struct tb_identity *id, const char *path, uint32_t flags, uint32_t *out);

/* One buffer of a file, as it was listed: a snapshot, to be checked again under the chunk's lock. */
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

/*
 * Keep those buffers of a list that share bytes with another list; returns how many are
 * left. Both are in order of offset; buffers of any size may overlap.
 */
uint32_t tb_buffers_overlapping(const tb_engine *e, struct tb_buffer_ref *refs, uint32_t n, const struct tb_buffer_ref *with,
                                uint32_t n_with);

/* Drop every buffer at or after `length` and cut the one across it; the file is claimed. */
void tb_file_cut(tb_engine *e, uint32_t file, uint64_t length);
/*
 * A file without a name that is not open any more has void bytes: drop them. The second is
 * for the caller that has claimed the file.
 */
void tb_file_forget(tb_engine *e, uint32_t file);
void tb_file_forget_claimed(tb_engine *e, uint32_t file);
/* Drop buffers without dirty bytes. */
void tb_file_drop_clean(tb_engine *e, uint32_t file);

#endif
