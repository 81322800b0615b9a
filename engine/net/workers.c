/*
 * Threads for requests (workers.h). Each keeps memory for one answer of any size.
 */
#include "net/workers.h"

#include <errno.h>
#include <stdlib.h>

struct tb_work {
    struct tb_work *next;
    struct tb_peer *peer;
    uint64_t id;
    void *request;
    size_t n;
};

static void answer(struct tb_peer *p, uint64_t id, int64_t result, const void *bytes)
{
    struct tb_frame f = {.kind = TB_FRAME_ANSWER, .bytes = result > 0 ? (uint32_t)result : 0, .id = id, .result = result};
    tb_peer_say(p, &f, bytes);
}

static void serve(struct tb_workers *w, const struct tb_work *work, void *memory)
{
    int64_t result = -ENOMEM;
    if (memory)
        result = w->serve(w->arg, work->peer->number, work->request, work->n, memory, TB_NET_BYTES_MAX);
    answer(work->peer, work->id, result, memory);
}

/* NULL: the end. */
static struct tb_work *next_work(struct tb_workers *w)
{
    pthread_mutex_lock(&w->lock);
    w->idle++;
    while (!w->first && !w->ends)
        pthread_cond_wait(&w->came, &w->lock);
    w->idle--;
    struct tb_work *work = w->ends ? NULL : w->first;
    if (work) {
        w->queued--;
        w->first = work->next;
        if (!w->first)
            w->last = &w->first;
    }
    pthread_mutex_unlock(&w->lock);
    return work;
}

static void *work_on(void *arg)
{
    struct tb_workers *w = arg;
    void *memory = malloc(TB_NET_BYTES_MAX);
    for (struct tb_work *work; (work = next_work(w));) {
        serve(w, work, memory);
        free(work->request);
        free(work);
    }
    free(memory);
    return NULL;
}

void tb_workers_start(struct tb_workers *w, tb_net_serve *serve, void *arg)
{
    *w = (struct tb_workers){.serve = serve, .arg = arg};
    w->last = &w->first;
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->came, NULL);
}

/* Under the lock. A thread more where all may be busy; without one the work waits for those there are. */
static bool put(struct tb_workers *w, struct tb_work *work)
{
    if (w->queued >= TB_WORKERS_QUEUE || w->ends)
        return false;
    if (w->idle <= w->queued && w->n < TB_WORKERS_MAX && pthread_create(&w->threads[w->n], NULL, work_on, w) == 0)
        w->n++;
    if (w->n == 0)
        return false;
    *w->last = work;
    w->last = &work->next;
    w->queued++;
    pthread_cond_signal(&w->came);
    return true;
}

void tb_workers_give(struct tb_workers *w, struct tb_peer *p, uint64_t id, void *request, size_t n)
{
    struct tb_work *work = malloc(sizeof(*work));
    bool taken = false;
    if (work) {
        *work = (struct tb_work){.peer = p, .id = id, .request = request, .n = n};
        pthread_mutex_lock(&w->lock);
        taken = put(w, work);
        pthread_mutex_unlock(&w->lock);
    }
    if (taken)
        return;
    free(work);
    free(request);
    answer(p, id, work ? -EBUSY : -ENOMEM, NULL);
}

void tb_workers_stop(struct tb_workers *w)
{
    pthread_mutex_lock(&w->lock);
    w->ends = true;
    pthread_cond_broadcast(&w->came);
    pthread_mutex_unlock(&w->lock);
    for (unsigned i = 0; i < w->n; i++)
        pthread_join(w->threads[i], NULL);
    for (struct tb_work *work; (work = w->first);) {
        w->first = work->next;
        free(work->request);
        free(work);
    }
    pthread_mutex_destroy(&w->lock);
    pthread_cond_destroy(&w->came);
}
