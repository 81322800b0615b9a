/*
 * Ways for requests and answers: a table of calls, of which plain TCP is the reference and libfabric another.
 *
 * What moves bytes is a lane: it belongs to one thread at a time, carries one request, its answer, then the next request, and
 * begins as a proved connection. So no two calls wait for each other, an answer needs no name, and what was offered to the
 * other side for reading may change when its next message is there.
 */
#ifndef TB_NET_TRANSPORT_H
#define TB_NET_TRANSPORT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "net/proof/frame.h"

struct tb_transport;

struct tb_lane {
    struct tb_lane *next;
    struct tb_transport *transport;
    int fd;                              /* proved; it lasts as long as the lane, and its end is the lane's */
    bool calls;                          /* this side sends the requests */
    uint8_t session[TB_NET_PROOF_BYTES]; /* known to these two sides alone */
    _Atomic bool is_over;                /* waits on it end */
    void *state;                         /* the transport's */
};

/* A place in the other side's memory. */
struct tb_remote {
    uint64_t address, key;
};

struct tb_transport_ops {
    const char *name;
    int (*open)(struct tb_transport *t, struct tb_error *err);
    /* Makes the lane's way, with the other side, which does the same. */
    int (*connect)(struct tb_lane *lane, uint64_t until_ns);
    /* `payload` stays as it is until the other side's next message. 0, -ETIMEDOUT, or another -errno: the lane is over then. */
    int (*send)(struct tb_lane *lane, const struct tb_frame *head, const void *payload, uint64_t until_ns);
    /* A payload larger than `room` is -EMSGSIZE. */
    int (*recv)(struct tb_lane *lane, struct tb_frame *head, void *payload, size_t room, uint64_t until_ns);
    /* NULL: payloads come with their message. */
    int (*read_remote)(struct tb_lane *lane, const struct tb_remote *from, void *to, size_t n, uint64_t until_ns);
    /* The lane is this thread's; nothing writes its memory any more. */
    void (*close)(struct tb_lane *lane);
    void (*end)(struct tb_transport *t);
};

struct tb_transport {
    const struct tb_transport_ops *ops;
    const char *provider;
    struct tb_net_address own; /* of the interface that all is bound to */
    void *state;
};

/* By the provider's name: -EINVAL with what is allowed for one that this build does not have. */
int tb_transport_open(struct tb_transport *t, const char *provider, const struct tb_net_address *own, struct tb_error *err);
/* Also of one that was not opened. */
void tb_transport_end(struct tb_transport *t);

/* On a proved connection, which becomes the lane's also where this fails. */
struct tb_lane *tb_lane_make(struct tb_transport *t, int fd, bool calls, const uint8_t session[TB_NET_PROOF_BYTES]);
/* Ends what waits on it, from any thread. */
void tb_lane_break(struct tb_lane *lane);
void tb_lane_free(struct tb_lane *lane);

#endif
