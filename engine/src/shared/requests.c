/*
 * Requests of clients to their daemon (shared/requests.h): records in the region with room for one message. A client takes a
 * free one, writes its message and waits; the daemon takes it, answers into the same bytes, and wakes the client. Each step is
 * one exchange of the record's state, so either side may be killed between any two.
 */
#include "shared/requests.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "region/clients.h"
#include "region/event.h"

#define LOOK_NS 50000000 /* how often a waiter looks whether the other side lives */
#define AGAIN_NS 1000000 /* between two tries */
#define FREE_NS 100000   /* how often a client that found no free request looks again */

static struct tb_request *request_at(const tb_engine *e, uint32_t i)
{
    assert(i < e->region.n_requests);
    return (struct tb_request *)(void *)(e->region.requests + i * e->region.request_bytes);
}

/* Where an operation is asked for. */
static enum tb_desk desk_of(const struct tb_wire *w)
{
    return w->op == TB_WIRE_PUT || w->op == TB_WIRE_GET ? TB_DESK_BYTES : TB_DESK_FILES;
}

/* The first request after those of the desk; a region without a remote tier has none of the second. */
static uint32_t end_of(const tb_engine *e, enum tb_desk desk)
{
    uint32_t end = ((uint32_t)desk + 1) * TB_REQUESTS;
    return end < e->region.n_requests ? end : e->region.n_requests;
}

/* Of two that want a request only one moves it. */
static bool moves(struct tb_request *r, uint32_t from, uint32_t to)
{
    return atomic_compare_exchange_strong(&r->state, &from, to);
}

size_t tb_ask_room(const tb_engine *e)
{
    return e->region.request_bytes - sizeof(struct tb_request) - sizeof(struct tb_wire) - sizeof(struct tb_told);
}

/* It was asked ahead and is not wanted for long. */
static bool is_old(const struct tb_request *r)
{
    return r->state == TB_REQUEST_AHEAD && tb_now_ns() - r->rested_ns > TB_AHEAD_NS;
}

/* The client is noted at once, so that a request of a killed client can be found. */
static bool take_one(tb_engine *e, struct tb_request *r, uint32_t state)
{
    if (!moves(r, state, TB_REQUEST_TAKEN))
        return false;
    r->client = e->slot + 1;
    r->number++; /* before it is asked: what was asked ahead by it is void */
    r->is_ahead = false;
    return true;
}

/* NULL: all from `first` on are in use. Those that are free come before old ones, which a slow reader may still come for. */
static struct tb_request *take_free(tb_engine *e, enum tb_desk desk, uint32_t first)
{
    for (uint32_t i = desk * TB_REQUESTS + first; i < end_of(e, desk); i++)
        if (request_at(e, i)->state == TB_REQUEST_FREE && take_one(e, request_at(e, i), TB_REQUEST_FREE))
            return request_at(e, i);
    for (uint32_t i = desk * TB_REQUESTS + first; i < end_of(e, desk); i++)
        if (is_old(request_at(e, i)) && take_one(e, request_at(e, i), TB_REQUEST_AHEAD))
            return request_at(e, i);
    return NULL;
}

/* NULL: there is no daemon, or none was free in time. */
static struct tb_request *take(tb_engine *e, enum tb_desk desk, uint64_t until)
{
    struct tb_request *r = NULL;
    while (!(r = take_free(e, desk, 0)) && tb_now_ns() < until && tb_daemon_is_alive(e->header))
        nanosleep(&(struct timespec){0, FREE_NS}, NULL);
    return r;
}

/* The state is stored last: the daemon takes what is ASKED, and reads it without a lock. */
static void send(tb_engine *e, struct tb_request *r, const struct tb_wire *w, const void *more, size_t n)
{
    assert(n <= tb_ask_room(e));
    memcpy(r->bytes, w, sizeof(*w));
    if (n)
        memcpy(r->bytes + sizeof(*w), more, n);
    r->n = (uint32_t)(sizeof(*w) + n);
    r->state = TB_REQUEST_ASKED;
    e->header->asking.event[desk_of(w)]++;
    tb_event_wake_one(&e->header->asking.event[desk_of(w)]); /* any thread of the daemon takes any request */
}

/* It is nobody's, or the daemon's, which frees it. False: it was answered at this moment. */
static bool leave(struct tb_request *r)
{
    r->client = 0;
    return moves(r, TB_REQUEST_ASKED, TB_REQUEST_FREE) || moves(r, TB_REQUEST_SERVED, TB_REQUEST_LEFT);
}

/* False: it is not answered, and is free or belongs to the daemon now. */
static bool await(tb_engine *e, struct tb_request *r, uint64_t until)
{
    for (uint32_t state; (state = r->state) != TB_REQUEST_ANSWERED;) {
        if (tb_now_ns() > until || !tb_daemon_is_alive(e->header)) {
            if (leave(r))
                return false;
            r->client = e->slot + 1; /* it has its answer */
        }
        tb_event_wait(&r->state, state, LOOK_NS);
    }
    return true;
}

int64_t tb_ask_end(tb_engine *e, struct tb_request *r, uint64_t until)
{
    if (!await(e, r, until))
        return -EIO;
    int64_t got = r->answer;
    if (got < 0)
        tb_ask_give(r);
    return got;
}

void tb_ask_give(struct tb_request *r)
{
    r->client = 0; /* first: the next one that takes it notes itself after that */
    r->state = TB_REQUEST_FREE;
}

void tb_ask_leave(struct tb_request *r)
{
    if (!leave(r))
        r->state = TB_REQUEST_FREE;
}

/* After an error the request is the daemon's or free, and its bytes are not looked at. */
static int64_t ask_once(tb_engine *e, const struct tb_wire *w, const void *more, size_t n, void *answer, size_t room, uint64_t until)
{
    struct tb_request *r = tb_daemon_is_alive(e->header) ? take(e, desk_of(w), until) : NULL;
    if (!r)
        return -EIO;
    send(e, r, w, more, n);
    int64_t got = tb_ask_end(e, r, until);
    if (got < 0)
        return got;
    if (got)
        memcpy(answer, r->bytes, (size_t)got < room ? (size_t)got : room);
    tb_ask_give(r);
    return got;
}

struct tb_request *tb_ask_begin(tb_engine *e, const struct tb_wire *w, uint64_t until)
{
    bool lives = tb_daemon_is_alive(e->header);
    struct tb_request *r = !lives ? NULL : until ? take(e, desk_of(w), until) : take_free(e, desk_of(w), TB_REQUESTS / 2);
    if (r)
        send(e, r, w, NULL, 0);
    return r;
}

/* No client's once it is asked, so a killed one leaves nothing to be found. Killed right before that, the request is lost (see below). */
bool tb_ask_ahead(tb_engine *e, const struct tb_wire *w, struct tb_asked *out)
{
    struct tb_request *r = tb_daemon_is_alive(e->header) ? take_free(e, desk_of(w), TB_REQUESTS / 2) : NULL;
    if (!r)
        return false;
    *out = (struct tb_asked){r, r->number};
    r->is_ahead = true;
    r->client = 0;
    send(e, r, w, NULL, 0);
    return true;
}

/* 1: the caller's; 0: not answered yet; -ENOENT: taken for something else, by whoever moved it first. */
static int try_claim(tb_engine *e, const struct tb_asked *a, uint32_t *state)
{
    struct tb_request *r = a->request;
    *state = r->state;
    if (r->number != a->number || (*state != TB_REQUEST_ASKED && *state != TB_REQUEST_SERVED && *state != TB_REQUEST_AHEAD))
        return -ENOENT;
    if (*state != TB_REQUEST_AHEAD || !moves(r, TB_REQUEST_AHEAD, TB_REQUEST_TAKEN))
        return 0;
    r->client = e->slot + 1;
    if (r->number == a->number)
        return 1;
    tb_ask_give(r); /* another caller's, asked ahead since: it asks again */
    return -ENOENT;
}

int64_t tb_ask_claim(tb_engine *e, const struct tb_asked *a, uint64_t until)
{
    uint32_t state;
    int rc;
    while ((rc = try_claim(e, a, &state)) == 0) {
        if (tb_now_ns() > until || !tb_daemon_is_alive(e->header))
            return -EIO;
        if (state != TB_REQUEST_AHEAD)
            tb_event_wait(&a->request->state, state, LOOK_NS);
    }
    if (rc < 0)
        return rc;
    if (a->request->answer >= 0)
        return a->request->answer;
    tb_ask_give(a->request);
    return -ENOENT;
}

/* Last the state: from then on any client may have it. */
void tb_ask_put_back(struct tb_request *r)
{
    assert(r->is_ahead && r->state == TB_REQUEST_TAKEN);
    r->client = 0;
    r->rested_ns = tb_now_ns();
    r->state = TB_REQUEST_AHEAD;
}

void tb_ask_forget(tb_engine *e, const struct tb_asked *a)
{
    uint32_t state;
    if (try_claim(e, a, &state) == 1)
        tb_ask_give(a->request);
}

int64_t tb_ask_for(tb_engine *e, const struct tb_wire *w, const void *more, size_t n, void *answer, size_t room, uint64_t seconds)
{
    uint64_t until = tb_now_ns() + seconds * 1000000000u;
    int64_t got;
    while ((got = ask_once(e, w, more, n, answer, room, until)) == -EAGAIN && tb_now_ns() < until)
        nanosleep(&(struct timespec){0, AGAIN_NS}, NULL);
    return got;
}

/*
 * -EAGAIN is another node that was busy, and passes; what lasts longer than the time for an answer is an error of the
 * call.
 */
int64_t tb_ask(tb_engine *e, const struct tb_wire *w, const void *more, size_t n, void *answer, size_t room)
{
    int64_t got = tb_ask_for(e, w, more, n, answer, room, w->op == TB_WIRE_FETCH ? TB_FETCH_SECONDS : TB_ASK_SECONDS);
    return got == -EAGAIN ? -EIO : got;
}

/* The event is read before the requests: one that comes in between ends the wait at once. */
struct tb_request *tb_request_take(tb_engine *e, enum tb_desk desk)
{
    _Atomic uint32_t *event = &e->header->asking.event[desk];
    uint32_t seen = *event;
    for (uint32_t i = desk * TB_REQUESTS; i < end_of(e, desk); i++) {
        struct tb_request *r = request_at(e, i);
        if (r->state == TB_REQUEST_ASKED && moves(r, TB_REQUEST_ASKED, TB_REQUEST_SERVED))
            return r;
    }
    tb_event_wait(event, seen, LOOK_NS);
    return NULL;
}

/* A client that gave up has set the state to LEFT. Then no client reads the answer, and the request is free again. */
void tb_request_answer(struct tb_request *r, int64_t answer)
{
    assert(r->state == TB_REQUEST_SERVED || r->state == TB_REQUEST_LEFT);
    r->answer = answer;
    r->rested_ns = r->is_ahead ? tb_now_ns() : 0;
    if (moves(r, TB_REQUEST_SERVED, r->is_ahead ? TB_REQUEST_AHEAD : TB_REQUEST_ANSWERED))
        tb_event_wake(&r->state);
    else
        r->state = TB_REQUEST_FREE;
}

/*
 * A request has no client for a moment, when it is taken, given back, put back or asked ahead. One whose client was killed then is lost
 * until the instance ends.
 */
void tb_requests_forget_client(tb_engine *e, uint32_t slot)
{
    for (uint32_t i = 0; i < e->region.n_requests; i++) {
        struct tb_request *r = request_at(e, i);
        uint32_t holder = slot + 1;
        if (r->state == TB_REQUEST_FREE || !atomic_compare_exchange_strong(&r->client, &holder, 0))
            continue;
        if (!moves(r, TB_REQUEST_TAKEN, TB_REQUEST_FREE) && !moves(r, TB_REQUEST_ASKED, TB_REQUEST_FREE) &&
            !moves(r, TB_REQUEST_SERVED, TB_REQUEST_LEFT))
            moves(r, TB_REQUEST_ANSWERED, TB_REQUEST_FREE);
    }
}
