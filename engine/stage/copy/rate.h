/*
 * A bandwidth limit that all streams of a mover share. Each piece of work takes its bytes
 * before it moves them, and sleeps until its turn: so the mean over any second keeps to the
 * limit, whatever the sleeps overshoot by.
 */
#ifndef TB_STAGE_RATE_H
#define TB_STAGE_RATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct tb_rate {
    pthread_mutex_t mutex;
    double per_second; /* bytes; 0: no limit */
    uint64_t next_ns;  /* when the next bytes may go */
};

void tb_rate_begin(struct tb_rate *rate, double per_second);
/* At once, where `stop` is set. */
void tb_rate_take(struct tb_rate *rate, uint64_t bytes, const atomic_bool *stop);

#endif
