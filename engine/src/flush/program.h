/* Flushes and commits that a program asks for and waits for; flush/flush.h has the flush itself. */
#ifndef TB_FLUSH_PROGRAM_H
#define TB_FLUSH_PROGRAM_H

#include "flush/flush.h"
#include "shared/wire.h"

/*
 * `fd`: a writable descriptor of the backing file, or -1 to open it by name. Waits for another flusher, and for what other nodes have to
 * flush first: 10 s at most, then -EIO.
 */
struct tb_flush_result tb_flush_file(tb_engine *e, uint32_t file, int fd, bool sync);
/* A program's commit of a shared file, as tb_shared_commit: what is dirty is seen by all, and with `copies: 2` not lost with this node. */
int tb_flush_commit(struct tb_target *t, struct tb_told *told);
/*
 * Before an fsync and the last close: another node may have removed the file, or replaced it. It hears of bytes that are committed and makes
 * this node lose them; others would be kept for a name that is gone, and no drain could end.
 */
int tb_flush_meet_removal(tb_engine *e, uint32_t file, int fd);

#endif
