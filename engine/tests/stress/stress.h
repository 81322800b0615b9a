/*
 * What the stress tests share: workers that are threads or processes, a check
 * that ends the process from any of them, random numbers, and blocks that hold
 * their writer and the time of the write.
 *
 * TB_STRESS=N runs N times as much (default 1).  Threads share one handle on
 * the instance; processes attach one each.
 */
#ifndef TB_STRESS_H
#define TB_STRESS_H

#include "../fixture.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <xxhash.h>

#include "instance/invariants.h"

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define STRESS_SLOWER 10 /* a sanitizer's price */
#else
#define STRESS_SLOWER 1
#endif

/* Ends the process, from any thread: cmocka's own checks jump, which only the main thread may. */
#define must(condition, ...)                                                \
    do {                                                                    \
        if (!(condition)) {                                                 \
            fprintf(stderr, "%s:%d: %s: ", __FILE__, __LINE__, #condition); \
            fprintf(stderr, __VA_ARGS__);                                   \
            fputc('\n', stderr);                                            \
            abort();                                                        \
        }                                                                   \
    } while (0)

static inline uint64_t stress_amount(uint64_t at_one)
{
    const char *times = getenv("TB_STRESS");
    uint64_t n = at_one * (times ? strtoull(times, NULL, 10) : 1) / STRESS_SLOWER;
    return n ? n : 1;
}

static inline uint32_t next_random(uint32_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 17;
    return *state ^= *state << 5;
}

static inline uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Memory that worker processes see too. */
static inline void *stress_shared(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(p != MAP_FAILED);
    return p;
}

struct worker {
    int id;
    uint32_t seed;
    struct fixture *x;
    tb_engine *engine;
    struct tb_io *io; /* the engine's chain */
    void *arg;
    void (*work)(struct worker *);
};

static inline void *worker_thread(void *arg)
{
    struct worker *w = arg;
    w->work(w);
    return NULL;
}

static inline pid_t worker_process(struct worker *w)
{
    pid_t pid = fork();
    if (pid)
        return pid;
    int rc = tb_engine_attach(w->x->name, tb_io_libc(), &w->engine);
    must(rc == 0, "attach: %d", rc);
    w->io = tb_engine_route(w->engine, w->x->pfs, NULL);
    w->work(w);
    tb_engine_detach(w->engine);
    _exit(0);
}

#define WORKERS_MAX 128

struct crew {
    int n;
    bool processes;
    struct worker w[WORKERS_MAX];
    pthread_t threads[WORKERS_MAX];
    pid_t pids[WORKERS_MAX];
};

/* Begin `work` in `n` threads, or processes. */
static inline void start_workers(struct crew *c, struct fixture *x, int n, bool processes, void (*work)(struct worker *), void *arg)
{
    assert_true(n <= WORKERS_MAX);
    c->n = n;
    c->processes = processes;
    for (int i = 0; i < n; i++) {
        struct worker *w = &c->w[i];
        *w =
            (struct worker){.id = i, .seed = 7919u * (uint32_t)(i + 1), .x = x, .engine = x->engine, .io = x->io, .arg = arg, .work = work};
        if (processes)
            assert_true((c->pids[i] = worker_process(w)) > 0);
        else
            assert_int_equal(pthread_create(&c->threads[i], NULL, worker_thread, w), 0);
    }
}

/* Wait for them all. */
static inline void wait_workers(struct crew *c)
{
    for (int i = 0, status = 0; i < c->n; i++) {
        if (!c->processes) {
            pthread_join(c->threads[i], NULL);
            continue;
        }
        assert_int_equal(waitpid(c->pids[i], &status, 0), c->pids[i]);
        assert_int_equal(status, 0);
    }
}

static inline void run_workers(struct fixture *x, int n, bool processes, void (*work)(struct worker *), void *arg)
{
    static struct crew c;
    start_workers(&c, x, n, processes, work, arg);
    wait_workers(&c);
}

/* A block of any size from 24 bytes: one writer's, whole, or torn. */
struct stamp {
    uint64_t checksum; /* of all after it */
    uint32_t writer, serial;
    uint64_t position;
};

static inline void stamp_block(void *block, size_t bytes, uint32_t writer, uint32_t serial, uint64_t position)
{
    struct stamp s = {.writer = writer, .serial = serial, .position = position};
    uint32_t state = (writer + 1) * 2654435761u ^ (serial + 1) * 40503u;
    unsigned char *p = block;
    for (size_t i = sizeof(s); i < bytes; i++) {
        if (i % 64 == 0)
            next_random(&state);
        p[i] = (unsigned char)(state >> (i % 4 * 8));
    }
    memcpy(block, &s, sizeof(s));
    s.checksum = XXH3_64bits(p + sizeof(s.checksum), bytes - sizeof(s.checksum));
    memcpy(block, &s.checksum, sizeof(s.checksum));
}

/* False where the block is not exactly what one writer wrote at `position`. */
static inline bool stamp_read(const void *block, size_t bytes, uint64_t position, struct stamp *out)
{
    memcpy(out, block, sizeof(*out));
    return out->checksum == XXH3_64bits((const char *)block + sizeof(out->checksum), bytes - sizeof(out->checksum)) &&
           out->position == position;
}

#endif
