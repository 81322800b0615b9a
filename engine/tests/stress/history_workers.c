/*
 * The workers of a history, as threads of one process or of several, and what comes in between: flushes, another file that takes
 * the buffers away, the daemon's work, and threads that lose their turn at the engine's named points.
 */
#include "history.h"

#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>

#include "base/kill_point.h"
#include "instance/background.h"

#define OTHER_BYTES (8u << 20)

static _Atomic uint32_t delay;
static _Thread_local uint32_t delay_seed;

/* Others come in between. */
void tb_step(const char *name)
{
    (void)name;
    uint32_t one_of = delay;
    if (!one_of)
        return;
    if (!delay_seed)
        delay_seed = (uint32_t)now_ns() | 1;
    if (next_random(&delay_seed) % one_of)
        return;
    if (next_random(&delay_seed) % 2)
        sched_yield();
    else
        nanosleep(&(struct timespec){0, (long)(next_random(&delay_seed) % 100000)}, NULL);
}

/* The workers of one process. */
static void act_all(struct run *r, uint32_t process, tb_engine *engine, struct tb_io *io)
{
    static struct actor actors[HISTORY_WORKERS];
    pthread_t threads[HISTORY_WORKERS];
    const struct plan *p = &r->plan;
    for (uint32_t i = 0; i < p->threads; i++) {
        uint32_t id = process * p->threads + i;
        actors[i] = (struct actor){.run = r,
                                   .notes = &r->notes[id],
                                   .engine = engine,
                                   .io = io,
                                   .id = id,
                                   .both = r->both,
                                   .appends = r->appends,
                                   .seed = (p->seed + id) * 2654435761u | 1};
        must(pthread_create(&threads[i], NULL, history_act, &actors[i]) == 0, "thread");
    }
    for (uint32_t i = 0; i < p->threads; i++)
        pthread_join(threads[i], NULL);
}

/* With the descriptors that it inherits, or with a handle of its own. */
static void be_process(struct run *r, uint32_t process)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* a worker that fails leaves no other at a barrier */
    tb_engine *engine = r->engine;
    struct tb_io *io = r->io;
    if (engine && r->plan.one_description) {
        tb_engine_atfork_child(engine);
    } else if (engine) {
        must(tb_engine_attach(r->x.name, tb_io_libc(), &engine) == 0, "attach");
        io = tb_engine_route(engine, r->x.pfs, NULL);
    }
    act_all(r, process, engine, io);
    if (engine)
        tb_engine_detach(engine);
    _exit(0);
}

static pid_t start_process(struct run *r, uint32_t process)
{
    bool inherits = r->engine && r->plan.one_description;
    if (inherits)
        tb_engine_atfork_prepare(r->engine);
    pid_t pid = fork();
    if (pid == 0)
        be_process(r, process);
    must(pid > 0, "fork");
    if (inherits)
        tb_engine_atfork_parent(r->engine);
    return pid;
}

struct helper {
    struct run *run;
    uint32_t seed;
};

/* Else the others would be waited for without end. */
static void no_worker_failed(void)
{
    siginfo_t info = {0};
    if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid)
        must(info.si_code == CLD_EXITED && info.si_status == 0, "a worker failed");
}

static void *flush_again(void *arg)
{
    struct helper *h = arg;
    while (h->run->busy) {
        no_worker_failed();
        must(tb_engine_flush(h->run->x.engine, -1) >= 0, "flush");
        nanosleep(&(struct timespec){0, (long)(next_random(&h->seed) % 2000000)}, NULL);
    }
    return NULL;
}

/* Another file takes the buffers away, again and again. */
static void *press(void *arg)
{
    static const unsigned char bytes[BLOCK * 16];
    struct helper *h = arg;
    struct tb_io *io = h->run->io;
    uint32_t at = 0;
    int fd = TB_IO(io, open, fixture_path(&h->run->x, "other"), O_RDWR | O_CREAT, 0600);
    must(fd >= 0, "open: %d", fd);
    while (h->run->busy) {
        uint32_t n = next_random(&h->seed) % 2 ? sizeof(bytes) : BLOCK;
        must(TB_IO(io, pwrite, fd, bytes, n, at) == n, "pressure");
        at = (at + n) % OTHER_BYTES;
        if (next_random(&h->seed) % 32 == 0)
            nanosleep(&(struct timespec){0, 200000}, NULL);
    }
    must(TB_IO(io, close, fd) == 0, "close");
    return NULL;
}

static void help(struct run *r)
{
    struct helper h[2] = {{r, r->plan.seed | 1}, {r, r->plan.seed * 3 | 1}};
    pthread_t threads[2];
    if (!r->engine)
        return;
    must(pthread_create(&threads[0], NULL, flush_again, &h[0]) == 0 && pthread_create(&threads[1], NULL, press, &h[1]) == 0, "helpers");
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
}

/* Not always: without a daemon clients flush. */
static void start_daemon(struct run *r)
{
    must(!r->engine || r->plan.seed % 4 == 0 || tb_background_start(r->x.engine) == 0, "background");
}

/* Processes are forked before this one has threads. */
static void run_processes(struct run *r)
{
    pid_t pids[HISTORY_WORKERS];
    int status;
    for (uint32_t i = 0; i < r->plan.processes; i++)
        pids[i] = start_process(r, i);
    start_daemon(r);
    help(r);
    for (uint32_t i = 0; i < r->plan.processes; i++)
        must(waitpid(pids[i], &status, 0) == pids[i] && status == 0, "a worker failed");
}

static void *act_as_process(void *arg)
{
    struct run *r = arg;
    act_all(r, 0, r->engine, r->io);
    return NULL;
}

static void run_threads(struct run *r)
{
    pthread_t thread;
    start_daemon(r);
    must(pthread_create(&thread, NULL, act_as_process, r) == 0, "thread");
    help(r);
    pthread_join(thread, NULL);
}

static void open_for_all(struct run *r)
{
    struct tb_io *io = r->io;
    r->both = TB_IO(io, open, r->name, O_RDWR, 0);
    r->appends = TB_IO(io, open, r->name, O_WRONLY | O_APPEND, 0);
    must(r->both >= 0 && r->appends >= 0, "open: %d, %d", r->both, r->appends);
    must(TB_IO(io, lseek, r->both, place(&r->plan, 0), SEEK_SET) == place(&r->plan, 0), "seek");
}

void history_work(struct run *r)
{
    const struct plan *p = &r->plan;
    if (p->one_description)
        open_for_all(r);
    delay = p->delay;
    if (p->processes)
        run_processes(r);
    else
        run_threads(r);
    delay = 0;
    if (p->one_description)
        must(TB_IO(r->io, close, r->both) == 0 && TB_IO(r->io, close, r->appends) == 0, "close");
}
