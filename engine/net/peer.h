/*
 * One peer as this node sees it: its connection, the calls that wait for its answers, and the thread that reads what it says.
 *
 * A peer is alive from a proved connection until that connection ends or nothing was heard for the time of an answer. Then
 * all calls to it end with -EHOSTDOWN. The same process may come back (its start must be the same, proved anew); then calls
 * go out again, and none of before.
 */
#ifndef TB_NET_PEER_H
#define TB_NET_PEER_H

#include <pthread.h>
#include <stdbool.h>

#include "net/proof/frame.h"
#include "net/start/members.h"

struct tb_peer;

/* What a peer's reader tells its owner. */
struct tb_peer_events {
    /* A request: `bytes` is the taker's, to be freed. */
    void (*request)(void *arg, struct tb_peer *p, uint64_t id, void *bytes, size_t n);
    /* Of the start: a list's digest, or `result` of a refusal with digest NULL. */
    void (*start)(void *arg, struct tb_peer *p, const uint8_t *digest, int64_t result);
    void (*lost)(void *arg, struct tb_peer *p, const char *why);
};

struct tb_peer_call;

struct tb_peer {
    struct tb_record record;
    unsigned number;
    int answer_ms;
    const struct tb_peer_events *events;
    void *arg;

    pthread_mutex_t lock; /* of all that follows but what says otherwise */
    pthread_cond_t changed;
    int fd;        /* -1: none; closed by the reader alone, when nobody sends */
    bool is_alive; /* fd is good */
    bool ends;
    unsigned senders; /* threads that use fd */
    uint64_t last_id;
    struct tb_peer_call *calls;

    pthread_mutex_t sending; /* a frame goes whole; taken before `lock`, or without it */
    _Atomic uint64_t heard_ns, said_ns;
    pthread_t reader;
};

int tb_peer_start(struct tb_peer *p);
/* A proved connection, the peer's from now on. False (and closed) where it has one that is alive. */
bool tb_peer_adopt(struct tb_peer *p, int fd);
/* Its calls end with -EHOSTDOWN. */
void tb_peer_lose(struct tb_peer *p, const char *why);
/* Ends its calls and its reader; the rest stays for who still answers it. */
void tb_peer_stop(struct tb_peer *p);
void tb_peer_free(struct tb_peer *p);
bool tb_peer_is_alive(struct tb_peer *p);

/* Says a frame with its payload: 0, or -EHOSTDOWN. */
int tb_peer_say(struct tb_peer *p, const struct tb_frame *f, const void *payload);
/* A sign of life where nothing was said for `after_ns`. Never waits. */
void tb_peer_beat(struct tb_peer *p, uint64_t after_ns);
/* As tb_net_call. */
int64_t tb_peer_call(struct tb_peer *p, const void *request, size_t n, void *answer, size_t room);

#endif
