/* Turns are handed out under a mutex and slept for outside it. Time that was not used is not saved up. */
#include "stage/copy/rate.h"

#include <time.h>

#include "base/clock.h"

void tb_rate_begin(struct tb_rate *r, double per_second)
{
    *r = (struct tb_rate){.mutex = PTHREAD_MUTEX_INITIALIZER, .per_second = per_second};
}

/*
 * The turn is an absolute time, so a signal that ends a sleep does not make the stream slower. All streams share one
 * limit.
 */
void tb_rate_take(struct tb_rate *r, uint64_t bytes)
{
    if (r->per_second <= 0)
        return;
    pthread_mutex_lock(&r->mutex);
    uint64_t now = tb_now_ns(), turn = r->next_ns > now ? r->next_ns : now;
    r->next_ns = turn + (uint64_t)((double)bytes / r->per_second * 1e9);
    pthread_mutex_unlock(&r->mutex);
    struct timespec until = {(time_t)(turn / 1000000000u), (long)(turn % 1000000000u)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL))
        ;
}
