/*
 * Threads that wait for the storage. An fsync does little work and waits long: for the device,
 * or for the answer of a server. Where several wait at once, a journal is written once for all of
 * them, and answers come side by side. The number of streams limits how many files are copied at a time,
 * and not how many of these waits are under way.
 */
#ifndef TB_STAGE_WAITERS_H
#define TB_STAGE_WAITERS_H

#include <pthread.h>
#include <stdbool.h>
#include <sys/queue.h>

#define TB_WAITERS 15

struct tb_waiters {
    pthread_mutex_t mutex;
    pthread_cond_t begun, ended;
    TAILQ_HEAD(tb_wait_list, tb_wait) open; /* with something left to take */
    pthread_t thread[TB_WAITERS];
    unsigned n;
    bool is_closed;
};

void tb_waiters_begin(struct tb_waiters *waiters);
void tb_waiters_end(struct tb_waiters *waiters);

/*
 * Call `act` for each of 0 to n - 1, by the caller too. Other threads are woken only after a call that waited: on a file
 * system in memory none does. By any number of callers at once. True: a call waited.
 */
bool tb_waiters_do(struct tb_waiters *waiters, unsigned n, void (*act)(void *arg, unsigned i), void *arg);

#endif
