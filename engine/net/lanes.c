/*
 * Lanes (lanes.h). A call has its lane alone, so it waits for no other call; where it fails the lane is closed, and a late
 * answer finds no reader. A lane that waits for the peer's next message is broken by the thread that loses the peer.
 */
#include "net/lanes.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "net/start/greet.h"

static void push(struct tb_lane **list, struct tb_lane *lane)
{
    lane->next = *list;
    *list = lane;
}

static void take_out(struct tb_lane **list, struct tb_lane *lane)
{
    while (*list != lane)
        list = &(*list)->next;
    *list = lane->next;
}

/*
 * The lanes stay in their lists: each is freed by the thread that uses it, or by the next call or tb_lanes_stop where it
 * is idle. Freed here, it would go under the hands of a thread that waits on it.
 */
void tb_lanes_break(struct tb_peer *p)
{
    struct tb_lane *lists[] = {p->idle, p->busy, p->served};
    for (unsigned i = 0; i < 3; i++)
        for (struct tb_lane *lane = lists[i]; lane; lane = lane->next)
            tb_lane_break(lane);
}

static void free_idle(struct tb_peer *p)
{
    for (struct tb_lane *lane; (lane = p->idle);) {
        p->idle = lane->next;
        p->lanes--;
        tb_lane_free(lane);
    }
}

/*
 * Threads that serve lanes are detached, so they are counted and not joined. No call is under way: the caller
 * has ended the threads that make calls before it closes the network.
 */
void tb_lanes_stop(struct tb_peer *p)
{
    pthread_mutex_lock(&p->lock);
    while (p->n_served > 0)
        pthread_cond_wait(&p->changed, &p->lock);
    free_idle(p);
    pthread_mutex_unlock(&p->lock);
}

static int milliseconds_until(uint64_t until_ns)
{
    uint64_t now = tb_now_ns();
    return until_ns <= now ? 0 : (int)((until_ns - now) / 1000000u) + 1;
}

/*
 * Without the lock: a call to a node that is cut off takes as long as the answer may, and losing the peer must not wait
 * for it.
 */
static struct tb_lane *connect_lane(struct tb_peer *p, uint64_t until_ns, int *rc)
{
    struct tb_hello hello;
    uint8_t session[TB_NET_PROOF_BYTES];
    tb_peer_hello(p, TB_FOR_CALLS, &hello);
    int fd = tb_greet(p->common->key, &p->record.address, &p->common->own->address, &hello, milliseconds_until(until_ns), session);
    struct tb_lane *lane = fd >= 0 ? tb_lane_make(p->common->transport, fd, true, session) : NULL;
    *rc = fd < 0 ? fd : lane ? 0 : -ENOMEM;
    return lane;
}

/*
 * The call's from here on, and known to the thread that loses the peer. The peer may have been lost while the lane was made.
 * No thread would break this lane then, because it was in no list, so it is broken here.
 */
static void begin(struct tb_peer *p, struct tb_lane *lane)
{
    pthread_mutex_lock(&p->lock);
    push(&p->busy, lane);
    if (!p->is_alive)
        tb_lane_break(lane);
    pthread_mutex_unlock(&p->lock);
}

/* For a lane that was counted by wait_for_lane and never came to be. Another call may be waiting for the place. */
static void give_up_place(struct tb_peer *p)
{
    pthread_mutex_lock(&p->lock);
    p->lanes--;
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->lock);
}

/*
 * A good lane is kept for the next call, with its connection and what the transport registered. A broken one is freed
 * outside the lock, because closing an endpoint of libfabric may take a while.
 */
static void end(struct tb_peer *p, struct tb_lane *lane, bool is_good)
{
    pthread_mutex_lock(&p->lock);
    take_out(&p->busy, lane);
    is_good = is_good && !lane->is_over;
    if (is_good)
        push(&p->idle, lane);
    else
        p->lanes--;
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->lock);
    if (!is_good)
        tb_lane_free(lane);
}

static struct tb_lane *make_lane(struct tb_peer *p, uint64_t until_ns, int *rc)
{
    struct tb_lane *lane = connect_lane(p, until_ns, rc);
    if (!lane)
        return give_up_place(p), NULL;
    begin(p, lane);
    *rc = p->common->transport->ops->connect(lane, until_ns);
    if (*rc == 0)
        return lane;
    end(p, lane, false);
    return NULL;
}

/* Lanes of before a loss are broken; the first call after it finds them here. */
static struct tb_lane *take_idle(struct tb_peer *p)
{
    struct tb_lane *lane;
    while ((lane = p->idle) && lane->is_over) {
        p->idle = lane->next;
        p->lanes--;
        tb_lane_free(lane);
    }
    if (lane) {
        p->idle = lane->next;
        push(&p->busy, lane);
    }
    return lane;
}

/*
 * NULL and `rc` 0: there is a place for a new lane. The place is counted here, under the lock, and the lane is made later
 * without it: so there are never more than TB_LANES_MAX, however many calls begin at once.
 */
static struct tb_lane *wait_for_lane(struct tb_peer *p, uint64_t until_ns, int *rc)
{
    struct timespec until = {(time_t)(until_ns / 1000000000u), (long)(until_ns % 1000000000u)};
    struct tb_lane *lane = NULL;
    pthread_mutex_lock(&p->lock);
    for (*rc = 0; p->is_alive && !*rc && !(lane = take_idle(p)) && p->lanes >= TB_LANES_MAX;)
        *rc = -pthread_cond_clockwait(&p->changed, &p->lock, CLOCK_MONOTONIC, &until);
    if (!p->is_alive)
        *rc = -EHOSTDOWN;
    p->lanes += !lane && !*rc;
    pthread_mutex_unlock(&p->lock);
    return lane;
}

/* After an error the lane is not used again: the answer may still come, and the next call would take it for its own. */
static int64_t call(struct tb_lane *lane, const void *request, size_t n, void *answer, size_t room, uint64_t until_ns)
{
    const struct tb_transport_ops *ops = lane->transport->ops;
    struct tb_frame head = {.kind = TB_FRAME_REQUEST, .bytes = (uint32_t)n, .result = (int64_t)room};
    int rc = ops->send(lane, &head, request, until_ns);
    if (!rc)
        rc = ops->recv(lane, &head, answer, room, until_ns);
    if (!rc && head.kind != TB_FRAME_ANSWER)
        rc = -EPROTO;
    if (rc)
        tb_lane_break(lane);
    return rc ? rc : head.result;
}

/* A lane ends with its peer, or because the peer could not take the call: neither says more than that it is not there. */
static int64_t why_not(struct tb_peer *p, int64_t rc)
{
    return rc == -ETIMEDOUT && tb_peer_is_alive(p) ? -ETIMEDOUT : -EHOSTDOWN;
}

/*
 * One deadline for all steps: the wait for a lane, its making and the call. What the peer's serve returned, also an error,
 * is a result; only a lane that broke asks why.
 */
int64_t tb_lanes_call(struct tb_peer *p, const void *request, size_t n, void *answer, size_t room)
{
    uint64_t until_ns = tb_now_ns() + (uint64_t)p->common->options->answer_ms * 1000000u;
    int rc;
    struct tb_lane *lane = wait_for_lane(p, until_ns, &rc);
    if (!lane && !rc)
        lane = make_lane(p, until_ns, &rc);
    if (!lane)
        return why_not(p, rc);
    int64_t result = call(lane, request, n, answer, room, until_ns);
    bool is_good = !lane->is_over;
    end(p, lane, is_good);
    return is_good ? result : why_not(p, result);
}

struct served {
    struct tb_peer *peer;
    struct tb_lane *lane;
    uint8_t *request, *answer;
};

/*
 * Waits for the next request without a deadline: a lane may idle for hours, and losing the peer breaks it. The answer has
 * one, because a caller that does not read would hold this thread for ever.
 */
static int serve_one(struct served *s)
{
    const struct tb_net_options *o = s->peer->common->options;
    const struct tb_transport_ops *ops = s->lane->transport->ops;
    struct tb_frame head;
    int rc = ops->recv(s->lane, &head, s->request, TB_PAYLOAD_MAX, UINT64_MAX);
    if (rc || head.kind != TB_FRAME_REQUEST)
        return rc ? rc : -EPROTO;
    int64_t result = o->serve(o->arg, s->peer->number, s->request, head.bytes, s->answer, (size_t)head.result);
    if (result > head.result)
        result = -EMSGSIZE;
    head = (struct tb_frame){.kind = TB_FRAME_ANSWER, .bytes = result > 0 ? (uint32_t)result : 0, .result = result};
    return ops->send(s->lane, &head, s->answer, tb_now_ns() + (uint64_t)o->answer_ms * 1000000u);
}

/* The caller has proved its name; an endpoint of libfabric takes seconds to be made where the processors are taken. */
static void serve_until_end(struct served *s)
{
    uint64_t until_ns = tb_now_ns() + (uint64_t)s->peer->common->options->answer_ms * 1000000u;
    int rc = s->request && s->answer ? s->lane->transport->ops->connect(s->lane, until_ns) : -ENOMEM;
    while (!rc)
        rc = serve_one(s);
}

/* The last thing that it touches of the peer is the lock, which a thread that waits for the count takes too. */
static void *serve_lane(void *arg)
{
    struct served s = *(struct served *)arg;
    free(arg);
    s.request = malloc(TB_PAYLOAD_MAX);
    s.answer = malloc(TB_PAYLOAD_MAX);
    serve_until_end(&s);
    pthread_mutex_lock(&s.peer->lock);
    take_out(&s.peer->served, s.lane);
    pthread_mutex_unlock(&s.peer->lock);
    tb_lane_free(s.lane);
    free(s.request);
    free(s.answer);
    pthread_mutex_lock(&s.peer->lock);
    s.peer->n_served--;
    pthread_cond_broadcast(&s.peer->changed);
    pthread_mutex_unlock(&s.peer->lock);
    return NULL;
}

/* Under the lock. */
static bool start_thread(struct served *s)
{
    pthread_t thread;
    pthread_attr_t detached;
    pthread_attr_init(&detached);
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    bool started = pthread_create(&thread, &detached, serve_lane, s) == 0;
    pthread_attr_destroy(&detached);
    return started;
}

/*
 * Refused by closing it: from a lost peer, or more than TB_SERVED_MAX. The caller then sees its lane end, as if this node
 * were lost to that one call. The count goes up before the thread starts, so that tb_lanes_stop cannot miss it.
 */
void tb_lanes_serve(struct tb_peer *p, int fd, const uint8_t session[TB_NET_PROOF_BYTES])
{
    struct tb_lane *lane = tb_lane_make(p->common->transport, fd, false, session);
    struct served *s = lane ? malloc(sizeof(*s)) : NULL;
    bool started = false;
    pthread_mutex_lock(&p->lock);
    if (s && p->is_alive && p->n_served < TB_SERVED_MAX) {
        *s = (struct served){.peer = p, .lane = lane};
        push(&p->served, lane);
        p->n_served++;
        if (!(started = start_thread(s))) {
            take_out(&p->served, lane);
            p->n_served--;
        }
    }
    pthread_mutex_unlock(&p->lock);
    if (started)
        return;
    free(s);
    if (lane)
        tb_lane_free(lane);
}
