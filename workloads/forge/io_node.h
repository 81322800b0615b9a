/*
 * Inside an I/O node. One thread talks MPI (io_node.c): it receives requests and sends answers, and never touches a
 * file, so that it answers a ping however slow the PFS is. Handlers check and queue what came in, dispatchers do it
 * (workers.c). Requests go from thread to thread in queues (queue.c).
 */
#ifndef TB_IO_NODE_H
#define TB_IO_NODE_H

#include "message.h"

#include <pthread.h>

/* A request and its buffer. Who took it from a queue owns it. */
struct tb_request {
    struct tb_request *next;
    void *room; /* message.h: the message, then the bytes */
    int client; /* its rank */
    bool from_pool;
    MPI_Request answer;
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

#endif
