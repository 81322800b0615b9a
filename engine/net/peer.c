/*
 * The life of a peer (peer.h). The reader alone closes its connection; to lose a peer is to shut down the life's socket and
 * the lanes', which ends every wait on them.
 */
#include "net/peer.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "net/lanes.h"

/*
 * The socket does not block, so the wait is a poll without a limit: the thread that loses the peer shuts the socket down,
 * and the poll returns. Every byte counts as a sign of life.
 */
static int take(struct tb_peer *p, int fd, void *to, size_t n)
{
    uint8_t *at = to;
    while (n > 0) {
        ssize_t got = recv(fd, at, n, 0);
        if (got == 0 || (got < 0 && errno != EINTR && errno != EAGAIN))
            return -ECONNRESET;
        if (got < 0)
            poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, -1);
        p->heard_ns = tb_now_ns();
        at += got > 0 ? got : 0;
        n -= got > 0 ? (size_t)got : 0;
    }
    return 0;
}

static int take_list(struct tb_peer *p, int fd)
{
    uint8_t digest[TB_DIGEST_BYTES];
    if (take(p, fd, digest, sizeof(digest)))
        return -ECONNRESET;
    p->common->events->start(p->common->arg, p, digest, 0);
    return 0;
}

/* Requests never come here. They have lanes of their own, so a long request cannot delay a sign of life. */
static int take_frame(struct tb_peer *p, int fd)
{
    uint8_t head[TB_FRAME_BYTES];
    struct tb_frame f;
    if (take(p, fd, head, sizeof(head)))
        return -ECONNRESET;
    if (tb_frame_get(head, &f))
        return -EPROTO;
    switch (f.kind) {
    case TB_FRAME_BEAT: return 0;
    case TB_FRAME_LIST: return take_list(p, fd);
    case TB_FRAME_REFUSED: return p->common->events->start(p->common->arg, p, NULL, f.result), 0;
    default: return -EPROTO;
    }
}

/*
 * Under the lock. The socket is shut down and not closed: its number stays taken until the reader has left it, so no other
 * file can get that number and be read by mistake.
 */
static bool lose(struct tb_peer *p)
{
    bool was_alive = p->is_alive;
    p->is_alive = false;
    if (was_alive)
        shutdown(p->fd, SHUT_RDWR);
    tb_lanes_break(p);
    pthread_cond_broadcast(&p->changed);
    return was_alive;
}

/* Under the lock: a connection that was adopted a moment ago is not taken for the silent one before it. */
static bool is_silent(const struct tb_peer *p)
{
    uint64_t now = tb_now_ns(), heard = p->heard_ns;
    return p->is_alive && now > heard && now - heard > (uint64_t)p->common->options->answer_ms * 1000000u;
}

/*
 * The event is told without the lock, since the owner's handler takes locks of its own. Of several that notice the same
 * loss only the first tells it.
 */
static void lose_if(struct tb_peer *p, bool only_if_silent, const char *why)
{
    pthread_mutex_lock(&p->lock);
    bool tells = (!only_if_silent || is_silent(p)) && lose(p) && !p->ends;
    pthread_mutex_unlock(&p->lock);
    if (tells)
        p->common->events->lost(p->common->arg, p, why);
}

void tb_peer_lose(struct tb_peer *p, const char *why)
{
    lose_if(p, false, why);
}

void tb_peer_lose_silent(struct tb_peer *p)
{
    char why[64];
    snprintf(why, sizeof(why), "no sign of life for %d ms", p->common->options->answer_ms);
    lose_if(p, true, why);
}

/*
 * -1: the network ends. A connection that was lost before the reader came to it is returned, too: only the reader closes
 * connections, and tb_peer_adopt waits for that.
 */
static int wait_for_connection(struct tb_peer *p)
{
    pthread_mutex_lock(&p->lock);
    while (p->fd < 0 && !p->ends)
        pthread_cond_wait(&p->changed, &p->lock);
    int fd = p->ends ? -1 : p->fd;
    pthread_mutex_unlock(&p->lock);
    return fd;
}

static void close_connection(struct tb_peer *p)
{
    pthread_mutex_lock(&p->lock);
    close(p->fd);
    p->fd = -1;
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->lock);
}

/*
 * One thread a peer for as long as the network is open. After a loss it waits for the next connection of the same process.
 */
static void *read_all(void *arg)
{
    struct tb_peer *p = arg;
    for (int fd; (fd = wait_for_connection(p)) >= 0;) {
        int rc;
        while ((rc = take_frame(p, fd)) == 0)
            ;
        tb_peer_lose(p, rc == -EPROTO ? "it said what no node says" : "its connection ended");
        close_connection(p);
    }
    return NULL;
}

int tb_peer_start(struct tb_peer *p)
{
    pthread_attr_t small;
    p->fd = -1;
    pthread_mutex_init(&p->lock, NULL);
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

/*
 * First the reader, which may still be inside an event, then the threads of the lanes. Only then is the lock free of
 * users.
 */
void tb_peer_stop(struct tb_peer *p)
{
    pthread_mutex_lock(&p->lock);
    p->ends = true;
    lose(p);
    pthread_mutex_unlock(&p->lock);
    pthread_join(p->reader, NULL);
    if (p->fd >= 0) /* adopted, and never read */
        close(p->fd);
    tb_lanes_stop(p);
    pthread_mutex_destroy(&p->lock);
    pthread_cond_destroy(&p->changed);
}

bool tb_peer_is_alive(struct tb_peer *p)
{
    pthread_mutex_lock(&p->lock);
    bool alive = p->is_alive;
    pthread_mutex_unlock(&p->lock);
    return alive;
}

/* Where there is room in the socket it is room for more than these few bytes. */
static void send_now(struct tb_peer *p, const uint8_t *bytes, size_t n)
{
    struct pollfd room = {.fd = p->fd, .events = POLLOUT};
    if (poll(&room, 1, 0) != 1 || room.revents != POLLOUT)
        return;
    if (send(p->fd, bytes, n, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)n)
        p->said_ns = tb_now_ns();
    else
        shutdown(p->fd, SHUT_RDWR); /* half a frame must not be followed by another; the reader tells */
}

/*
 * Never waits for room in the socket: the thread of the heart says it to each peer in turn, and one that does not read
 * must not silence this node to the others.
 */
void tb_peer_say(struct tb_peer *p, const struct tb_frame *f, const void *payload)
{
    uint8_t bytes[TB_FRAME_BYTES + TB_DIGEST_BYTES];
    tb_frame_put(f, bytes);
    if (f->bytes)
        memcpy(bytes + TB_FRAME_BYTES, payload, f->bytes);
    pthread_mutex_lock(&p->lock);
    if (p->is_alive)
        send_now(p, bytes, TB_FRAME_BYTES + f->bytes);
    pthread_mutex_unlock(&p->lock);
}

void tb_peer_hello(const struct tb_peer *p, enum tb_purpose purpose, struct tb_hello *hello)
{
    const struct tb_record *own = p->common->own;
    *hello = (struct tb_hello){.address = own->address, .purpose = purpose};
    strcpy(hello->from, own->node);
    strcpy(hello->to, p->record.node);
    memcpy(hello->from_start, own->start, sizeof(hello->from_start));
    memcpy(hello->to_start, p->record.start, sizeof(hello->to_start));
}
