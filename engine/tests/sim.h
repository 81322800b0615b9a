/*
 * A simulated machine for tests of the model: actors are threads, of which one
 * runs at a time; time moves only when all sleep or one works.  The actor with
 * the earliest wake-up runs next, so a run is the same every time.
 */
#ifndef TB_TEST_SIM_H
#define TB_TEST_SIM_H

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#include "chain/model/device_clock.h"

#define SIM_ACTORS_MAX 16

typedef void sim_body(int actor, void *arg);

static struct {
    pthread_mutex_t mutex;
    pthread_cond_t turn;
    uint64_t now, overshoot, wake[SIM_ACTORS_MAX]; /* UINT64_MAX: ended */
    int n, running;
    sim_body *body;
    void *arg;
} sim = {.mutex = PTHREAD_MUTEX_INITIALIZER, .turn = PTHREAD_COND_INITIALIZER};

static _Thread_local int sim_self;

/* Of the running actor: the time. */
static uint64_t sim_now(void)
{
    return sim.now;
}

/* Hand over to the earliest sleeper and, unless ended, wait for our own turn. */
static void wait_until(uint64_t wake)
{
    pthread_mutex_lock(&sim.mutex);
    sim.wake[sim_self] = wake;
    int next = 0;
    for (int i = 1; i < sim.n; i++)
        next = sim.wake[i] < sim.wake[next] ? i : next;
    sim.running = next;
    if (sim.wake[next] != UINT64_MAX && sim.wake[next] > sim.now)
        sim.now = sim.wake[next];
    pthread_cond_broadcast(&sim.turn);
    while (wake != UINT64_MAX && sim.running != sim_self)
        pthread_cond_wait(&sim.turn, &sim.mutex);
    pthread_mutex_unlock(&sim.mutex);
}

static void sleep_until(uint64_t deadline)
{
    wait_until((deadline > sim.now ? deadline : sim.now) + sim.overshoot);
}

/* Real work, during which time passes. */
static void sim_work(uint64_t ns)
{
    wait_until(sim.now + ns);
}

static void *actor(void *number)
{
    sim_self = (int)(intptr_t)number;
    pthread_mutex_lock(&sim.mutex);
    while (sim.running != sim_self)
        pthread_cond_wait(&sim.turn, &sim.mutex);
    pthread_mutex_unlock(&sim.mutex);
    sim.body(sim_self, sim.arg);
    wait_until(UINT64_MAX);
    return NULL;
}

/* Run `n` actors to their end; every sleep lasts `overshoot_ns` too long.  Returns the time that passed. */
static uint64_t sim_run(int n, sim_body *body, void *arg, uint64_t overshoot_ns)
{
    static const struct tb_model_time time = {sim_now, sleep_until};
    pthread_t thread[SIM_ACTORS_MAX];
    uint64_t start = sim.now += UINT64_C(1000000000); /* later than any clock of an earlier run */
    sim.n = n;
    sim.body = body;
    sim.arg = arg;
    sim.overshoot = overshoot_ns;
    sim.running = -1;
    tb_model_set_time(&time);
    for (int i = 0; i < n; i++) {
        sim.wake[i] = start;
        int rc = pthread_create(&thread[i], NULL, actor, (void *)(intptr_t)i);
        assert(rc == 0);
        (void)rc;
    }
    pthread_mutex_lock(&sim.mutex);
    sim.running = 0;
    pthread_cond_broadcast(&sim.turn);
    pthread_mutex_unlock(&sim.mutex);
    for (int i = 0; i < n; i++)
        pthread_join(thread[i], NULL);
    tb_model_set_time(NULL);
    return sim.now - start;
}

static uint64_t io_work;
static int next_fd = 100;

static ssize_t work(ssize_t result)
{
    sim_work(io_work);
    return result;
}

static int sim_open(struct tb_io *io, const char *path, int flags, mode_t mode)
{
    (void)io, (void)path, (void)flags, (void)mode;
    return (int)work(next_fd++);
}

static int sim_close(struct tb_io *io, int fd)
{
    (void)io, (void)fd;
    return (int)work(0);
}

static ssize_t sim_pread(struct tb_io *io, int fd, void *buf, size_t n, off_t offset)
{
    (void)io, (void)fd, (void)buf, (void)offset;
    return work((ssize_t)n);
}

static ssize_t sim_pwrite(struct tb_io *io, int fd, const void *buf, size_t n, off_t offset)
{
    (void)io, (void)fd, (void)buf, (void)offset;
    return work((ssize_t)n);
}

static int sim_fsync(struct tb_io *io, int fd, bool data_only)
{
    (void)io, (void)fd, (void)data_only;
    return (int)work(0);
}

/* No file exists yet. */
static int sim_stat(struct tb_io *io, const char *path, struct stat *st, int flags)
{
    (void)io, (void)path, (void)st, (void)flags;
    return -ENOENT;
}

static int sim_dup(struct tb_io *io, int oldfd, int newfd)
{
    (void)io, (void)oldfd, (void)newfd;
    return 0;
}

/* A last layer without files: each operation succeeds after `work_ns` of real work. */
static inline struct tb_io *sim_io(uint64_t work_ns)
{
    static const struct tb_io_ops ops = {
        .name = "sim",
        .open = sim_open,
        .close = sim_close,
        .pread = sim_pread,
        .pwrite = sim_pwrite,
        .fsync = sim_fsync,
        .stat = sim_stat,
        .dup = sim_dup,
    };
    static struct tb_io io = {.ops = &ops};
    io_work = work_ns;
    return &io;
}

#endif
