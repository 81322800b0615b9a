/*
 * A queue of requests between threads of an I/O node. The one that dispatchers take from may join requests that continue
 * each other: the oldest one is always taken, so that none waits for ever.
 */
#include "io_node.h"

#include <stdlib.h>

void tb_queue_make(struct tb_queue *q)
{
    *q = (struct tb_queue){.first = NULL};
    q->last = &q->first;
    pthread_mutex_init(&q->lock, NULL);
    pthread_cond_init(&q->more, NULL);
}

void tb_queue_break(struct tb_queue *q)
{
    pthread_mutex_destroy(&q->lock);
    pthread_cond_destroy(&q->more);
}

/* A signal costs a system call, so it is sent only where a thread sleeps. */
void tb_queue_put(struct tb_queue *q, struct tb_request *r)
{
    r->next = NULL;
    pthread_mutex_lock(&q->lock);
    *q->last = r;
    q->last = &r->next;
    if (q->sleepers)
        pthread_cond_signal(&q->more);
    pthread_mutex_unlock(&q->lock);
}

/* The lock is held. `at` is the link that leads to the request, so the first one needs no case of its own. */
static void unlink_at(struct tb_queue *q, struct tb_request **at)
{
    struct tb_request *r = *at;
    *at = r->next;
    if (q->last == &r->next)
        q->last = at;
    r->next = NULL;
}

/* Requests with and without O_DIRECT are not joined: they go by other descriptors. */
static bool same_file(const struct tb_message *a, const struct tb_message *b)
{
    return a->kind == b->kind && a->file == b->file && a->direct == b->direct;
}

/*
 * The place of one that begins at `end` or ends at `start` of the run, in the same file; NULL: none. From the oldest on.
 * The queue has at most as many requests as the I/O node has buffers, so a walk is cheap beside a transfer.
 */
static struct tb_request **neighbour(struct tb_queue *q, const struct tb_message *of, int64_t start, int64_t end)
{
    for (struct tb_request **at = &q->first; *at; at = &(*at)->next) {
        const struct tb_message *m = tb_room_message((*at)->room);
        if (same_file(m, of) && (m->offset == end || m->offset + (int64_t)m->size == start))
            return at;
    }
    return NULL;
}

/* Grows the run of the oldest at both ends. */
static struct tb_request *join(struct tb_queue *q, struct tb_request *oldest, int most)
{
    const struct tb_message *m = tb_room_message(oldest->room);
    struct tb_request *first = oldest, *last = oldest, **at;
    int64_t start = m->offset, end = start + (int64_t)m->size;
    for (int count = 1; count < most && (at = neighbour(q, m, start, end)); count++) {
        struct tb_request *r = *at;
        const struct tb_message *found = tb_room_message(r->room);
        unlink_at(q, at);
        if (found->offset == end) {
            last->next = r;
            last = r;
            end += (int64_t)found->size;
        } else {
            r->next = first;
            first = r;
            start = found->offset;
        }
    }
    return first;
}

static bool is_transfer(const struct tb_request *r)
{
    const struct tb_message *m = tb_room_message(r->room);
    return m->kind == TB_ASK_READ || m->kind == TB_ASK_WRITE;
}

/* What is in the queue when it is closed is still given out, so no request is lost at the end. */
struct tb_request *tb_queue_take(struct tb_queue *q, int most)
{
    pthread_mutex_lock(&q->lock);
    while (!q->first && !q->closed) {
        q->sleepers++;
        pthread_cond_wait(&q->more, &q->lock);
        q->sleepers--;
    }
    struct tb_request *r = q->first;
    if (r) {
        unlink_at(q, &q->first);
        if (most > 1 && is_transfer(r))
            r = join(q, r, most);
    }
    pthread_mutex_unlock(&q->lock);
    return r;
}

/* For the thread that talks: it has other work where there is nothing. */
struct tb_request *tb_queue_take_all(struct tb_queue *q)
{
    pthread_mutex_lock(&q->lock);
    struct tb_request *r = q->first;
    q->first = NULL;
    q->last = &q->first;
    pthread_mutex_unlock(&q->lock);
    return r;
}

void tb_queue_close(struct tb_queue *q)
{
    pthread_mutex_lock(&q->lock);
    q->closed = true;
    pthread_cond_broadcast(&q->more);
    pthread_mutex_unlock(&q->lock);
}
