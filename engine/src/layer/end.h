/*
 * Where a file ends: appending to it, and setting its length.
 *
 * Both happen under one lock a file, as they do in a kernel.  An append looks
 * where the file ends, copies its bytes there, and only then does the file end
 * after them: who reads at the end of a log meets whole records, or the first
 * bytes of one, and never bytes that nobody wrote.  A killed appender leaves
 * the first bytes of its record at most.
 *
 * A new length is told to readers first; what lies after it goes then.  Plain writes
 * take the lock of a chunk only: who sets the length marks the file, waits for those
 * who hold a chunk of it, and whoever takes one then sees the mark and waits.  A client
 * that is killed in between has left the new length in the record (cut_to): who
 * takes the lock next, or repairs, brings the change to its end.
 *
 * Limits: a plain write past the end takes no lock of these.  It meets an append
 * in the chunk where that begins, whole before it or whole after it; an append
 * across chunks may overwrite what was written there meanwhile, and one may fill the
 * hole before a write that was past the end in a later chunk.
 */
#ifndef TB_END_H
#define TB_END_H

#include "file/file.h"
#include "io/identity.h"

/*
 * Who holds it appends or sets the length.  `fd` may set the length of the
 * backing file, -1: by name.  Returns what to unlock, or -EDEADLK.
 */
int tb_end_lock(tb_engine *e, uint32_t file, int fd);
void tb_end_unlock(tb_engine *e, int stripe);

/*
 * Cut or extend a file with a record.  `id` of whom the caller means, where it has
 * not got it open: -EAGAIN where the record is another file's by now.
 */
int tb_end_set(tb_engine *e, uint32_t file, const struct tb_identity *id, int fd, uint64_t length);

/* Wait until no process sets the file's length any more.  The caller holds no lock. */
void tb_end_wait(tb_engine *e, uint32_t file);
/* Bring to its end what killed clients began. */
void tb_end_repair(tb_engine *e);

#endif
