/*
 * The engine against a model: random operations on a few files, each answer
 * compared with plain memory, tiers small enough to spill; and after the drain
 * the PFS's bytes compared with the same memory.
 */
#include "fixture.h"

#include <sys/resource.h>

#include <errno.h>

#include "buffer/heat.h"
#include "instance/invariants.h"
#include "buffer/map.h"
#include "buffer/of_file.h"
#include "instance/drain.h"
#include "instance/stats.h"
#include "region/clients.h"
#include "region/counters.h"
#include "tiering/move.h"
#include "tiering/organizer.h"
#include "tiering/prefetch.h"

#define FILES 4
#define SPAN (1u << 20)

struct model {
    unsigned char *bytes;
    size_t size;
    int fd;
};

static uint32_t next_random(uint32_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 17;
    return *state ^= *state << 5;
}

static const char *file_name(const struct fixture *x, int i)
{
    char name[32];
    snprintf(name, sizeof(name), "file-%d", i);
    return fixture_path(x, name);
}

static void write_some(struct fixture *x, struct model *m, uint32_t *seed)
{
    static unsigned char bytes[200000];
    size_t offset = next_random(seed) % SPAN, n = 1 + next_random(seed) % (next_random(seed) % 4 ? 9000 : sizeof(bytes));
    if (offset + n > SPAN)
        n = SPAN - offset;
    for (size_t i = 0; i < n; i++)
        bytes[i] = (unsigned char)next_random(seed);
    assert_int_equal(TB_IO(x->io, pwrite, m->fd, bytes, n, (off_t)offset), (ssize_t)n);
    memcpy(m->bytes + offset, bytes, n);
    if (offset + n > m->size)
        m->size = offset + n;
}

static void read_some(struct fixture *x, struct model *m, uint32_t *seed)
{
    static unsigned char bytes[200000];
    size_t offset = next_random(seed) % SPAN, n = 1 + next_random(seed) % sizeof(bytes);
    size_t expected = offset >= m->size ? 0 : m->size - offset < n ? m->size - offset : n;
    assert_int_equal(TB_IO(x->io, pread, m->fd, bytes, n, (off_t)offset), (ssize_t)expected);
    assert_memory_equal(bytes, m->bytes + offset, expected);
}

static void truncate_some(struct fixture *x, struct model *m, uint32_t *seed)
{
    size_t length = next_random(seed) % SPAN;
    assert_int_equal(TB_IO(x->io, ftruncate, m->fd, (off_t)length), 0);
    if (length < m->size)
        memset(m->bytes + length, 0, m->size - length);
    m->size = length;
}

static void reopen(struct fixture *x, struct model *m, int i)
{
    struct stat st;
    assert_int_equal(TB_IO(x->io, close, m->fd), 0);
    assert_int_equal(TB_IO(x->io, stat, file_name(x, i), &st, 0), 0);
    assert_int_equal(st.st_size, m->size);
    m->fd = TB_IO(x->io, open, file_name(x, i), O_RDWR | O_CREAT, 0600);
    assert_true(m->fd >= 0);
}

static void rename_over(struct fixture *x, struct model *m, int from, int to)
{
    char path[512];
    snprintf(path, sizeof(path), "%s", file_name(x, from));
    assert_int_equal(TB_IO(x->io, rename, path, file_name(x, to), 0), 0);
    assert_int_equal(TB_IO(x->io, close, m[to].fd), 0);
    free(m[to].bytes);
    m[to] = m[from];
    m[from] = (struct model){.bytes = calloc(1, SPAN)};
    m[from].fd = TB_IO(x->io, open, file_name(x, from), O_RDWR | O_CREAT, 0600);
    assert_true(m[from].fd >= 0);
}

static void compare_with_pfs(struct fixture *x, struct model *m)
{
    static unsigned char bytes[SPAN];
    for (int i = 0; i < FILES; i++) {
        int fd = open(file_name(x, i), O_RDONLY);
        assert_true(fd >= 0);
        assert_int_equal(pread(fd, bytes, SPAN, 0), m[i].size);
        assert_memory_equal(bytes, m[i].bytes, m[i].size);
        close(fd);
    }
}

static void one_step(struct fixture *x, struct model *m, uint32_t *seed)
{
    int i = (int)(next_random(seed) % FILES);
    uint32_t dice = next_random(seed) % 100;
    if (dice < 45)
        write_some(x, &m[i], seed);
    else if (dice < 85)
        read_some(x, &m[i], seed);
    else if (dice < 88)
        truncate_some(x, &m[i], seed);
    else if (dice < 92)
        reopen(x, &m[i], i);
    else if (dice < 96)
        assert_int_equal(TB_IO(x->io, fsync, m[i].fd, false), 0);
    else if (dice < 98)
        assert_true(tb_engine_flush(x->engine, m[i].fd) >= 0);
    else
        rename_over(x, m, i, (i + 1) % FILES);
}

/* Two files to the lowest tier, small ones of the rest to the one above. */
static void two_rules(struct tb_config_placement *p)
{
    p->n_rules = 2;
    p->rules[0] = (struct tb_config_rule){.pattern = "*/file-[01]", .at_most = UINT64_MAX, .n_tiers = 1, .tier = {2}};
    p->rules[1] = (struct tb_config_rule){.pattern = "*", .at_most = SPAN / 2, .n_tiers = 2, .tier = {1, 0}};
}

/* The daemon's part, in between: some of everything that it does to buffers. */
static void organize(struct fixture *x, struct tb_organizer *o, struct tb_prefetcher *p, uint32_t *seed)
{
    o->quiet = 10;
    o->traffic = tb_bytes_moved(x->engine) + x->engine->header->totals.pfs_read;
    tb_organizer_tick(x->engine, o);
    tb_prefetch_step(x->engine, p);
    uint32_t i = next_random(seed) % x->engine->header->layout.n_buffers;
    const struct tb_buffer *b = &x->engine->region.buffers[i];
    struct tb_buffer_ref ref = {i, b->cell, tb_buffer_start(x->engine, b)};
    if (b->state == TB_BUFFER_LIVE)
        tb_move(x->engine, b->file, &ref, next_random(seed) % x->config.n_tiers, TB_HEAT_ANY);
}

static void run_random(enum tb_mode mode, enum tb_policy policy, uint32_t seed, int steps)
{
    struct fixture x;
    struct model m[FILES];
    struct tb_organizer o = {0};
    struct tb_prefetcher p;
    tb_prefetch_start(&p);
    fixture_init(&x, mode);
    x.config.placement.policy = policy;
    if (policy == TB_POLICY_USER_DEFINED)
        two_rules(&x.config.placement);
    x.config.organizer.enabled = seed % 4 != 0;
    x.config.organizer.high = 0.4;
    x.config.organizer.low = 0.2;
    x.config.organizer.prefetch = 128u << 10;
    if (mode == TB_MODE_SCRATCH)
        x.config.tiers[2].capacity = 16u << 20; /* scratch has no PFS to spill to */
    fixture_start(&x);
    for (int i = 0; i < FILES; i++) {
        m[i] = (struct model){.bytes = calloc(1, SPAN)};
        m[i].fd = TB_IO(x.io, open, file_name(&x, i), O_RDWR | O_CREAT, 0600);
        assert_true(m[i].fd >= 0);
    }
    for (int s = 0; s < steps; s++) {
        one_step(&x, m, &seed);
        if (x.config.organizer.enabled)
            organize(&x, &o, &p, &seed);
        if (s % 64 == 0)
            assert_true(tb_region_is_valid(x.engine));
    }
    if (mode != TB_MODE_SCRATCH) {
        assert_int_equal(tb_instance_drain(x.engine, 2, NULL, NULL, NULL), 0);
        compare_with_pfs(&x, m);
    }
    for (int i = 0; i < FILES; i++) {
        assert_int_equal(TB_IO(x.io, close, m[i].fd), 0);
        free(m[i].bytes);
    }
    assert_true(tb_region_is_valid(x.engine));
    tb_prefetch_end(x.engine, &p);
    fixture_stop(&x);
}

static void random_async(void **state)
{
    (void)state;
    for (uint32_t policy = 0; policy < TB_N_POLICIES; policy++)
        run_random(TB_MODE_PERSISTENT_ASYNC, policy, (policy + 1) * 7919, 1500);
}

static void random_sync(void **state)
{
    (void)state;
    run_random(TB_MODE_PERSISTENT_SYNC, TB_POLICY_MAX_BANDWIDTH, 31337, 800);
}

static void random_scratch(void **state)
{
    (void)state;
    for (uint32_t policy = 0; policy < TB_N_POLICIES; policy++)
        run_random(TB_MODE_SCRATCH, policy, (policy + 1) * 4711, 500);
}

static void scratch_full_is_enospc(void **state)
{
    (void)state;
    static char bytes[1 << 20];
    struct fixture x;
    fixture_init(&x, TB_MODE_SCRATCH);
    fixture_start(&x);
    int fd = TB_IO(x.io, open, fixture_path(&x, "big"), O_RDWR | O_CREAT, 0600);
    ssize_t w = 0;
    uint64_t total = 0;
    while ((w = TB_IO(x.io, write, fd, bytes, sizeof(bytes))) > 0)
        total += (uint64_t)w;
    assert_int_equal(w, -ENOSPC);
    struct tb_stats stats;
    tb_engine_stats(x.engine, &stats);
    uint64_t used = stats.tier[0].used + stats.tier[1].used + stats.tier[2].used;
    assert_true(total <= used && used - total < 65536); /* one large buffer may start in mid-cell */
    assert_true(used > stats.tier[1].capacity + stats.tier[2].capacity);
    assert_int_equal(access(fixture_path(&x, "big"), F_OK), -1); /* the PFS never saw the name */
    TB_IO(x.io, close, fd);
    fixture_stop(&x);
}

static void unlinked_bytes_are_freed(void **state)
{
    (void)state;
    static char bytes[1 << 19];
    struct fixture x;
    struct tb_stats stats;
    fixture_init(&x, TB_MODE_PERSISTENT_ASYNC);
    fixture_start(&x);
    for (int round = 0; round < 50; round++) {
        int fd = TB_IO(x.io, open, fixture_path(&x, "gone"), O_RDWR | O_CREAT, 0600);
        assert_int_equal(TB_IO(x.io, write, fd, bytes, sizeof(bytes)), sizeof(bytes));
        assert_int_equal(TB_IO(x.io, unlink, fixture_path(&x, "gone"), 0), 0);
        assert_int_equal(TB_IO(x.io, pread, fd, bytes, 100, 0), 100); /* still there for a process that has it open */
        assert_int_equal(TB_IO(x.io, close, fd), 0);
    }
    tb_engine_stats(x.engine, &stats);
    assert_int_equal(stats.n_files, 0);
    for (uint32_t t = 0; t < stats.n_tiers; t++)
        assert_int_equal(stats.tier[t].used + stats.tier[t].dirty, 0);
    fixture_stop(&x);
}

/* A process that can open nothing can't read when others started: it must not take their claims and opens for those of the dead. */
static void living_clients_live_when_no_descriptor_is_free(void **state)
{
    (void)state;
    struct fixture x;
    int fds[1024], n = 0;
    fixture_init(&x, TB_MODE_PERSISTENT_ASYNC);
    fixture_start(&x);
    const struct tb_client *self = &x.engine->region.clients[x.engine->slot];
    struct tb_client dead = *self;
    dead.pid = 4194304; /* more than a kernel numbers */
    while (n < 1024 && (fds[n] = dup(0)) >= 0)
        n++;
    bool lives = tb_client_is_alive(self), dead_lives = tb_client_is_alive(&dead);
    bool full = n < 1024 && open("/dev/null", O_RDONLY) < 0;
    while (n)
        close(fds[--n]);
    assert_true(full && lives && !dead_lives);
    fixture_stop(&x);
}

#define MOVERS 4
#define MOVES 5000

struct mover {
    struct fixture *x;
    int fd, place;
};

/* Its own 4 KiB, written again and read again: what needs no lock. */
static void *move_bytes(void *arg)
{
    const struct mover *m = arg;
    char bytes[512] = "b";
    for (int i = 0; i < MOVES; i++) {
        off_t offset = m->place * 4096 + i % 8 * 512;
        if (TB_IO(m->x->io, pwrite, m->fd, bytes, sizeof(bytes), offset) != sizeof(bytes) ||
            TB_IO(m->x->io, pread, m->fd, bytes, sizeof(bytes), offset) != sizeof(bytes))
            return arg;
    }
    return NULL;
}

/* The first thread counts without locked instructions, beside those that need them. */
static void transfers_of_all_threads_are_counted(void **state)
{
    (void)state;
    struct fixture x;
    struct mover m[MOVERS + 1];
    pthread_t thread[MOVERS];
    fixture_init(&x, TB_MODE_PERSISTENT_ASYNC);
    fixture_start(&x);
    int fd = TB_IO(x.io, open, file_name(&x, 0), O_RDWR | O_CREAT, 0600);
    for (int i = 0; i <= MOVERS; i++)
        m[i] = (struct mover){&x, fd, i};
    for (int i = 0; i < MOVERS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, move_bytes, &m[i]), 0);
    assert_null(move_bytes(&m[MOVERS]));
    for (int i = 0; i < MOVERS; i++) {
        void *failed;
        pthread_join(thread[i], &failed);
        assert_null(failed);
    }
    struct tb_moved moved = tb_moved_of(x.engine, 0);
    const struct tb_transfers *first = &x.engine->region.clients[x.engine->slot].first[0];
    assert_int_equal(moved.bytes_in, 512 * MOVES * (MOVERS + 1));
    assert_int_equal(moved.writes, MOVES * (MOVERS + 1));
    assert_int_equal(first->bytes_in, 512 * MOVES);
    assert_true(moved.bytes_out >= 512 * MOVES * (MOVERS + 1)); /* a copy that is thrown away counts, too */
    assert_true(first->hits >= MOVES && first->hits < moved.hits);
    TB_IO(x.io, close, fd);
    fixture_stop(&x);
}

int main(void)
{
    setrlimit(RLIMIT_NOFILE, &(struct rlimit){1000, 1000});
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_async),
        cmocka_unit_test(random_sync),
        cmocka_unit_test(random_scratch),
        cmocka_unit_test(scratch_full_is_enospc),
        cmocka_unit_test(unlinked_bytes_are_freed),
        cmocka_unit_test(living_clients_live_when_no_descriptor_is_free),
        cmocka_unit_test(transfers_of_all_threads_are_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
