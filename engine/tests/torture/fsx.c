/*
 * fsx for many processes: random operations on a few files, each compared with a
 * model in shared memory, while workers are killed, files drained and policies
 * changed.  Three files grow and are cut: an operation and its model change
 * together under a lock of the file's, so each process sees what the others did.
 * A fourth file is of ranges side by side, in no alignment, that are written in
 * parallel.
 *
 * A killed worker leaves what it was about: of a write the first bytes, all or
 * nothing may be there, past the old end of the file nothing but written bytes
 * and zeros of a hole; of a new length all or nothing.  What had returned is kept.
 *
 *   torture_fsx [OPERATIONS [SEED]]     also by TB_OPS and TB_FSX_SEED; TB_FSX_JOBS
 *                                       shards run side by side, one seed each
 *
 * Each phase is an instance of another configuration; after its drain the files are
 * compared past the engine.  A shard that fails prints what was done last and the
 * command that repeats its choices (not the order in which processes came to run),
 * and keeps its folder.
 */
#include "../stress/stress.h"

#include <signal.h>

#include "file/file.h"
#include "instance/background.h"
#include "instance/drain.h"
#include "instance/make.h"
#include "layer/repair.h"

#define GROWING 3
#define SLOTS 5
#define MODELS (GROWING + SLOTS)
#define WORKERS 3
#define LONGEST ((1u << 20) + 300000u) /* bytes of a file: across chunks */
#define SLOT 100003u
#define PIECE_MAX 70000u
#define LOG 48u
#define PHASE 25000u /* operations */

enum kind { NOTHING, WRITE, READ, CUT, SIZE, SYNC, FLUSH, REOPEN, MODE, COHERENT, WHOLE, KINDS };
static const char *const kinds[KINDS] = {"nothing", "write", "read", "cut", "size", "sync", "flush", "reopen", "mode", "coherent", "whole"};

struct entry {
    enum kind kind;
    int pid;
    uint64_t lo, hi;
    uint32_t serial;
};

struct model {
    struct tb_lock lock;
    uint64_t size;
    struct entry pending; /* kind NOTHING: none */
    bool done;            /* it returned, and the model is being changed */
    uint32_t n_log;
    struct entry log[LOG];
    unsigned char bytes[LONGEST];
};

static struct shared {
    _Atomic uint64_t n_done, until;
    _Atomic uint64_t kills, resolved, drains;
    _Atomic uint32_t serial;
    struct model model[MODELS];
} *shared;

/* One process's descriptors of one model's file. */
struct hands {
    int both, appends;
};

static struct worker me;
static struct hands hands[MODELS];
static unsigned char bytes[LONGEST], old[LONGEST];

static bool grows(int m)
{
    return m < GROWING;
}

static uint64_t base(int m)
{
    return grows(m) ? 0 : (uint64_t)(m - GROWING) * SLOT;
}

static uint32_t room(int m)
{
    return grows(m) ? LONGEST : SLOT;
}

static const char *name(int m)
{
    static const char *const names[] = {"a", "b", "c", "ranges"};
    return names[m < GROWING ? m : GROWING];
}

static uint32_t chance(uint32_t below)
{
    return next_random(&me.seed) % below;
}

/* Never 0, which no call writes. */
static void make_bytes(unsigned char *to, uint64_t lo, uint64_t hi, uint32_t serial)
{
    for (uint64_t at = lo; at < hi; at++)
        to[at - lo] = (unsigned char)(1 + (serial * 2654435761u + (uint32_t)at * 40503u + (uint32_t)(at >> 9)) % 255);
}

static void show(int m)
{
    const struct model *s = &shared->model[m];
    fprintf(stderr, "model %d (%s), %llu bytes by the model; the last operations:\n", m, name(m), (unsigned long long)s->size);
    for (uint32_t i = s->n_log > LOG ? s->n_log - LOG : 0; i < s->n_log; i++) {
        const struct entry *l = &s->log[i % LOG];
        fprintf(stderr, "  %u: process %d, %s [%llu, %llu)\n", l->serial, l->pid, kinds[l->kind], (unsigned long long)l->lo,
                (unsigned long long)l->hi);
    }
}

#define check(m, condition, ...)          \
    do {                                  \
        if (!(condition)) {               \
            show(m);                      \
            must(condition, __VA_ARGS__); \
        }                                 \
    } while (0)

static void open_hands(int m)
{
    const char *path = fixture_path(me.x, name(m));
    hands[m].both = TB_IO(me.io, open, path, O_RDWR | O_CREAT, 0600);
    hands[m].appends = grows(m) ? TB_IO(me.io, open, path, O_WRONLY | O_APPEND | O_CREAT, 0600) : -1;
    check(m, hands[m].both >= 0 && (!grows(m) || hands[m].appends >= 0), "open: %d", hands[m].both);
}

static void close_hands(int m)
{
    check(m, TB_IO(me.io, close, hands[m].both) == 0, "close");
    check(m, hands[m].appends < 0 || TB_IO(me.io, close, hands[m].appends) == 0, "close");
}

/* All that the engine gives from `lo` on, into `bytes`. */
static uint64_t get(int m, uint64_t lo, uint64_t n)
{
    ssize_t r = TB_IO(me.io, pread, hands[m].both, bytes, n, (off_t)(base(m) + lo));
    check(m, r >= 0, "read: %zd", r);
    return (uint64_t)r;
}

static uint64_t size_now(int m)
{
    struct stat st;
    check(m, TB_IO(me.io, fstat, hands[m].both, &st) == 0, "fstat");
    return grows(m) ? (uint64_t)st.st_size : SLOT;
}

static void compare(int m, uint64_t lo, uint64_t n, const char *what)
{
    const struct model *s = &shared->model[m];
    n = n < room(m) - lo ? n : room(m) - lo; /* the next range is another process's */
    uint64_t want = lo >= s->size ? 0 : n < s->size - lo ? n : s->size - lo, got = get(m, lo, n);
    check(m, got == want, "%s: %llu bytes from %llu, not %llu", what, (unsigned long long)got, (unsigned long long)lo,
          (unsigned long long)want);
    for (uint64_t i = 0; memcmp(bytes, s->bytes + lo, got) && i < got; i++)
        check(m, bytes[i] == s->bytes[lo + i], "%s: byte %llu is %u, not %u", what, (unsigned long long)(lo + i), bytes[i],
              s->bytes[lo + i]);
}

static void change_model(struct model *s)
{
    const struct entry *p = &s->pending;
    if (p->kind == WRITE) {
        make_bytes(s->bytes + p->lo, p->lo, p->hi, p->serial);
        s->size = p->hi > s->size ? p->hi : s->size;
    } else if (p->kind == CUT) {
        uint64_t lo = p->lo < s->size ? p->lo : s->size;
        memset(s->bytes + lo, 0, LONGEST - lo);
        s->size = p->lo;
    }
}

static bool is_client(const tb_engine *e, int pid)
{
    for (uint32_t i = 0; i < e->region.n_clients; i++)
        if (e->region.clients[i].pid == pid)
            return true;
    return false;
}

/* Byte `at` after a killed write: as before, or as written; past the old end only what a prefix of the write left. */
static bool is_possible(const struct model *s, const struct entry *p, uint64_t at, unsigned char was, unsigned char now)
{
    unsigned char new;
    make_bytes(&new, at, at + 1, p->serial);
    bool in = at >= p->lo && at < p->hi;
    return at < s->size ? now == was || (in && now == new) : now == (in ? new : 0);
}

/* What a killed worker was about is there or not; from now on it is what it is. */
static void resolve(int m)
{
    struct model *s = &shared->model[m];
    struct entry p = s->pending;
    while (is_client(me.engine, p.pid)) {
        tb_repair(me.engine);
        usleep(200);
    }
    shared->resolved += p.kind == WRITE || p.kind == CUT;
    if (s->done || (p.kind != WRITE && p.kind != CUT)) {
        change_model(s);
        return;
    }
    uint64_t size = size_now(m), end = p.kind == CUT ? p.lo : p.hi > s->size ? p.hi : s->size;
    check(m, p.kind == CUT ? size == s->size || size == end : size >= s->size && size <= end,
          "after a killed %s: %llu bytes, not %llu or up to %llu", kinds[p.kind], (unsigned long long)size, (unsigned long long)s->size,
          (unsigned long long)end);
    if (p.kind == CUT) {
        if (size == end)
            change_model(s);
        compare(m, 0, size, "after a killed cut");
        return;
    }
    check(m, get(m, 0, size) == size, "after a killed write: cannot read all of it");
    for (uint64_t at = 0; at < size; at++)
        check(m, is_possible(s, &p, at, s->bytes[at], bytes[at]), "after a killed write [%llu, %llu): byte %llu is %u, was %u",
              (unsigned long long)p.lo, (unsigned long long)p.hi, (unsigned long long)at, bytes[at], s->bytes[at]);
    memcpy(s->bytes, bytes, size);
    s->size = size;
}

static void lock(int m)
{
    struct model *s = &shared->model[m];
    int rc = tb_lock_take(&s->lock);
    must(rc >= 0, "lock: %d", rc);
    if (s->pending.kind == NOTHING)
        return;
    resolve(m);
    s->pending.kind = NOTHING;
}

static void begin(int m, enum kind kind, uint64_t lo, uint64_t hi)
{
    struct model *s = &shared->model[m];
    struct entry p = {.kind = kind, .pid = getpid(), .lo = lo, .hi = hi, .serial = shared->serial++};
    s->log[s->n_log++ % LOG] = p;
    s->done = false;
    s->pending = (struct entry){.kind = NOTHING, .pid = p.pid, .lo = lo, .hi = hi, .serial = p.serial};
    atomic_signal_fence(memory_order_seq_cst);
    s->pending.kind = kind;
}

static void end(int m)
{
    struct model *s = &shared->model[m];
    s->done = true;
    atomic_signal_fence(memory_order_seq_cst);
    change_model(s);
    atomic_signal_fence(memory_order_seq_cst);
    s->pending.kind = NOTHING;
}

static uint64_t some_offset(int m)
{
    uint32_t most = room(m) - 1;
    return chance(3) == 0 ? chance(most) : chance(2) ? chance(most / 16) : chance(most / 64) * 64;
}

static uint32_t some_length(void)
{
    return 1 + (chance(8) == 0 ? chance(PIECE_MAX) : chance(2) ? chance(300) : chance(9000));
}

static void write_some(int m)
{
    struct model *s = &shared->model[m];
    bool append = grows(m) && chance(4) == 0 && s->size < LONGEST - 1, by_offset = chance(4) == 0;
    uint64_t lo = append ? s->size : some_offset(m), n = some_length();
    struct tb_io *io = me.io;
    n = n < room(m) - lo ? n : room(m) - lo;
    begin(m, WRITE, lo, lo + n);
    make_bytes(bytes, lo, lo + n, s->pending.serial);
    int fd = hands[m].both;
    if (!append && by_offset)
        check(m, TB_IO(io, lseek, fd, (off_t)(base(m) + lo), SEEK_SET) == (off_t)(base(m) + lo), "seek");
    ssize_t w = append    ? TB_IO(io, write, hands[m].appends, bytes, n)
              : by_offset ? TB_IO(io, write, fd, bytes, n)
                          : TB_IO(io, pwrite, fd, bytes, n, (off_t)(base(m) + lo));
    check(m, w == (ssize_t)n, "write: %zd of %llu", w, (unsigned long long)n);
    end(m);
}

static void cut(int m)
{
    struct model *s = &shared->model[m];
    uint64_t length = chance(4) == 0 ? 0 : some_offset(m);
    uint32_t way = chance(3);
    struct tb_io *io = me.io;
    if (length == 0 && way == 2) {
        begin(m, CUT, 0, 0);
        int fd = TB_IO(io, open, fixture_path(me.x, name(m)), O_WRONLY | O_TRUNC, 0);
        check(m, fd >= 0 && TB_IO(io, close, fd) == 0, "open and empty: %d", fd);
    } else {
        begin(m, CUT, length, s->size);
        int rc = way ? TB_IO(io, ftruncate, hands[m].both, (off_t)length) : TB_IO(io, truncate, fixture_path(me.x, name(m)), (off_t)length);
        check(m, rc == 0, "truncate: %d", rc);
    }
    end(m);
}

static void other(int m, uint32_t what)
{
    int rc = 0, fd = hands[m].both;
    enum kind kind = what < 20 ? SYNC : what < 30 ? FLUSH : what < 45 ? REOPEN : what < 50 ? MODE : what == 50 ? COHERENT : SIZE;
    begin(m, kind, 0, 0);
    if (kind == SYNC)
        rc = TB_IO(me.io, fsync, fd, false);
    else if (kind == FLUSH)
        rc = tb_engine_flush(me.engine, what == 29 ? -1 : fd);
    else if (kind == MODE)
        rc = tb_engine_set_mode(me.engine, fd, chance(2) ? TB_MODE_PERSISTENT_SYNC : TB_MODE_PERSISTENT_ASYNC);
    else if (kind == COHERENT)
        rc = tb_engine_make_coherent(me.engine, fd);
    if (kind == REOPEN) {
        close_hands(m);
        open_hands(m);
    }
    check(m, rc >= 0 || (kind == MODE && rc == -EBUSY), "%s: %d", kinds[kind], rc);
    shared->drains += kind == FLUSH;
    uint64_t size = size_now(m);
    check(m, size == shared->model[m].size, "size %llu, not %llu", (unsigned long long)size, (unsigned long long)shared->model[m].size);
    end(m);
}

static void one(void)
{
    int m = (int)chance(MODELS);
    uint32_t what = chance(1000);
    lock(m);
    if (what < 450)
        write_some(m);
    else if (what < 880)
        compare(m, some_offset(m), some_length(), "read");
    else if (what < 910 && grows(m))
        cut(m);
    else if (what < 998)
        other(m, chance(100));
    else
        compare(m, 0, room(m), "read of all");
    tb_lock_drop(&shared->model[m].lock);
}

static void work(struct worker *w)
{
    me = *w;
    for (int m = 0; m < MODELS; m++)
        open_hands(m);
    while (shared->n_done < shared->until) {
        one();
        shared->n_done++;
    }
    for (int m = 0; m < MODELS; m++)
        close_hands(m);
}

/* Policies, promises and sizes of this phase. */
static void choose(struct fixture *x)
{
    static const enum tb_flush_policy policies[] = {TB_FLUSH_MANUAL, TB_FLUSH_ON_CLOSE, TB_FLUSH_WATERMARK};
    struct tb_config *c = &x->config;
    c->flush.policy = policies[chance(3)];
    c->flush.background = chance(2);
    c->flush.high = 0.3 + 0.1 * chance(5);
    c->flush.low = 0.1;
    c->fsync = chance(2) ? TB_FSYNC_TIER : TB_FSYNC_PFS;
    c->prefixes[0].mode = chance(8) ? TB_MODE_PERSISTENT_ASYNC : TB_MODE_PERSISTENT_SYNC;
    c->placement.policy = chance(2) ? TB_POLICY_MAX_BANDWIDTH : chance(2) ? TB_POLICY_ROUND_ROBIN : TB_POLICY_RANDOM;
    c->tiers[0].capacity = (3u + chance(4)) << 20;
    c->tiers[1].capacity = (512u << 10) << chance(3);
}

static pid_t start_worker(struct fixture *x, int id)
{
    static struct worker w;
    w = (struct worker){.id = id, .seed = (next_random(&me.seed) * 2654435761u ^ 0x9e3779b9u) | 1, .x = x, .work = work};
    pid_t pid = worker_process(&w);
    must(pid > 0, "fork");
    return pid;
}

/* A worker that ends in another way than by the kill, and says nothing, is told here. */
static bool has_failed(int status)
{
    if (status)
        fprintf(stderr, "a worker ended with status %#x\n", (unsigned)status);
    return status != 0;
}

static int ended(pid_t *pids, bool *failed)
{
    for (int i = 0, status; i < WORKERS; i++)
        if (pids[i] && waitpid(pids[i], &status, WNOHANG) == pids[i]) {
            *failed |= has_failed(status);
            pids[i] = 0;
            return i;
        }
    return -1;
}

/* Until the phase's operations are done; a killed worker is followed by another. */
static bool run_workers_and_kill(struct fixture *x)
{
    pid_t pids[WORKERS];
    bool failed = false;
    int left = WORKERS;
    for (int i = 0; i < WORKERS; i++)
        pids[i] = start_worker(x, i);
    while (left && !failed) {
        usleep(300 + chance(20000));
        while (ended(pids, &failed) >= 0)
            left--;
        int i = (int)chance(WORKERS), status;
        if (!pids[i] || failed || shared->n_done >= shared->until)
            continue;
        kill(pids[i], SIGKILL);
        waitpid(pids[i], &status, 0);
        failed |= !(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) && has_failed(status);
        shared->kills++;
        pids[i] = start_worker(x, i);
        if (chance(2))
            tb_repair(x->engine);
    }
    for (int i = 0, status; i < WORKERS; i++)
        if (pids[i]) {
            kill(pids[i], SIGKILL);
            waitpid(pids[i], &status, 0);
        }
    return !failed;
}

/* In a process of its own: the first difference ends it. */
static void settle_all(struct worker *w)
{
    me = *w;
    for (int m = 0; m < MODELS; m++) {
        open_hands(m);
        lock(m);
        compare(m, 0, room(m), "at the end of the phase");
        tb_lock_drop(&shared->model[m].lock);
        close_hands(m);
    }
}

static bool settle(struct fixture *x)
{
    static struct worker w;
    int status;
    w = (struct worker){.id = WORKERS, .seed = 1, .x = x, .work = settle_all};
    pid_t pid = worker_process(&w);
    return waitpid(pid, &status, 0) == pid && !has_failed(status);
}

static bool is_on_pfs(const struct fixture *x)
{
    bool good = true;
    for (int m = 0; m < MODELS; m++) {
        const struct model *s = &shared->model[m];
        int fd = open(fixture_path(x, name(m)), O_RDONLY);
        ssize_t n = pread(fd, old, room(m), (off_t)base(m));
        close(fd);
        if (n == (ssize_t)s->size && memcmp(old, s->bytes, s->size) == 0)
            continue;
        show(m);
        fprintf(stderr, "after the drain the file on the PFS has %zd bytes, or others than the model's\n", n);
        good = false;
    }
    return good;
}

static bool phase(struct fixture *x)
{
    choose(x);
    fixture_start(x);
    must(tb_instance_become_daemon(x->engine) == 0, "daemon");
    bool daemon = chance(4);
    if (daemon)
        must(tb_background_start(x->engine) == 0, "background");
    bool good = run_workers_and_kill(x) && settle(x);
    if (daemon)
        tb_background_stop(x->engine);
    if (!good)
        return false;
    tb_repair(x->engine);
    if (!tb_region_is_valid(x->engine) || tb_instance_drain(x->engine, 2, NULL, NULL, NULL)) {
        fprintf(stderr, "the region is not valid at the end of the phase, or the drain failed\n");
        return false;
    }
    if (!is_on_pfs(x))
        return false;
    must(tb_instance_destroy(x->engine) == 0, "stop");
    return true;
}

static void start_models(struct fixture *x)
{
    for (int m = 0; m < MODELS; m++) {
        tb_lock_init(&shared->model[m].lock);
        shared->model[m].size = grows(m) ? 0 : SLOT;
    }
    int fd = open(fixture_path(x, "ranges"), O_RDWR | O_CREAT, 0600);
    must(fd >= 0 && ftruncate(fd, (off_t)SLOTS * SLOT) == 0, "ranges");
    close(fd);
}

static int run_shard(uint64_t operations, uint32_t seed)
{
    struct fixture x;
    bool good = true;
    me.seed = seed * 2654435761u | 1;
    shared = stress_shared(sizeof(*shared));
    fixture_init(&x, TB_MODE_PERSISTENT_ASYNC);
    start_models(&x);
    for (uint64_t done = 0; done < operations && good; done = shared->n_done) {
        shared->until = done + PHASE < operations ? done + PHASE : operations;
        good = phase(&x);
    }
    printf("seed %u: %llu operations, %llu kills, %llu resolved, %llu drains, %s\n", seed, (unsigned long long)shared->n_done,
           (unsigned long long)shared->kills, (unsigned long long)shared->resolved, (unsigned long long)shared->drains,
           good ? "none wrong" : "FAILED");
    if (!good)
        printf("its folder is %s; again: TB_FSX_JOBS=1 torture_fsx %llu %u\n", x.root, (unsigned long long)operations, seed);
    else
        tb_remove_tree(x.root, NULL);
    fflush(stdout);
    return good ? 0 : 1;
}

static uint64_t number(const char *text, const char *variable, uint64_t otherwise)
{
    const char *value = text ? text : getenv(variable);
    return value && *value ? strtoull(value, NULL, 10) : otherwise;
}

int main(int argc, char **argv)
{
    uint64_t operations = number(argc > 1 ? argv[1] : NULL, "TB_OPS", 100000);
    uint32_t seed = (uint32_t)number(argc > 2 ? argv[2] : NULL, "TB_FSX_SEED", now_ns() % 1000000000u);
    uint32_t jobs = (uint32_t)number(NULL, "TB_FSX_JOBS", 2);
    int failed = 0, status;
    setvbuf(stderr, NULL, _IOLBF, 0);
    for (uint32_t i = 0; i < jobs; i++)
        if (fork() == 0)
            exit(run_shard(operations / jobs, seed + i));
    while (wait(&status) > 0)
        failed |= status != 0;
    return failed;
}
