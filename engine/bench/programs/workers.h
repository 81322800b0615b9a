/*
 * Processes that do the same work at the same time, again and again, so that
 * each repetition is measured warm.
 */
#ifndef TB_BENCH_WORKERS_H
#define TB_BENCH_WORKERS_H

#include <stdbool.h>

struct tb_workers;

typedef void tb_worker_work(void *arg);

/*
 * Become `n` processes.  Returns in each of them; `*rank` is 0 in the caller,
 * which exits when any of the others fails.
 */
struct tb_workers *tb_workers_start(int n, int *rank);

/* Wait for all, do the work in each, wait for all.  Rank 0 gets the seconds; false: time to end. */
bool tb_workers_repeat(struct tb_workers *workers, tb_worker_work *work, void *arg, double *seconds);

/* Rank 0: end the others. */
void tb_workers_end(struct tb_workers *workers);

#endif
