/*
 * Inside an I/O node. One thread at a time talks MPI (io_node.c): it receives requests and sends answers. Handlers check
 * and queue what came in, dispatchers do it (workers.c). Requests go from thread to thread in queues (queue.c), which takes
 * longer than a small write to memory does: so the thread that talks does a lone request itself where the last one was
 * quick, and another thread talks in its place if this one is not, so that a ping is answered however slow the PFS is.
 */
#ifndef TB_IO_NODE_H
#define TB_IO_NODE_H

#include "message.h"

#include <pthread.h>

/* A request and its buffer. The thread that took it from a queue owns it. */
struct tb_request {
    struct tb_request *next;
    void *room;                /* message.h: the message, then the bytes */
    void *data;                /* the bytes: there, or in the client's own buffer */
    int client;                /* its rank */
    bool from_pool, was_alone; /* was_alone: no worker's call did it */
    MPI_Request way;           /* it comes, or its answer goes */
};

/* First in, first out. */
struct tb_queue {
    pthread_mutex_t lock;
    pthread_cond_t more;
    struct tb_request *first, **last;
    int sleepers;
    bool closed;
};
void tb_queue_make(struct tb_queue *q);
void tb_queue_break(struct tb_queue *q);
void tb_queue_put(struct tb_queue *q, struct tb_request *r);
/*
 * Waits for one; NULL: the queue is closed and empty. With `most` above 1 a read or write comes
 * with those that continue it in the same file, up to so many, in the order of their offsets;
 * they hang on its `next`.
 */
struct tb_request *tb_queue_take(struct tb_queue *q, int most);
struct tb_request *tb_queue_take_all(struct tb_queue *q); /* does not wait; NULL: there is none */
void tb_queue_close(struct tb_queue *q);

/* workers.c */
struct tb_workers;
struct tb_workers *tb_workers_start(const struct tb_node_settings *s);
void tb_workers_stop(struct tb_workers *w, struct tb_node_counts *counts); /* when nothing is under way; adds what they did */
void tb_workers_give(struct tb_workers *w, struct tb_request *r);
struct tb_request *tb_workers_done(struct tb_workers *w); /* a list by `next`; NULL: nothing is done */
/* For a thread that does a read or write itself: how long did the last one take; do it; leave it to be answered by another. */
int64_t tb_workers_took_ns(struct tb_workers *w);
void tb_workers_do(struct tb_workers *w, struct tb_request *r);
void tb_workers_leave(struct tb_workers *w, struct tb_request *r);

#endif
