/*
 * A peer (peer.h).
 *
 * The reader alone closes the connection; to lose a peer is to shut its socket down, which ends every wait on it. An answer
 * is read straight into the memory of the call that waits for it. A call that gives up waits until the reader has let go of
 * that memory, which takes no longer than a look at the socket.
 */
#include "net/peer.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "net/net.h"

#define LOOK_MS 100 /* a reader that waits for the rest of a frame looks whether it is still wanted */

struct tb_peer_call {
    struct tb_peer_call *next;
    uint64_t id;
    void *answer;
    size_t room;
    int64_t result;
    bool is_done, is_filling, has_given_up;
    pthread_cond_t done;
};

static struct tb_peer_call *find_call(struct tb_peer *p, uint64_t id)
{
    struct tb_peer_call *c = p->calls;
    while (c && c->id != id)
        c = c->next;
    return c;
}

static void end_call(struct tb_peer_call *c, int64_t result)
{
    c->result = result;
    c->is_done = true;
    c->is_filling = false;
    pthread_cond_signal(&c->done);
}

/* 1: some bytes, 0: none yet, -ECONNRESET: no more will come. */
static int take_some(struct tb_peer *p, int fd, uint8_t **to, size_t *left)
{
    ssize_t n = recv(fd, *to, *left, MSG_DONTWAIT);
    if (n > 0) {
        p->heard_ns = tb_now_ns();
        *to += n;
        *left -= (size_t)n;
        return 1;
    }
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        struct pollfd look = {.fd = fd, .events = POLLIN};
        poll(&look, 1, LOOK_MS);
        return 0;
    }
    return -ECONNRESET;
}

static int take(struct tb_peer *p, int fd, void *to, size_t n)
{
    uint8_t *at = to;
    while (n > 0)
        if (take_some(p, fd, &at, &n) < 0)
            return -ECONNRESET;
    return 0;
}

static int skip(struct tb_peer *p, int fd, size_t n)
{
    uint8_t nowhere[4096];
    for (size_t part; n > 0; n -= part) {
        part = n < sizeof(nowhere) ? n : sizeof(nowhere);
        if (take(p, fd, nowhere, part))
            return -ECONNRESET;
    }
    return 0;
}

/* True as long as the memory of the call may be written. */
static bool is_wanted(struct tb_peer *p, struct tb_peer_call *c)
{
    pthread_mutex_lock(&p->lock);
    bool wanted = !c->has_given_up;
    if (!wanted)
        end_call(c, -ETIMEDOUT);
    pthread_mutex_unlock(&p->lock);
    return wanted;
}

static struct tb_peer_call *begin_answer(struct tb_peer *p, const struct tb_frame *f)
{
    pthread_mutex_lock(&p->lock);
    struct tb_peer_call *c = find_call(p, f->id);
    if (c && f->bytes > c->room)
        end_call(c, -EMSGSIZE);
    if (c && c->is_done)
        c = NULL;
    if (c)
        c->is_filling = true;
    pthread_mutex_unlock(&p->lock);
    return c;
}

static void end_answer(struct tb_peer *p, struct tb_peer_call *c, int64_t result)
{
    pthread_mutex_lock(&p->lock);
    end_call(c, result);
    pthread_mutex_unlock(&p->lock);
}

/* An answer that came too late is for nobody. */
static int take_answer(struct tb_peer *p, int fd, const struct tb_frame *f)
{
    struct tb_peer_call *c = begin_answer(p, f);
    uint8_t *at = c ? c->answer : NULL;
    size_t left = f->bytes;
    for (int came = 1; c && left > 0;) {
        if (came == 0 && !is_wanted(p, c))
            c = NULL;
        else if ((came = take_some(p, fd, &at, &left)) < 0)
            return end_answer(p, c, -EHOSTDOWN), -ECONNRESET;
    }
    if (c)
        end_answer(p, c, f->result);
    return skip(p, fd, left);
}

static int take_request(struct tb_peer *p, int fd, const struct tb_frame *f)
{
    void *bytes = malloc(f->bytes ? f->bytes : 1);
    if (!bytes)
        return -ENOMEM;
    if (take(p, fd, bytes, f->bytes))
        return free(bytes), -ECONNRESET;
    p->events->request(p->arg, p, f->id, bytes, f->bytes);
    return 0;
}

static int take_list(struct tb_peer *p, int fd)
{
    uint8_t digest[TB_DIGEST_BYTES];
    if (take(p, fd, digest, sizeof(digest)))
        return -ECONNRESET;
    p->events->start(p->arg, p, digest, 0);
    return 0;
}

static int take_frame(struct tb_peer *p, int fd)
{
    uint8_t head[TB_FRAME_BYTES];
    struct tb_frame f;
    if (take(p, fd, head, sizeof(head)))
        return -ECONNRESET;
    if (tb_frame_get(head, &f))
        return -EPROTO;
    switch (f.kind) {
    case TB_FRAME_LIST: return take_list(p, fd);
    case TB_FRAME_REFUSED: return p->events->start(p->arg, p, NULL, f.result), 0;
    case TB_FRAME_REQUEST: return take_request(p, fd, &f);
    case TB_FRAME_ANSWER: return take_answer(p, fd, &f);
    default: return 0;
    }
}

/* Under the lock. The reader closes the socket. */
static bool lose(struct tb_peer *p)
{
    bool was_alive = p->is_alive;
    p->is_alive = false;
    if (was_alive)
        shutdown(p->fd, SHUT_RDWR);
    for (struct tb_peer_call *c = p->calls; c; c = c->next)
        if (!c->is_done && !c->is_filling)
            end_call(c, -EHOSTDOWN);
    pthread_cond_broadcast(&p->changed);
    return was_alive;
}

void tb_peer_lose(struct tb_peer *p, const char *why)
{
    pthread_mutex_lock(&p->lock);
    bool was_alive = lose(p), ends = p->ends;
    pthread_mutex_unlock(&p->lock);
    if (was_alive && !ends)
        p->events->lost(p->arg, p, why);
}

/* -1: the end. */
static int wait_for_connection(struct tb_peer *p)
{
    pthread_mutex_lock(&p->lock);
    while (!p->is_alive && !p->ends)
        pthread_cond_wait(&p->changed, &p->lock);
    int fd = p->ends ? -1 : p->fd;
    pthread_mutex_unlock(&p->lock);
    return fd;
}

static void close_connection(struct tb_peer *p)
{
    pthread_mutex_lock(&p->lock);
    while (p->senders > 0)
        pthread_cond_wait(&p->changed, &p->lock);
    close(p->fd);
    p->fd = -1;
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->lock);
}

static void *read_all(void *arg)
{
    struct tb_peer *p = arg;
    for (int fd; (fd = wait_for_connection(p)) >= 0;) {
        int rc;
        while ((rc = take_frame(p, fd)) == 0)
            ;
        tb_peer_lose(p, rc == -EPROTO ? "it said what no node says" : rc == -ENOMEM ? "no memory for its request" : "its connection ended");
        close_connection(p);
    }
    return NULL;
}

int tb_peer_start(struct tb_peer *p)
{
    pthread_attr_t small;
    p->fd = -1;
    pthread_mutex_init(&p->lock, NULL);
    pthread_mutex_init(&p->sending, NULL);
    pthread_cond_init(&p->changed, NULL);
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 256 << 10); /* there may be thousands of peers */
    int rc = -pthread_create(&p->reader, &small, read_all, p);
    pthread_attr_destroy(&small);
    return rc;
}

bool tb_peer_adopt(struct tb_peer *p, int fd)
{
    const int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    pthread_mutex_lock(&p->lock);
    while (!p->is_alive && p->fd >= 0 && !p->ends) /* the reader is about to close the last one */
        pthread_cond_wait(&p->changed, &p->lock);
    bool takes = !p->is_alive && !p->ends;
    if (takes) {
        p->fd = fd;
        p->is_alive = true;
        p->heard_ns = p->said_ns = tb_now_ns();
        pthread_cond_broadcast(&p->changed);
    }
    pthread_mutex_unlock(&p->lock);
    if (!takes)
        close(fd);
    return takes;
}

void tb_peer_stop(struct tb_peer *p)
{
    pthread_mutex_lock(&p->lock);
    p->ends = true;
    lose(p);
    pthread_mutex_unlock(&p->lock);
    pthread_join(p->reader, NULL);
}

void tb_peer_free(struct tb_peer *p)
{
    if (p->fd >= 0) /* adopted, and never read */
        close(p->fd);
    pthread_mutex_destroy(&p->lock);
    pthread_mutex_destroy(&p->sending);
    pthread_cond_destroy(&p->changed);
}

bool tb_peer_is_alive(struct tb_peer *p)
{
    pthread_mutex_lock(&p->lock);
    bool alive = p->is_alive;
    pthread_mutex_unlock(&p->lock);
    return alive;
}

/* The socket, kept open until it is given back; -1: lost. */
static int borrow(struct tb_peer *p)
{
    pthread_mutex_lock(&p->lock);
    int fd = p->is_alive ? p->fd : -1;
    p->senders += fd >= 0;
    pthread_mutex_unlock(&p->lock);
    return fd;
}

static void give_back(struct tb_peer *p)
{
    pthread_mutex_lock(&p->lock);
    if (--p->senders == 0)
        pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->lock);
}

static void advance(struct iovec *part, size_t n)
{
    for (; n > 0; part++) {
        size_t step = n < part->iov_len ? n : part->iov_len;
        part->iov_base = (char *)part->iov_base + step;
        part->iov_len -= step;
        n -= step;
    }
}

/* The socket does not block, so that its reader never does; a peer that takes nothing any more is lost by its silence. */
static int send_all(struct tb_peer *p, int fd, struct iovec parts[2])
{
    struct msghdr m = {.msg_iov = parts, .msg_iovlen = 2};
    while (parts[0].iov_len + parts[1].iov_len > 0) {
        ssize_t n = sendmsg(fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno == EAGAIN)
            poll(&(struct pollfd){.fd = fd, .events = POLLOUT}, 1, -1);
        else if (n < 0 && errno != EINTR)
            return -EHOSTDOWN;
        advance(parts, n > 0 ? (size_t)n : 0);
    }
    p->said_ns = tb_now_ns();
    return 0;
}

int tb_peer_say(struct tb_peer *p, const struct tb_frame *f, const void *payload)
{
    uint8_t head[TB_FRAME_BYTES];
    struct iovec parts[2] = {{head, sizeof(head)}, {(void *)(uintptr_t)payload, f->bytes}};
    int fd = borrow(p);
    if (fd < 0)
        return -EHOSTDOWN;
    tb_frame_put(f, head);
    pthread_mutex_lock(&p->sending);
    int rc = send_all(p, fd, parts);
    pthread_mutex_unlock(&p->sending);
    give_back(p);
    if (rc)
        tb_peer_lose(p, "nothing can be sent to it");
    return rc;
}

/* Whoever is sending gives the sign already; and POLLOUT means room for more than a beat. */
void tb_peer_beat(struct tb_peer *p, uint64_t after_ns)
{
    const struct tb_frame beat = {.kind = TB_FRAME_BEAT};
    uint8_t head[TB_FRAME_BYTES];
    struct iovec parts[2] = {{head, sizeof(head)}, {NULL, 0}};
    int fd = tb_now_ns() - p->said_ns < after_ns ? -1 : borrow(p);
    if (fd < 0)
        return;
    tb_frame_put(&beat, head);
    if (pthread_mutex_trylock(&p->sending) == 0) {
        struct pollfd room = {.fd = fd, .events = POLLOUT};
        if (poll(&room, 1, 0) == 1 && room.revents == POLLOUT)
            send_all(p, fd, parts); /* a failure is the reader's to find */
        pthread_mutex_unlock(&p->sending);
    }
    give_back(p);
}

static void begin_call(struct tb_peer *p, struct tb_peer_call *c)
{
    pthread_cond_init(&c->done, NULL);
    pthread_mutex_lock(&p->lock);
    c->id = ++p->last_id;
    c->next = p->calls;
    p->calls = c;
    if (!p->is_alive)
        end_call(c, -EHOSTDOWN);
    pthread_mutex_unlock(&p->lock);
}

static void forget_call(struct tb_peer *p, struct tb_peer_call *c)
{
    struct tb_peer_call **at = &p->calls;
    while (*at != c)
        at = &(*at)->next;
    *at = c->next;
}

static int64_t wait_for_answer(struct tb_peer *p, struct tb_peer_call *c)
{
    uint64_t until_ns = tb_now_ns() + (uint64_t)p->answer_ms * 1000000u;
    struct timespec until = {(time_t)(until_ns / 1000000000u), (long)(until_ns % 1000000000u)};
    pthread_mutex_lock(&p->lock);
    while (!c->is_done && !c->has_given_up)
        c->has_given_up = pthread_cond_clockwait(&c->done, &p->lock, CLOCK_MONOTONIC, &until) == ETIMEDOUT;
    while (c->is_filling)
        pthread_cond_wait(&c->done, &p->lock);
    int64_t result = c->is_done ? c->result : -ETIMEDOUT;
    forget_call(p, c);
    pthread_mutex_unlock(&p->lock);
    return result;
}

int64_t tb_peer_call(struct tb_peer *p, const void *request, size_t n, void *answer, size_t room)
{
    struct tb_peer_call c = {.answer = answer, .room = room};
    begin_call(p, &c);
    struct tb_frame f = {.kind = TB_FRAME_REQUEST, .bytes = (uint32_t)n, .id = c.id};
    tb_peer_say(p, &f, request); /* where that fails the peer is lost, and the call with it */
    int64_t result = wait_for_answer(p, &c);
    pthread_cond_destroy(&c.done);
    return result;
}
