/*
 * Requests and answers over the proved connection itself. A thread blocks in the kernel, and nothing is between it and
 * the bytes: a call costs what a bare socket does. Waits end in steps of SLICE_MS, to look at the time.
 */
#include "net/transport/tcp.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/uio.h>

#include "base/clock.h"

#define SLICE_MS 100

static int open_tcp(struct tb_transport *t, struct tb_error *err)
{
    (void)t, (void)err;
    return 0;
}

static void end_tcp(struct tb_transport *t)
{
    (void)t;
}

static void close_tcp(struct tb_lane *lane)
{
    (void)lane;
}

/*
 * The socket blocks from here on, with a limit of one slice, so a wait needs no second system call. Nagle's algorithm
 * would hold a short request back until the answer to the last one is acknowledged.
 */
static int connect_tcp(struct tb_lane *lane, uint64_t until_ns)
{
    const struct timeval slice = {.tv_usec = SLICE_MS * 1000};
    const int on = 1;
    (void)until_ns;
    if (fcntl(lane->fd, F_SETFL, 0) || setsockopt(lane->fd, SOL_SOCKET, SO_RCVTIMEO, &slice, sizeof(slice)) ||
        setsockopt(lane->fd, SOL_SOCKET, SO_SNDTIMEO, &slice, sizeof(slice)) ||
        setsockopt(lane->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)))
        return -errno;
    return 0;
}

/* Whether a transfer that moved `n` bytes may go on: 0, or why not. */
static int judge(const struct tb_lane *lane, ssize_t n, uint64_t until_ns)
{
    if (n == 0 || lane->is_over || (n < 0 && errno != EAGAIN && errno != EINTR))
        return -ECONNRESET;
    return tb_now_ns() >= until_ns ? -ETIMEDOUT : 0;
}

/* A signal or a time limit of the socket may end a call early: then `judge` says whether to go on. */
int tb_tcp_recv(struct tb_lane *lane, void *to, size_t n, uint64_t until_ns)
{
    char *at = to;
    while (n > 0) {
        ssize_t got = recv(lane->fd, at, n, MSG_WAITALL);
        int rc = judge(lane, got, until_ns);
        if (rc)
            return rc;
        at += got > 0 ? got : 0;
        n -= got > 0 ? (size_t)got : 0;
    }
    return 0;
}

/* The head and the payload go in one system call; after a short one the rest begins in either of the two. */
static void advance(struct iovec *part, size_t n)
{
    for (; n > 0; part++) {
        size_t step = n < part->iov_len ? n : part->iov_len;
        part->iov_base = (char *)part->iov_base + step;
        part->iov_len -= step;
        n -= step;
    }
}

static int send_parts(struct tb_lane *lane, struct iovec parts[2], uint64_t until_ns)
{
    struct msghdr m = {.msg_iov = parts, .msg_iovlen = 2};
    while (parts[0].iov_len + parts[1].iov_len > 0) {
        ssize_t n = sendmsg(lane->fd, &m, MSG_NOSIGNAL);
        int rc = judge(lane, n, until_ns);
        if (rc)
            return rc;
        advance(parts, n > 0 ? (size_t)n : 0);
    }
    return 0;
}

int tb_tcp_send(struct tb_lane *lane, const void *from, size_t n, uint64_t until_ns)
{
    struct iovec parts[2] = {{(void *)(uintptr_t)from, n}, {NULL, 0}};
    return send_parts(lane, parts, until_ns);
}

static int send_tcp(struct tb_lane *lane, const struct tb_frame *head, const void *payload, uint64_t until_ns)
{
    uint8_t bytes[TB_FRAME_BYTES];
    struct iovec parts[2] = {{bytes, sizeof(bytes)}, {(void *)(uintptr_t)payload, head->bytes}};
    tb_frame_put(head, bytes);
    return send_parts(lane, parts, until_ns);
}

/* Which payload fits is known from the head, so no byte of a payload that is too long is read. The lane ends then. */
static int recv_tcp(struct tb_lane *lane, struct tb_frame *head, void *payload, size_t room, uint64_t until_ns)
{
    uint8_t bytes[TB_FRAME_BYTES];
    int rc = tb_tcp_recv(lane, bytes, sizeof(bytes), until_ns);
    if (!rc)
        rc = tb_frame_get(bytes, head);
    if (!rc && head->bytes > room)
        rc = -EMSGSIZE;
    return rc ? rc : tb_tcp_recv(lane, payload, head->bytes, until_ns);
}

const struct tb_transport_ops tb_transport_tcp = {
    .name = "tcp", .open = open_tcp, .connect = connect_tcp, .send = send_tcp, .recv = recv_tcp, .close = close_tcp, .end = end_tcp};
