/*
 * What a client asks of its daemon, through the region: the daemon alone speaks with other nodes. A call ends in any case:
 * with -EIO where no daemon lives, or where it did not answer in time.
 */
#ifndef TB_SHARED_REQUESTS_H
#define TB_SHARED_REQUESTS_H

#include "region/handle.h"
#include "shared/wire.h"

#define TB_ASK_SECONDS 60  /* of -EAGAIN: a node that lives is busy with the file, a flush as a rule */
#define TB_FETCH_SECONDS 9 /* of a fetch: bytes are on their way from a tier to the PFS, or a node is found lost after 8 */

/*
 * The request is `w`, then `n` bytes; the answer's first `room` bytes go to `answer`. Its length, or -errno. The daemon never waits
 * for another node's work, so that it always has a thread for the next request: it says -EAGAIN, and is asked again here.
 */
int64_t tb_ask(tb_engine *e, const struct tb_wire *w, const void *more, size_t n, void *answer, size_t room);
/* The same, with so many seconds; then -EAGAIN. */
int64_t tb_ask_for(tb_engine *e, const struct tb_wire *w, const void *more, size_t n, void *answer, size_t room, uint64_t seconds);
/* The most that a request or an answer may have after its head. */
size_t tb_ask_room(const tb_engine *e);

/*
 * Several at once, without a body: each is begun, then awaited, and its answer is read where it lies until it is given back. A caller that
 * has requests waits for no other one, or all callers might wait for each other: with `until` 0 it takes a spare one, or none (NULL).
 * Those that are no spare ones are left to callers that have none, also where a stopped process keeps the spare ones for long.
 */
struct tb_request *tb_ask_begin(tb_engine *e, const struct tb_wire *w, uint64_t until);
/* As tb_ask, and -EAGAIN is not asked again. After an error the request is the caller's no more. */
int64_t tb_ask_end(tb_engine *e, struct tb_request *r, uint64_t until);
void tb_ask_give(struct tb_request *r);
/* Of a request that was not awaited. */
void tb_ask_leave(struct tb_request *r);

/*
 * What a program may want soon. It is asked for by a spare request, and is nobody's from then on: an answer that no caller comes for is
 * in nobody's way after TB_AHEAD_NS, since the request counts as free then.
 */
#define TB_AHEAD_NS 100000000
struct tb_asked {
    struct tb_request *request;
    uint32_t number; /* of this use of the request */
};
/* False: none was spare. */
bool tb_ask_ahead(tb_engine *e, const struct tb_wire *w, struct tb_asked *out);
/*
 * The answer's length: the request is the caller's as after tb_ask_end, until it is given back, or put back for later. -ENOENT: there is no
 * answer, or no more; ask without it. -EIO: no answer came in time.
 */
int64_t tb_ask_claim(tb_engine *e, const struct tb_asked *a, uint64_t until);
void tb_ask_put_back(struct tb_request *r);
/* It is not wanted any more. */
void tb_ask_forget(tb_engine *e, const struct tb_asked *a);

/* The daemon: the next request of that desk, or NULL after a moment without one. Then its answer is in `bytes`: its length, or -errno. */
struct tb_request *tb_request_take(tb_engine *e, enum tb_desk desk);
void tb_request_answer(struct tb_request *r, int64_t answer);
/* After the client of that slot was killed. */
void tb_requests_forget_client(tb_engine *e, uint32_t slot);

#endif
