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
 * has it for regular files, also where it covers several blocks and buffers.  The
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
#include "history.h"

#include "instance/background.h"
#include "instance/drain.h"

#define CHUNK (1u << 20)
#define CALL_BYTES (4u * BLOCK) /* at most */
#define CALLS 1500u             /* of each thread */

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

/* All notes in one table; calls and values are to be freed. */
static uint64_t total_calls, total_cells, most_configs;

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
    history_write_first(r, &me);
    if (!bare)
        start_engine(r);
    history_work(r);
    if (!bare)
        stop_engine(r);
    history_read_last(r, &me);
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
