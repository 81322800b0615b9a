/*
 * Flush: dirty bytes of a file to its backing file, in order of offset.
 *
 * Bytes are copied out under the chunk's lock and written outside it, so a writer waits
 * for a copy at most. A buffer that changed during the flush stays dirty. A flush takes
 * what was dirty when it began, so it ends while programs go on writing. Buffers that a
 * journal record refers to, and every buffer when the caller asks for it, count as clean
 * only after the backing file's fsync.
 */
#ifndef TB_FLUSH_H
#define TB_FLUSH_H

#include "flush/backing.h"

#define TB_FLUSH_SOME (1u << 20) /* the least that is worth a look at a file's buffers */

struct tb_flush_result {
    uint64_t bytes;
    int error; /* also kept in the record until reported */
};

/* Claim the file, as tb_file_claim, to flush it: with what its flush needs of other nodes. */
bool tb_flush_claim(tb_engine *e, uint32_t file);
/* Without a flush after all. */
void tb_flush_unclaim(tb_engine *e, uint32_t file);
/*
 * For a caller that has claimed the file. `fd`: a writable descriptor of the backing file, or -1 to open it by name. Programs' flushes:
 * flush/program.h.
 */
struct tb_flush_result tb_flush_claimed(tb_engine *e, uint32_t file, int fd, bool sync);
/* The same for one that gives the claim up: for moments in between where others wait for it, and at the end. */
struct tb_flush_result tb_flush_giving_way(tb_engine *e, uint32_t file, int fd, bool sync);

/*
 * Flush some dirty bytes of `tier`, of one file that no other client is flushing: `bytes`
 * or more if there are so many.
 */
void tb_flush_some(tb_engine *e, uint32_t tier, uint64_t bytes);

/*
 * Put what one buffer holds on the PFS, by the same steps, and empty it: it stays where it
 * is, and nothing in it is valid. For a writer that finds neither a buffer nor a fragment.
 * The file is claimed. The chunk is locked by the caller, and stays so all the while.
 */
int tb_flush_and_empty(struct tb_target *t, struct tb_buffer *b);

/* Take (and clear) the error to report at fsync or close. */
int tb_file_take_error(tb_engine *e, uint32_t file);

#endif
