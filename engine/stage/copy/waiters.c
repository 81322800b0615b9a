/*
 * Calls that wait for the storage, made side by side (stage/copy/waiters.h). A caller puts its work into a list and works too;
 * threads take from the first of the list until nothing of it is left to take.
 */
#include "stage/copy/waiters.h"

#include <stdint.h>

#include "base/clock.h"

#define A_WAIT_NS 20000 /* longer than the work of such a call, and shorter than a wait for a device */

struct tb_wait {
    TAILQ_ENTRY(tb_wait) next;
    void (*act)(void *arg, unsigned i);
    void *arg;
    unsigned taken, n; /* numbers below `taken` are some thread's */
    unsigned at_work;  /* threads, without the caller */
    bool is_open;      /* in the list */
};

/* Called and returns with the mutex held. A number is taken under it: that is little beside a wait. */
static void work(struct tb_waiters *w, struct tb_wait *all)
{
    while (all->taken < all->n) {
        unsigned i = all->taken++;
        pthread_mutex_unlock(&w->mutex);
        all->act(all->arg, i);
        pthread_mutex_lock(&w->mutex);
    }
    if (all->is_open)
        TAILQ_REMOVE(&w->open, all, next);
    all->is_open = false; /* by the first that finds nothing left */
}

/* After the last `at_work--` the work is the caller's again, and the caller may end it at once. */
static void *run(void *arg)
{
    struct tb_waiters *w = arg;
    pthread_mutex_lock(&w->mutex);
    for (;;) {
        struct tb_wait *all = TAILQ_FIRST(&w->open);
        if (all) {
            all->at_work++;
            work(w, all);
            if (--all->at_work == 0)
                pthread_cond_broadcast(&w->ended);
        } else if (w->is_closed) {
            break;
        } else {
            pthread_cond_wait(&w->begun, &w->mutex);
        }
    }
    pthread_mutex_unlock(&w->mutex);
    return NULL;
}

/* Where the system allows fewer threads, fewer wait at once: with none the caller does all. */
void tb_waiters_begin(struct tb_waiters *w)
{
    *w = (struct tb_waiters){.mutex = PTHREAD_MUTEX_INITIALIZER, .begun = PTHREAD_COND_INITIALIZER, .ended = PTHREAD_COND_INITIALIZER};
    TAILQ_INIT(&w->open);
    while (w->n < TB_WAITERS && pthread_create(&w->thread[w->n], NULL, run, w) == 0)
        w->n++;
}

void tb_waiters_end(struct tb_waiters *w)
{
    pthread_mutex_lock(&w->mutex);
    w->is_closed = true;
    pthread_cond_broadcast(&w->begun);
    pthread_mutex_unlock(&w->mutex);
    for (unsigned i = 0; i < w->n; i++)
        pthread_join(w->thread[i], NULL);
    w->n = 0;
}

/* How long a call took says whether it waited: what others do on this processor may make it look so, which costs a few wake-ups. */
static bool waits(void (*act)(void *arg, unsigned i), void *arg, unsigned i)
{
    uint64_t start = tb_now_ns();
    act(arg, i);
    return tb_now_ns() - start > A_WAIT_NS;
}

static void open_for_others(struct tb_waiters *w, struct tb_wait *all)
{
    TAILQ_INSERT_TAIL(&w->open, all, next);
    all->is_open = true;
    for (unsigned i = all->taken + 1; i < all->n && i <= all->taken + w->n; i++) /* one is the caller's */
        pthread_cond_signal(&w->begun);
}

bool tb_waiters_do(struct tb_waiters *w, unsigned n, void (*act)(void *arg, unsigned i), void *arg)
{
    struct tb_wait all = {.act = act, .arg = arg, .n = n};
    bool waited = false;
    while (all.taken < n && !waited)
        waited = waits(act, arg, all.taken++);
    if (all.taken == n)
        return waited;
    pthread_mutex_lock(&w->mutex);
    open_for_others(w, &all);
    work(w, &all);
    while (all.at_work)
        pthread_cond_wait(&w->ended, &w->mutex);
    pthread_mutex_unlock(&w->mutex);
    return true;
}
