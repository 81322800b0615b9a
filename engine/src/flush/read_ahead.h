/*
 * Bytes of other nodes that a thread is about to read, asked for while it still does something else: so the network is not idle between two
 * reads that follow each other. The answers stay in the requests, which any other caller may take when they are not wanted for a
 * while (shared/requests.h). They count as long as bytes that were asked for at that moment would: until a look at the file finds a newer commit,
 * or some of it goes from here (flush/stamp.h). With second copies nothing is read ahead, since there the end of other nodes matters.
 */
#ifndef TB_FLUSH_READ_AHEAD_H
#define TB_FLUSH_READ_AHEAD_H

#include "flush/backing.h"
#include "flush/stamp.h"
#include "shared/requests.h"

/* An answer to what was asked ahead, of [lo, hi); `n` bytes of it, in the request. */
struct tb_ahead {
    struct tb_request *request;
    uint64_t lo, hi;
    int64_t n;
};

/* The answer that has byte `at`: the caller's, as of tb_ask_claim. False: there is none that counts. -EIO in n: none came in time. */
bool tb_read_ahead_take(const struct tb_target *t, uint64_t at, const struct tb_stamp *now, uint64_t until, struct tb_ahead *out);
/* A read of [offset, offset + n) is over. If it followed the one before, ask for what comes next, each time for more. */
void tb_read_ahead_go_on(struct tb_target *t, uint64_t offset, uint64_t n, uint64_t piece);
/* What was asked ahead is of no use: the next read begins anew. */
void tb_read_ahead_stop(void);

#endif
