/*
 * The bandwidth that all streams of a mover may use together (stage/copy/rate.h). Turns are handed out under a mutex and slept
 * for outside it. Time that was not used is not saved up.
 */
#include "stage/copy/rate.h"

#include <time.h>

#include "base/clock.h"

#define LOOK_NS 100000000u

void tb_rate_begin(struct tb_rate *r, double per_second)
{
    *r = (struct tb_rate){.mutex = PTHREAD_MUTEX_INITIALIZER, .per_second = per_second};
}

/*
 * The turn is an absolute time, so a signal that ends a sleep does not make the stream slower. All streams share one
 * limit. Where it is low a turn is far, so the sleep is cut: a stop of the mover does not wait for it.
 */
void tb_rate_take(struct tb_rate *r, uint64_t bytes, const atomic_bool *stop)
{
    if (r->per_second <= 0)
        return;
    pthread_mutex_lock(&r->mutex);
    uint64_t now = tb_now_ns(), turn = r->next_ns > now ? r->next_ns : now;
    r->next_ns = turn + (uint64_t)((double)bytes / r->per_second * 1e9);
    pthread_mutex_unlock(&r->mutex);
    for (; !*stop && now < turn; now = tb_now_ns()) {
        uint64_t next = turn - now < LOOK_NS ? turn : now + LOOK_NS;
        struct timespec until = {(time_t)(next / 1000000000u), (long)(next % 1000000000u)};
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
    }
}
