/*
 * The threads that serve what peers ask. There are as many as there were requests at once, up to a limit; what comes beyond
 * waits in a queue, and beyond that is refused with -EBUSY.
 */
#ifndef TB_NET_WORKERS_H
#define TB_NET_WORKERS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "net/net.h"
#include "net/peer.h"

enum { TB_WORKERS_MAX = 32, TB_WORKERS_QUEUE = 1024 };

struct tb_work;

struct tb_workers {
    tb_net_serve *serve;
    void *arg;
    pthread_mutex_t lock;
    pthread_cond_t came;
    struct tb_work *first, **last;
    unsigned queued, idle, n;
    bool ends;
    pthread_t threads[TB_WORKERS_MAX];
};

void tb_workers_start(struct tb_workers *w, tb_net_serve *serve, void *arg);
/* `request` is taken over; the answer goes to the peer. */
void tb_workers_give(struct tb_workers *w, struct tb_peer *p, uint64_t id, void *request, size_t n);
/* Ends what is under way, forgets what waits. */
void tb_workers_stop(struct tb_workers *w);

#endif
