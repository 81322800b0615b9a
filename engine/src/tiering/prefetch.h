/*
 * Prefetch: the daemon reads ahead of streams, and along a schedule.
 *
 * A piece is read from the backing file without a lock, under the file's claim, so that no
 * flush and no truncation comes between. It is published as clean bytes where no process
 * has written since. Prefetched bytes take free buffers, or those of clean bytes that have
 * served. What was prefetched and not read yet is not given up for more of it, so
 * prefetching stops when there is no room and goes on when the reader has used what is
 * there.
 */
#ifndef TB_PREFETCH_H
#define TB_PREFETCH_H

#include "region/handle.h"

struct tb_prefetcher {
    struct {
        int fd; /* of the backing file, -1: not opened yet */
        uint32_t serial;
        uint64_t next;       /* not fetched yet */
        uint64_t stopped_at; /* where the reader was when there was no room */
    } stream[TB_STREAMS];
};

void tb_prefetch_start(struct tb_prefetcher *p);
/* A piece for each stream; false where there was nothing to do. */
bool tb_prefetch_step(tb_engine *e, struct tb_prefetcher *p);
void tb_prefetch_end(tb_engine *e, struct tb_prefetcher *p);

enum tb_fetch { TB_FETCH_DONE, TB_FETCH_NO_ROOM, TB_FETCH_BUSY, TB_FETCH_OVER };

/*
 * Fetch what no buffer has of [*offset, end) of a file, one piece at most; *offset moves
 * to the end of what is there now. OVER: the end of the file, or no more of it can be had.
 * If `fd` is -1 it is opened by name.
 */
enum tb_fetch tb_fetch(tb_engine *e, uint32_t file, int *fd, uint64_t *offset, uint64_t end);

#endif
