/*
 * Second copies of what other nodes committed (`copies: 2`): the keeper of a file has them, beside its list of which node has which bytes.
 *
 * A node sends the bytes first, and then the commit that they are of. Only with that they count, and replace all that this keeper had of
 * the node in that file: a commit names every byte that the PFS lacks. They count as long as the keeper says that the node has these
 * bytes: what another node commits, a flush that has ended, a cut and a removal take them away in the same step, under one lock. So a copy
 * that is here is what was committed last.
 */
#ifndef TB_COPIES_STORE_H
#define TB_COPIES_STORE_H

#include <stdbool.h>
#include <stddef.h>

#include "shared/wire.h"

/* The most bytes that are kept, with what it costs to know them. */
void copies_set_limit(uint64_t bytes);
uint64_t copies_bytes(void);

/* COPY, WHERE_COPY and READ_COPY of another node, or this one: the answer's length, or -errno. -ENOBUFS: there is no room. */
int64_t copies_answer(uint32_t from, const struct tb_wire *w, const void *more, size_t n, void *answer, size_t room);

/* The keeper, around one step of its own: enter, prepare, the step, follow, leave. */
void copies_enter(void);
void copies_leave(void);
/*
 * Before a commit, an end, a cut or a removal, which leaves at most `most` extents. 0; -EAGAIN: copies of the file are on their way to the
 * PFS; -EIO: that happened to this node's, so what it says of the file counts no more, or to what is cut off now; -ENOMEM.
 */
int copies_prepare(uint32_t from, const struct tb_wire *w, uint32_t most);
/* After it was done: the file has these extents, in order. `none`: it is forgotten. */
void copies_follow(uint32_t from, const struct tb_wire *w, const struct tb_wire_extent *extent, uint32_t n, bool none);

/* Copies of one file that are to go to the PFS. */
struct copies_part {
    uint64_t lo, hi;
    const char *bytes;
};

struct copies_job {
    struct tb_wire_file file;
    uint32_t node, n;
    char *path;
    struct copies_part *part;
    void *holds;
};

/*
 * The next file with copies of that node which are not on the PFS and were not tried in this round: until copies_end_job no change of the
 * file is taken. False: none. A job that can't be made for want of memory is left for the next round. `lost`: else those only that were
 * put there before, and may have been written over since.
 */
bool copies_begin_job(uint32_t node, bool lost, uint64_t round, struct copies_job *job);
void copies_end_job(struct copies_job *job, bool saved);
/* Bytes of that node's copies that are not on the PFS; `lost` as above. */
uint64_t copies_of(uint32_t node, bool lost);
/* What went to the PFS of that node counts as not there: what the node had on its way may have come later. */
void copies_doubt(uint32_t node);

#endif
