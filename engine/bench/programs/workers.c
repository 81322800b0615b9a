/*
 * The barrier of tb-bench's processes. It is in shared memory, because processes and not
 * threads are what a node runs: each has its own attachment and descriptors.
 */
#include "workers.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct tb_workers { /* in shared memory */
    pthread_barrier_t barrier;
    volatile bool ending; /* set by rank 0 before the barrier, read by the others after it */
    int n;
};

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* A worker that died would leave the others at the barrier for ever. */
static void on_child(int signal)
{
    int status;
    (void)signal;
    while (waitpid(-1, &status, WNOHANG) > 0) {
        if (status != 0)
            _exit(1);
    }
}

/* Never unmapped: the mapping ends with the last process. */
static struct tb_workers *share(int n)
{
    pthread_barrierattr_t attr;
    struct tb_workers *w = mmap(NULL, sizeof(*w), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (w == MAP_FAILED)
        return NULL;
    w->n = n;
    pthread_barrierattr_init(&attr);
    pthread_barrierattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
    return pthread_barrier_init(&w->barrier, &attr, (unsigned)n) == 0 ? w : NULL;
}

/* A child ends when rank 0 does: without rank 0 it would wait at the barrier for ever. */
struct tb_workers *tb_workers_start(int n, int *rank)
{
    struct tb_workers *w = share(n);
    *rank = 0;
    if (w == NULL || n == 1)
        return w;
    signal(SIGCHLD, on_child);
    for (int i = 1; i < n; i++) {
        pid_t pid = fork();
        if (pid < 0)
            return NULL;
        if (pid == 0) {
            signal(SIGCHLD, SIG_DFL);
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            *rank = i;
            return w;
        }
    }
    return w;
}

/*
 * The first barrier is outside the time and the second inside: a repetition ends when the slowest
 * is done.
 */
bool tb_workers_repeat(struct tb_workers *workers, tb_worker_work *work, void *arg, double *seconds)
{
    pthread_barrier_wait(&workers->barrier);
    if (workers->ending)
        return false;
    double start = now();
    work(arg);
    pthread_barrier_wait(&workers->barrier);
    *seconds = now() - start;
    return true;
}

/* Rank 0 is the last at the barrier, so that all others see `ending`. */
void tb_workers_end(struct tb_workers *workers)
{
    workers->ending = true;
    if (workers->n > 1)
        pthread_barrier_wait(&workers->barrier);
    while (waitpid(-1, NULL, 0) > 0)
        ;
}
