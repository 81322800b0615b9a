/*
 * Where a file ends: appending to it, and setting its length.
 *
 * Both happen under one lock a file, as they do in a kernel. An append looks where the
 * file ends, copies its bytes there, and only then moves the end. So a reader at the end
 * of a log sees whole records, or the first bytes of one, and never bytes that were not
 * written. A killed appender leaves at most the first bytes of its record.
 *
 * A new length is told to readers first; then what is past it goes. Plain writes take
 * only a chunk's lock. So the process that sets the length marks the file and waits for
 * those that hold a chunk of it; a process that locks a chunk later sees the mark and
 * waits. If the cutter is killed, the new length is in the record (cut_to): the next
 * holder of the lock, or repair, finishes the change.
 *
 * Limits: a plain write past the end does not take this lock. In the chunk where an append
 * begins, it comes whole before the append or whole after it. An append over several
 * chunks may overwrite what was written there during it, and may fill the hole before a
 * write that was past the end in a later chunk.
 */
#ifndef TB_END_H
#define TB_END_H

#include "file/file.h"
#include "io/identity.h"

/*
 * Lock the end of a file, to append or to set the length. `fd` may set the length of the
 * backing file; -1: by name. Returns what to unlock, or -EDEADLK.
 */
int tb_end_lock(tb_engine *e, uint32_t file, int fd);
void tb_end_unlock(tb_engine *e, int stripe);

/*
 * Cut or extend a file that has a record, by a descriptor. `id`: the file that the caller means, if the record does not
 * count its descriptor; -EAGAIN if the record has become another file's.
 */
int tb_end_set(tb_engine *e, uint32_t file, const struct tb_identity *id, int fd, uint64_t length);

/*
 * Other nodes may have cut the file, open as `fd`: it ends with what the PFS has of it, what is dirty here, and `end`, which is
 * where the bytes of other nodes end, at that version. Not of one that was never longer, nor where this node has heard of a later
 * version.
 */
int tb_end_lower(tb_engine *e, uint32_t file, int fd, uint64_t end, uint64_t version);

int tb_layer_truncate_path(struct tb_io *io, const char *path, off_t length);
/* What a program sees of a file's size, `backing` being the backing file's: other nodes may have made that longer. */
off_t tb_layer_size(const tb_engine *e, uint32_t file, off_t backing);
/* The same of an open file: what SEEK_END counts from. */
off_t tb_layer_end(tb_engine *e, uint32_t file, int fd);

/* Wait until no process sets the file's length any more.  The caller holds no lock. */
void tb_end_wait(tb_engine *e, uint32_t file);
/* Bring to its end what killed clients began. */
void tb_end_repair(tb_engine *e);

#endif
