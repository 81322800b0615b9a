/*
 * Histories: several processes and threads work on one file, each notes what it
 * called, when, and what it got, and history_check.c looks for an order of the
 * calls that explains it.  None: what one of them saw, no file does.
 *
 * Beside them the file is flushed, moved, promoted and pushed out of tiers that
 * are too small for it, and at the engine's named points (step.h) a thread may
 * lose its turn or sleep, so that others come in between.  Each history is of
 * another configuration; its last call reads the file on the PFS, after a drain.
 *
 * What it holds the engine to: every call takes effect at one instant, as POSIX
 * has it for regular files, also where it lies across blocks and buffers.  The
 * exceptions are those of docs/compatibility.md: a call across a chunk's border is
 * one in each chunk, and where a read ends may be older than its cells.  Kernels
 * give less: on ext4 and tmpfs readers take no lock and meet any bytes of a write
 * that is under way; writes, appends and lengths take turns.  `stress_history bare`
 * runs on plain files of $TMPDIR and holds them to that, so that a call which the
 * test itself notes wrongly is seen without an engine.
 *
 * Limits: no kills (test_steps.c, torture/), no mappings, no files that fell back.
 * In a file of several chunks, where appends are, there are no other writes.
 *
 *   stress_history [bare]     TB_HISTORY_SEED repeats the choices of a run, not the order of events
 */
#include "stress.h"

#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>

#include "base/kill_point.h"
#include "history_check.h"
#include "instance/background.h"
#include "instance/drain.h"

#define CHUNK (1u << 20)
#define BLOCK 4096u
#define CALL_BYTES (4u * BLOCK) /* at most */
#define CALLS 1500u             /* of each thread */
#define VALUES_MAX 20u          /* cells of a read, on an average */
#define OTHER_BYTES (8u << 20)

/* What one history is like. */
struct plan {
    uint32_t seed;
    uint32_t processes, threads, calls; /* of each process, of each thread */
    uint32_t cell;                      /* bytes */
    uint64_t origin;                    /* of the first cell in the file */
    uint32_t room;                      /* cells among which calls choose */
    uint32_t n_cells;
    uint32_t first;         /* cells that the PFS has before */
    uint32_t longest;       /* cells of a call */
    bool one_description;   /* inherited by all */
    bool only_appends;      /* no other writes: past the end, in the next chunk, they may come first (docs/compatibility.md) */
    uint32_t appends, cuts; /* of 100 calls */
    uint32_t delay;         /* one of so many steps is slow; 0: none */
    struct history_limits limits;
};

struct notes { /* of one worker */
    uint32_t n_calls, n_values;
    struct history_call *calls;
    uint32_t *values;
};

struct run {
    struct plan plan;
    struct fixture x;
    tb_engine *engine; /* a client's where there are processes: a daemon does not fork clients.  NULL: bare */
    struct tb_io *io;
    const char *name;
    int both, appends;                       /* descriptors that all share */
    struct notes notes[HISTORY_WORKERS + 1]; /* the last are the test's own */
    pthread_barrier_t barrier;
    _Atomic uint32_t busy;
};

struct actor {
    struct run *run;
    struct notes *notes;
    tb_engine *engine;
    struct tb_io *io;
    uint32_t id, seed, serial;
    int both, appends;
    unsigned char bytes[(HISTORY_PIECE + 1) * BLOCK];
};

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

static uint32_t chance(struct actor *a, uint32_t below)
{
    return next_random(&a->seed) % below;
}

/* A cell says which it is; its other bytes follow from that. */
static uint64_t word_of(uint32_t value, uint32_t k)
{
    return (value + (uint64_t)k) * 0x9e3779b97f4a7c15ull >> 8 << 8 | (value & 0xff);
}

static void make_cells(const struct plan *p, unsigned char *to, uint32_t n, uint32_t value)
{
    for (uint32_t i = 0; i < n; i++, to += p->cell) {
        for (uint32_t at = 0; at < p->cell; at += 8) {
            uint64_t word = word_of(value + i, at);
            memcpy(to + at, &word, p->cell - at < 8 ? p->cell - at : 8);
        }
        memcpy(to, &(uint32_t){value + i}, sizeof(uint32_t));
    }
}

static uint32_t value_of(const struct plan *p, const unsigned char *cell)
{
    static const unsigned char zeros[BLOCK];
    unsigned char like[BLOCK];
    uint32_t value;
    memcpy(&value, cell, sizeof(value));
    if (value)
        make_cells(p, like, 1, value);
    return memcmp(cell, value ? like : zeros, p->cell) ? HISTORY_TORN : value;
}

/* Times of one worker differ, so that its calls do not overlap. */
static uint64_t later_than(uint64_t before)
{
    uint64_t now;
    do
        now = now_ns();
    while (now <= before);
    return now;
}

static struct history_call *begin(struct actor *a, enum history_kind kind, uint32_t at, uint32_t n)
{
    struct notes *s = a->notes;
    struct history_call *o = &s->calls[s->n_calls];
    *o = (struct history_call){.kind = kind, .worker = a->id, .at = at, .n = n, .got = s->n_values};
    o->begin = later_than(s->n_calls ? o[-1].end : 0);
    return o;
}

static void end(struct actor *a, struct history_call *o)
{
    o->end = now_ns();
    a->notes->n_calls++;
}

static off_t place(const struct plan *p, uint32_t cell)
{
    return (off_t)(p->origin + (uint64_t)cell * p->cell);
}

/* In cells; the file's length or offset is never inside one. */
static uint32_t cells_of(const struct plan *p, int64_t at, const char *what)
{
    int64_t from = at - (int64_t)p->origin;
    must(from >= 0 && from % p->cell == 0 && from / p->cell <= p->n_cells, "%s %lld, cells of %u from %llu on", what, (long long)at,
         p->cell, (unsigned long long)p->origin);
    return (uint32_t)(from / p->cell);
}

static uint32_t piece(struct actor *a)
{
    return 1 + chance(a, a->run->plan.longest);
}

static void write_cells(struct actor *a, enum history_kind kind)
{
    const struct plan *p = &a->run->plan;
    uint32_t n = piece(a), at = kind == HISTORY_WRITE ? chance(a, p->room - n + 1) : 0;
    uint32_t value = (a->id + 1) << 24 | a->serial++ * HISTORY_PIECE;
    struct tb_io *io = a->io;
    make_cells(p, a->bytes, n, value);
    struct history_call *o = begin(a, kind, at, n);
    ssize_t w = kind == HISTORY_WRITE  ? io->ops->pwrite(io, a->both, a->bytes, n * p->cell, place(p, at))
              : kind == HISTORY_APPEND ? io->ops->write(io, a->appends, a->bytes, n * p->cell)
                                       : io->ops->write(io, a->both, a->bytes, n * p->cell);
    o->value = value;
    end(a, o);
    must(w == (ssize_t)(n * p->cell), "write of %u cells: %zd", n, w);
}

static void read_cells(struct actor *a, enum history_kind kind)
{
    const struct plan *p = &a->run->plan;
    uint32_t n = piece(a), at = chance(a, p->room);
    struct tb_io *io = a->io;
    struct history_call *o = begin(a, kind, at, n);
    ssize_t r = kind == HISTORY_READ ? io->ops->pread(io, a->both, a->bytes, n * p->cell, place(p, at))
                                     : io->ops->read(io, a->both, a->bytes, n * p->cell);
    end(a, o);
    must(r >= 0 && r % p->cell == 0, "read of %u cells at %u: %zd", n, at, r);
    o->result = (uint32_t)(r / p->cell);
    for (uint32_t i = 0; i < o->result; i++)
        a->notes->values[a->notes->n_values++] = value_of(p, a->bytes + i * p->cell);
}

static void cut(struct actor *a)
{
    const struct plan *p = &a->run->plan;
    uint32_t at = chance(a, p->room + 1);
    bool by_name = chance(a, 4) == 0;
    struct history_call *o = begin(a, HISTORY_CUT, at, 0);
    int rc = by_name ? a->io->ops->truncate(a->io, a->run->name, place(p, at)) : a->io->ops->ftruncate(a->io, a->both, place(p, at));
    end(a, o);
    must(rc == 0, "truncate: %d", rc);
}

static uint32_t size_now(struct actor *a)
{
    struct stat st;
    struct history_call *o = begin(a, HISTORY_SIZE, 0, 0);
    int rc = a->io->ops->fstat(a->io, a->both, &st);
    end(a, o);
    must(rc == 0, "fstat: %d", rc);
    return o->result = cells_of(&a->run->plan, st.st_size, "length");
}

static uint32_t offset_now(struct actor *a)
{
    struct history_call *o = begin(a, HISTORY_TELL, 0, 0);
    off_t at = a->io->ops->lseek(a->io, a->both, 0, SEEK_CUR);
    end(a, o);
    return o->result = cells_of(&a->run->plan, at, "offset");
}

static void seek(struct actor *a)
{
    uint32_t at = chance(a, a->run->plan.room);
    struct history_call *o = begin(a, HISTORY_SEEK, at, 0);
    off_t to = a->io->ops->lseek(a->io, a->both, place(&a->run->plan, at), SEEK_SET);
    end(a, o);
    must(to == place(&a->run->plan, at), "seek: %lld", (long long)to);
}

static void open_own(struct actor *a)
{
    a->both = a->io->ops->open(a->io, a->run->name, O_RDWR, 0);
    a->appends = a->io->ops->open(a->io, a->run->name, O_WRONLY | O_APPEND, 0);
    must(a->both >= 0 && a->appends >= 0, "open: %d, %d", a->both, a->appends);
}

static void close_own(struct actor *a)
{
    must(a->io->ops->close(a->io, a->both) == 0 && a->io->ops->close(a->io, a->appends) == 0, "close");
}

/* What changes nothing that anybody could read. */
static void sync_or_reopen(struct actor *a)
{
    int rc = 0;
    if (chance(a, 2) || a->run->plan.one_description)
        rc = a->io->ops->fsync(a->io, a->both, chance(a, 2));
    else {
        close_own(a);
        open_own(a);
    }
    must(rc == 0, "fsync: %d", rc);
}

static void append(struct actor *a)
{
    if (size_now(a) <= a->run->plan.room)
        write_cells(a, HISTORY_APPEND);
    else
        cut(a);
}

static void move_on(struct actor *a)
{
    if (chance(a, 4) == 0 || offset_now(a) >= a->run->plan.room)
        seek(a);
    else if (chance(a, 2) && !a->run->plan.only_appends)
        write_cells(a, HISTORY_WRITE_ON);
    else
        read_cells(a, HISTORY_READ_ON);
}

static void one_call(struct actor *a)
{
    const struct plan *p = &a->run->plan;
    uint32_t what = chance(a, 100);
    if (what < p->appends)
        append(a);
    else if ((what -= p->appends) < p->cuts)
        cut(a);
    else if ((what -= p->cuts) < 3)
        sync_or_reopen(a);
    else if (what < 10)
        size_now(a);
    else if (p->one_description && what < 50)
        move_on(a);
    else if (chance(a, 5) < 2 && !p->only_appends)
        write_cells(a, HISTORY_WRITE);
    else
        read_cells(a, HISTORY_READ);
    if (chance(a, 64) == 0)
        sched_yield();
}

static bool has_room(const struct notes *s, const struct plan *p)
{
    return s->n_calls + 3 < p->calls && s->n_values + HISTORY_PIECE < p->calls * VALUES_MAX;
}

static void *act(void *arg)
{
    struct actor *a = arg;
    if (!a->run->plan.one_description)
        open_own(a);
    pthread_barrier_wait(&a->run->barrier);
    while (has_room(a->notes, &a->run->plan))
        one_call(a);
    if (!a->run->plan.one_description)
        close_own(a);
    a->run->busy--;
    return NULL;
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
        must(pthread_create(&threads[i], NULL, act, &actors[i]) == 0, "thread");
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
    int fd = io->ops->open(io, fixture_path(&h->run->x, "other"), O_RDWR | O_CREAT, 0600);
    must(fd >= 0, "open: %d", fd);
    while (h->run->busy) {
        uint32_t n = next_random(&h->seed) % 2 ? sizeof(bytes) : BLOCK;
        must(io->ops->pwrite(io, fd, bytes, n, at) == n, "pressure");
        at = (at + n) % OTHER_BYTES;
        if (next_random(&h->seed) % 32 == 0)
            nanosleep(&(struct timespec){0, 200000}, NULL);
    }
    must(io->ops->close(io, fd) == 0, "close");
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

/* What the PFS has before, and after. */
static void write_first(struct run *r, struct actor *a)
{
    const struct plan *p = &r->plan;
    int fd = open(r->name, O_RDWR | O_CREAT | O_TRUNC, 0600);
    must(fd >= 0 && ftruncate(fd, place(p, 0)) == 0, "file");
    for (uint32_t at = 0, n; at < p->first; at += n) {
        n = p->first - at < HISTORY_PIECE ? p->first - at : HISTORY_PIECE;
        struct history_call *o = begin(a, HISTORY_WRITE, at, n);
        o->value = (a->id + 1) << 24 | a->serial++ * HISTORY_PIECE;
        make_cells(p, a->bytes, n, o->value);
        must(pwrite(fd, a->bytes, n * p->cell, place(p, at)) == (ssize_t)(n * p->cell), "first bytes");
        end(a, o);
    }
    close(fd);
}

static void read_last(struct run *r, struct actor *a)
{
    const struct plan *p = &r->plan;
    a->io = tb_io_libc();
    a->both = open(r->name, O_RDONLY);
    must(a->both >= 0, "open");
    uint32_t size = size_now(a);
    for (uint32_t at = 0, n; at < size; at += n) {
        n = size - at < p->longest ? size - at : p->longest;
        struct history_call *o = begin(a, HISTORY_READ, at, n);
        ssize_t got = pread(a->both, a->bytes, n * p->cell, place(p, at));
        end(a, o);
        must(got == (ssize_t)(n * p->cell), "read of %u cells on the PFS: %zd", n, got);
        o->result = n;
        for (uint32_t i = 0; i < n; i++)
            a->notes->values[a->notes->n_values++] = value_of(p, a->bytes + i * p->cell);
    }
    close(a->both);
}

static uint32_t n_workers(const struct plan *p)
{
    return p->processes ? p->processes * p->threads : p->threads;
}

static struct run *make_run(const struct plan *p)
{
    struct run *r = stress_shared(sizeof(*r));
    pthread_barrierattr_t attr;
    r->plan = *p;
    for (uint32_t i = 0; i <= n_workers(p); i++) {
        r->notes[i].calls = stress_shared(p->calls * sizeof(*r->notes[i].calls));
        r->notes[i].values = stress_shared(p->calls * VALUES_MAX * sizeof(uint32_t));
    }
    pthread_barrierattr_init(&attr);
    pthread_barrierattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
    pthread_barrier_init(&r->barrier, &attr, n_workers(p));
    r->busy = n_workers(p);
    return r;
}

static void free_run(struct run *r)
{
    for (uint32_t i = 0; i <= n_workers(&r->plan); i++) {
        munmap(r->notes[i].calls, r->plan.calls * sizeof(*r->notes[i].calls));
        munmap(r->notes[i].values, r->plan.calls * VALUES_MAX * sizeof(uint32_t));
    }
    munmap(r, sizeof(*r));
}

static uint64_t total_calls, total_cells, most_configs;

/* All notes in one table; calls and values are to be freed. */
static struct history join(const struct run *r)
{
    const struct plan *p = &r->plan;
    uint32_t n_calls = 0, n_values = 0;
    for (uint32_t i = 0; i <= n_workers(p); i++) {
        n_calls += r->notes[i].n_calls;
        n_values += r->notes[i].n_values;
    }
    struct history_call *calls = malloc(n_calls * sizeof(*calls));
    uint32_t *values = malloc((n_values + 1) * sizeof(*values));
    must(calls && values, "memory");
    n_calls = n_values = 0;
    for (uint32_t i = 0; i <= n_workers(p); i++) {
        const struct notes *s = &r->notes[i];
        for (uint32_t k = 0; k < s->n_calls; k++) {
            calls[n_calls] = s->calls[k];
            calls[n_calls++].got += n_values;
        }
        memcpy(values + n_values, s->values, s->n_values * sizeof(*values));
        n_values += s->n_values;
    }
    total_calls += n_calls;
    total_cells += n_values;
    return (struct history){.n_cells = p->n_cells, .limits = p->limits, .calls = calls, .n_calls = n_calls, .values = values};
}

static void show(const struct plan *p, const struct history *h, uint32_t call)
{
    history_show(stderr, h, call);
    fprintf(stderr, "%u cells of %u bytes from %llu on, %u processes of %u threads, %s, split at cell %u, one of %u steps slow\n", p->room,
            p->cell, (unsigned long long)p->origin, p->processes, p->threads, p->one_description ? "one description" : "own descriptors",
            p->limits.split, p->delay);
}

static void check_notes(const struct run *r)
{
    struct history h = join(r);
    struct history_finding f = history_check(&h);
    most_configs = f.configs > most_configs ? f.configs : most_configs;
    if (f.verdict != HISTORY_POSSIBLE)
        show(&r->plan, &h, f.call);
    must(f.verdict == HISTORY_POSSIBLE, "history of seed %u: %s at call %u of %u", r->plan.seed,
         f.verdict == HISTORY_IMPOSSIBLE ? "impossible" : "too many orders", f.call, h.n_calls);
    free((void *)h.calls);
    free((void *)h.values);
}

/* Figures by which it pays to flush before a write is placed. */
static void profile(struct tb_config *c)
{
    c->pfs.profile = (struct tb_device){.read_bandwidth = 1e9, .write_bandwidth = 1e9, .channels = 1};
    c->pfs.profiled = true;
    for (uint32_t t = 0; t < c->n_tiers; t++) {
        double rate = t ? 1e6 : 1e10;
        c->tiers[t].profile = (struct tb_device){.read_bandwidth = rate, .write_bandwidth = rate, .channels = 1};
        c->tiers[t].profiled = true;
    }
}

static void choose_tiers(struct fixture *x, uint32_t *seed)
{
    static const enum tb_flush_policy policies[] = {TB_FLUSH_MANUAL, TB_FLUSH_ON_CLOSE, TB_FLUSH_WATERMARK};
    static const enum tb_policy placements[] = {TB_POLICY_MAX_BANDWIDTH, TB_POLICY_RANDOM, TB_POLICY_ROUND_ROBIN, TB_POLICY_HOT_DATA};
    struct tb_config *c = &x->config;
    c->flush.policy = policies[next_random(seed) % 3];
    c->flush.background = next_random(seed) % 2;
    c->flush.high = 0.3;
    c->flush.low = 0.1;
    c->fsync = next_random(seed) % 2 ? TB_FSYNC_TIER : TB_FSYNC_PFS;
    c->placement.policy = placements[next_random(seed) % 4];
    c->organizer.high = 0.5;
    c->organizer.low = 0.2;
    c->tiers[0].capacity = 3u << 20;
    c->tiers[1].capacity = (512u << 10) << next_random(seed) % 2;
    if (next_random(seed) % 2)
        profile(c);
    if (next_random(seed) % 8 == 0)
        c->prefixes[0].mode = TB_MODE_PERSISTENT_SYNC;
}

static void start_engine(struct run *r)
{
    fixture_start(&r->x);
    must(tb_instance_become_daemon(r->x.engine) == 0, "daemon");
    r->engine = r->x.engine;
    must(!r->plan.processes || tb_engine_attach(r->x.name, tb_io_libc(), &r->engine) == 0, "attach");
    r->io = tb_engine_route(r->engine, r->x.pfs, NULL);
}

static void stop_engine(struct run *r)
{
    tb_background_stop(r->x.engine);
    if (r->plan.processes)
        tb_engine_detach(r->engine);
    must(tb_region_is_valid(r->x.engine), "the region");
    must(tb_instance_drain(r->x.engine, 2, NULL, NULL, NULL) == 0, "drain");
}

static void open_for_all(struct run *r)
{
    struct tb_io *io = r->io;
    r->both = io->ops->open(io, r->name, O_RDWR, 0);
    r->appends = io->ops->open(io, r->name, O_WRONLY | O_APPEND, 0);
    must(r->both >= 0 && r->appends >= 0, "open: %d, %d", r->both, r->appends);
    must(io->ops->lseek(io, r->both, place(&r->plan, 0), SEEK_SET) == place(&r->plan, 0), "seek");
}

static void act_and_help(struct run *r)
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
        must(r->io->ops->close(r->io, r->both) == 0 && r->io->ops->close(r->io, r->appends) == 0, "close");
}

static void run_one(const struct plan *p, bool bare)
{
    struct run *r = make_run(p);
    uint32_t tiers = p->seed | 1, own = n_workers(p);
    struct actor me = {.run = r, .notes = &r->notes[own], .id = own, .seed = 1};
    char name[512];
    fixture_init(&r->x, TB_MODE_PERSISTENT_ASYNC);
    snprintf(name, sizeof(name), "%s", fixture_path(&r->x, "history"));
    r->name = name;
    r->io = tb_io_libc();
    choose_tiers(&r->x, &tiers);
    write_first(r, &me);
    if (!bare)
        start_engine(r);
    act_and_help(r);
    if (!bare)
        stop_engine(r);
    read_last(r, &me);
    check_notes(r);
    fixture_stop(&r->x);
    free_run(r);
}

static void choose_calls(struct plan *p, uint32_t *s)
{
    p->one_description = next_random(s) % 4 == 0;
    p->appends = next_random(s) % 2 ? 10 + next_random(s) % 30 : 0;
    p->cuts = next_random(s) % 2 ? 1 + next_random(s) % 10 : p->appends ? 1 : 0;
    p->delay = next_random(s) % 3 ? 4u << next_random(s) % 6 : 0;
}

/* At the head of the file, at a buffer's, in the middle of a block, across a chunk's border. */
static void choose_place(struct plan *p, uint32_t where)
{
    const uint64_t places[] = {0, 65536, BLOCK / 2 + 3, CHUNK - (uint64_t)p->room / 2 * p->cell};
    p->origin = places[where];
    p->limits = (struct history_limits){.split = where == 3 ? p->room / 2 : 0, .end = HISTORY_END_APART};
    p->only_appends = where == 3 && p->appends;
}

static struct plan choose(uint32_t seed, bool bare)
{
    static const uint32_t cells[] = {512, 1000, 1365, 2048, 4096};
    uint32_t s = seed * 2654435761u | 1;
    for (int i = 0; i < 4; i++)
        next_random(&s);
    struct plan p = {.seed = seed, .calls = CALLS};
    p.cell = cells[bare ? 3 + next_random(&s) % 2 : next_random(&s) % 5]; /* a kernel's length may be inside other cells */
    p.longest = CALL_BYTES / p.cell;
    p.room = p.longest * (1 + next_random(&s) % 4);
    p.processes = 2 + next_random(&s) % 3;
    p.threads = p.processes == 2 ? 1 + next_random(&s) % 2 : 1;
#ifdef __SANITIZE_THREAD__
    p.threads *= p.processes;
    p.processes = 0;
#endif
    p.n_cells = p.room + (n_workers(&p) + 1) * p.longest;
    p.first = next_random(&s) % 2 ? p.room / 2 : 0;
    choose_calls(&p, &s);
    choose_place(&p, bare ? 0 : next_random(&s) % 4);
    if (bare)
        p.limits = (struct history_limits){.read_part = 1, .write_part = 1, .turns = true, .torn = true, .end = HISTORY_END_MEANWHILE};
    return p;
}

static uint32_t chosen_seed(void)
{
    const char *value = getenv("TB_HISTORY_SEED");
    return value && *value ? (uint32_t)strtoul(value, NULL, 10) : (uint32_t)(now_ns() % 1000000000u);
}

int main(int argc, char **argv)
{
    bool bare = argc > 1 && strcmp(argv[1], "bare") == 0;
    uint32_t seed = chosen_seed(), runs = 2 + (uint32_t)stress_amount(4);
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc > 1 && !bare) {
        fprintf(stderr, "stress_history: argument 1: %s; allowed: bare\n", argv[1]);
        return 2;
    }
    printf("TB_HISTORY_SEED=%u, %u histories\n", seed, runs);
    for (uint32_t i = 0; i < runs; i++) {
        struct plan p = choose(seed + i, bare);
        run_one(&p, bare);
    }
    printf("%u histories of %llu calls, which read %llu cells: each has an order (at most %llu states at a time)\n", runs,
           (unsigned long long)total_calls, (unsigned long long)total_cells, (unsigned long long)most_configs);
    return 0;
}
