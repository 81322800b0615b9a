/*
 * One peer as this node sees it: whether it lives, and the lanes to it.
 *
 * A peer is alive from a proved connection of its life until that connection ends or nothing was heard on it for the time of
 * an answer. Then all lanes break, and with them the calls on them. The same process may come back: it has the same start,
 * and proves itself again; then calls go out again, and none of before.
 */
#ifndef TB_NET_PEER_H
#define TB_NET_PEER_H

#include <pthread.h>
#include <stdbool.h>

#include "net/net.h"
#include "net/start/members.h"
#include "net/transport/transport.h"

enum { TB_LANES_MAX = 32, TB_SERVED_MAX = 64 };

struct tb_peer;

/* What a peer tells its owner. */
struct tb_peer_events {
    /* Of the start: a list's digest, or `result` of a refusal with digest NULL. */
    void (*start)(void *arg, struct tb_peer *p, const uint8_t *digest, int64_t result);
    void (*lost)(void *arg, struct tb_peer *p, const char *why);
};

/* What all peers of a node have in common. */
struct tb_peer_common {
    const struct tb_proof_key *key;
    const struct tb_record *own;
    struct tb_transport *transport;
    const struct tb_net_options *options;
    const struct tb_peer_events *events;
    void *arg; /* of events */
};

struct tb_peer {
    struct tb_record record;
    unsigned number;
    const struct tb_peer_common *common;
    pthread_t reader; /* of the life */
    _Atomic uint64_t heard_ns, said_ns;

    pthread_mutex_t lock; /* of all that follows */
    pthread_cond_t changed;
    int fd;        /* of the life; -1: none; closed by the reader alone */
    bool is_alive; /* fd is good */
    bool ends;
    struct tb_lane *idle, *busy; /* to call it by */
    unsigned lanes;              /* of both, and those that are being made */
    struct tb_lane *served;      /* on which it calls, each with a thread */
    unsigned n_served;
};

int tb_peer_start(struct tb_peer *p);
/* A proved connection for its life, the peer's from now on. False (and closed) where it has one that is alive. */
bool tb_peer_adopt(struct tb_peer *p, int fd);
void tb_peer_lose(struct tb_peer *p, const char *why);
/* If nothing was heard of it for longer than an answer may take. */
void tb_peer_lose_silent(struct tb_peer *p);
/* Ends all of its threads. */
void tb_peer_stop(struct tb_peer *p);
bool tb_peer_is_alive(struct tb_peer *p);

/* Says something about life or the start, or nothing where the connection has no room for it. Never waits. */
void tb_peer_say(struct tb_peer *p, const struct tb_frame *f, const void *payload);
/* What one node says to begin a connection to the other. */
void tb_peer_hello(const struct tb_peer *p, enum tb_purpose purpose, struct tb_hello *hello);

#endif
