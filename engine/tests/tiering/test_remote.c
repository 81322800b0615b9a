/*
 * Remote tiers without a network: other nodes' memory is memory of this test, and two nodes lend it in turn. Each policy uses it; what
 * is there is never made up when a node is lost, and what is elsewhere, too, is read from there.
 */
#include "fixture.h"

#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "buffer/heat.h"
#include "instance/invariants.h"
#include "buffer/map.h"
#include "buffer/of_file.h"
#include "buffer/slab.h"
#include "chain/model/model.h"
#include "config/placement.h"
#include "instance/drain.h"
#include "io/identity.h"
#include "layer/descriptions.h"
#include "layer/repair.h"
#include "placement/placement.h"
#include "recovery/recover.h"
#include "region/counters.h"
#include "tiering/move.h"

#define FAR 1u /* the tier */
#define SPAN (6u << 20)
#define ROUNDS 1200

/* What the other nodes lend, shared with children of this process. */
static struct {
    char *memory;
    uint64_t room;
    _Atomic bool *lost;           /* of each of the two nodes */
    _Atomic uint32_t *writes;     /* so far, */
    uint32_t dies_at;             /* and the one in which the process is killed */
    _Atomic uint64_t n_in, n_out; /* bytes */
} lent;

static bool is_lost(const tb_engine *e, const struct tb_buffer *b)
{
    return lent.lost[tb_buffer_number(e, b) % 2];
}

/* Slots are as large as the largest buffer. */
static char *at(const tb_engine *e, const struct tb_buffer *b, uint32_t lo)
{
    uint64_t largest = e->header->layout.class_size[e->header->layout.n_classes - 1];
    uint64_t first = e->header->layout.slab[e->header->layout.tier_first_slab[FAR]].first_buffer;
    uint64_t place = (tb_buffer_number(e, b) - first) * largest + lo;
    assert_true(place < lent.room);
    return lent.memory + place;
}

static int read_lent(tb_engine *e, const struct tb_buffer *b, uint32_t lo, uint32_t n, void *to)
{
    if (is_lost(e, b))
        return -EHOSTDOWN;
    memcpy(to, at(e, b, lo), n);
    lent.n_out += n;
    return 0;
}

static int write_lent(tb_engine *e, const struct tb_buffer *b, uint32_t lo, uint32_t n, const void *from)
{
    if (is_lost(e, b))
        return -EHOSTDOWN;
    bool dies = ++*lent.writes == lent.dies_at;
    memcpy(at(e, b, lo), from, dies ? n / 2 : n);
    if (dies)
        kill(getpid(), SIGKILL);
    lent.n_in += n;
    return 0;
}

static const struct tb_borrow_ops by_test = {read_lent, write_lent};

struct scene {
    struct fixture x;
    int fd;
    uint32_t file;
    char *bytes;   /* what the file is to have, */
    bool *unknown; /* except for what a write failed to change */
};

static void start_with(struct fixture *x, enum tb_mode mode)
{
    char path[300];
    fixture_init(x, mode);
    struct tb_config *c = &x->config;
    c->tiers[0].n_slabs = c->tiers[1].n_slabs = 0;
    fixture_slab(&c->tiers[0], 16, 1.0);
    c->n_tiers = 3;
    snprintf(path, sizeof(path), "%s/below", x->root);
    c->tiers[2] = (struct tb_config_tier){0};
    fixture_tier(&c->tiers[1], "far", NULL, 8u << 20, 4096);
    c->tiers[1].medium = TB_MEDIUM_REMOTE;
    fixture_slab(&c->tiers[1], 1, 0.25);
    fixture_slab(&c->tiers[1], 16, 0.75);
    fixture_tier(&c->tiers[2], "below", path, 2u << 20, 4096);
    fixture_slab(&c->tiers[2], 16, 1.0);
}

static void share_memory(void)
{
    lent.room = 3000ull << 16;
    lent.memory = mmap(NULL, lent.room, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    lent.lost = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    lent.writes = (_Atomic uint32_t *)(void *)(lent.lost + 64);
    lent.dies_at = 0;
    lent.n_in = lent.n_out = 0;
    assert_true(lent.memory != MAP_FAILED && (void *)lent.lost != MAP_FAILED);
}

static void open_file(struct scene *s)
{
    s->x.engine->borrow = &by_test;
    s->fd = TB_IO(s->x.io, open, fixture_path(&s->x, "file"), O_RDWR | O_CREAT, 0600);
    assert_true(s->fd >= 0);
    const struct tb_open *description = tb_open_of(s->x.engine, s->fd);
    assert_non_null(description);
    s->file = description->file;
}

/* `rate`: of the remote tier's model, in bytes a second; 0: it has none. */
static struct scene *begin_with(enum tb_mode mode, enum tb_policy policy, double rate)
{
    struct scene *s = calloc(1, sizeof(*s));
    s->bytes = calloc(1, SPAN);
    s->unknown = calloc(SPAN, sizeof(bool));
    start_with(&s->x, mode);
    struct tb_config_placement *p = &s->x.config.placement;
    p->policy = policy;
    if (policy == TB_POLICY_USER_DEFINED) {
        p->n_rules = 1;
        p->rules[0] = (struct tb_config_rule){.pattern = "*", .at_most = UINT64_MAX, .n_tiers = 2, .tier = {1, 0}};
    }
    s->x.config.tiers[FAR].modelled = rate > 0;
    s->x.config.tiers[FAR].model = (struct tb_device){.write_bandwidth = rate, .read_bandwidth = rate, .channels = 1};
    share_memory();
    fixture_start(&s->x);
    open_file(s);
    return s;
}

static struct scene *begin(enum tb_mode mode, enum tb_policy policy)
{
    return begin_with(mode, policy, 0);
}

static void end(struct scene *s)
{
    TB_IO(s->x.io, close, s->fd);
    assert_true(tb_region_is_valid(s->x.engine));
    fixture_stop(&s->x);
    munmap(lent.memory, lent.room);
    munmap((void *)lent.lost, 4096);
    free(s->bytes);
    free(s->unknown);
    free(s);
}

static uint32_t seed = 1;

static uint32_t pick(uint32_t n)
{
    seed ^= seed << 13;
    seed ^= seed >> 17;
    seed ^= seed << 5;
    return seed % n;
}

static ssize_t put(struct scene *s, uint32_t n, uint32_t offset, int what)
{
    char *from = malloc(n);
    memset(from, what, n);
    ssize_t w = TB_IO(s->x.io, pwrite, s->fd, from, n, offset);
    for (uint32_t i = 0; i < n; i++)
        s->unknown[offset + i] = w < 0 || i >= (size_t)w;
    memset(s->bytes + offset, what, n);
    free(from);
    return w;
}

/* Each byte is right, or was in doubt. */
static void check(const struct scene *s, const char *seen, uint32_t n, uint32_t offset)
{
    for (uint32_t i = 0; i < n; i++)
        if (seen[i] != s->bytes[offset + i] && !s->unknown[offset + i])
            fail_msg("byte %u: %d for %d", offset + i, seen[i], s->bytes[offset + i]);
}

static ssize_t get(struct scene *s, uint32_t n, uint32_t offset)
{
    char *seen = malloc(n);
    ssize_t r = TB_IO(s->x.io, pread, s->fd, seen, n, offset);
    if (r > 0)
        check(s, seen, (uint32_t)r, offset);
    free(seen);
    return r;
}

static void check_pfs(struct scene *s)
{
    char *seen = calloc(1, SPAN);
    int fd = open(fixture_path(&s->x, "file"), O_RDONLY);
    ssize_t n = pread(fd, seen, SPAN, 0);
    assert_true(n >= 0);
    check(s, seen, (uint32_t)n, 0);
    close(fd);
    free(seen);
}

static void do_some(struct scene *s, uint32_t rounds)
{
    for (uint32_t i = 0; i < rounds; i++) {
        uint32_t n = 1 + pick(pick(4) ? 9000 : 300000), offset = pick(SPAN - n);
        if (pick(2))
            assert_int_equal(put(s, n, offset, (int)(1 + pick(120))), n);
        else
            assert_true(get(s, n, offset) >= 0);
        if (i % 100 == 99)
            assert_int_equal(TB_IO(s->x.io, fsync, s->fd, false), 0);
        if (i % 300 == 299)
            assert_true(tb_engine_flush(s->x.engine, -1) >= 0);
    }
}

#define CODE(number, code, name, hermes) TB_POLICY_##number,
static const enum tb_policy policies[] = {TB_POLICIES(CODE)};

/* Each of them gives it bytes, and all of them come back. */
static void test_each_policy_uses_it(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(policies) / sizeof(policies[0]); i++) {
        struct scene *s = begin(TB_MODE_PERSISTENT_ASYNC, policies[i]);
        assert_int_equal(put(s, SPAN, 0, 'a'), SPAN);
        if (!lent.n_in)
            fail_msg("%s placed nothing there", tb_policy_name(policies[i]));
        assert_true(tb_tier_dirty(s->x.engine->header, FAR) > 0);
        assert_int_equal(get(s, SPAN, 0), SPAN);
        assert_true(lent.n_out > 0);
        do_some(s, ROUNDS / 4);
        assert_int_equal(get(s, SPAN, 0), SPAN);
        assert_int_equal(tb_instance_drain(s->x.engine, 2, NULL, NULL, NULL), 0);
        check_pfs(s);
        end(s);
    }
}

static uint64_t dirty_there(const struct scene *s, uint32_t node)
{
    const tb_engine *e = s->x.engine;
    uint64_t n = 0;
    for (uint32_t i = 0; i < e->header->layout.n_buffers; i++) {
        const struct tb_buffer *b = &e->region.buffers[i];
        if (b->state == TB_BUFFER_LIVE && tb_buffer_is_remote(e, b) && i % 2 == node)
            n += b->dirty_hi - b->dirty_lo;
    }
    return n;
}

/* Nothing is only promised there, and after a crash of this node what was promised is on the PFS. */
static void test_a_promise_leaves_it(void **state)
{
    (void)state;
    struct scene *s = begin(TB_MODE_PERSISTENT_ASYNC, TB_POLICY_USER_DEFINED);
    struct tb_error err = {""};
    assert_int_equal(put(s, 300000, 0, 'a'), 300000);
    assert_true(dirty_there(s, 0) + dirty_there(s, 1) == 300000);
    assert_int_equal(TB_IO(s->x.io, fsync, s->fd, false), 0);
    for (uint32_t i = 0; i < s->x.engine->header->layout.n_buffers; i++) {
        const struct tb_buffer *b = &s->x.engine->region.buffers[i];
        if (b->state == TB_BUFFER_LIVE && tb_buffer_is_dirty(b))
            assert_true(!tb_buffer_is_remote(s->x.engine, b) && b->flags & TB_BUFFER_DURABLE);
    }
    /* and none of these is replaced by a buffer there, also where memory is full */
    struct tb_buffer *taken[256];
    uint32_t n = 0;
    while ((taken[n] = tb_tier_take(s->x.engine, 0, 65536, TB_HEAT_ANY)))
        n++;
    assert_int_equal(put(s, 100, 70000, 'b'), 100);
    while (n)
        tb_slab_give(s->x.engine, taken[--n]);
    assert_int_equal(dirty_there(s, 0) + dirty_there(s, 1), 0);
    lent.lost[0] = lent.lost[1] = true;
    assert_int_equal(TB_IO(s->x.io, fsync, s->fd, false), 0);
    TB_IO(s->x.io, close, s->fd);
    fixture_lose_region(&s->x);
    assert_int_equal(tb_instance_recover(&s->x.config, tb_io_libc(), NULL, NULL, NULL, &err), 1);
    char seen[300000];
    int fd = open(fixture_path(&s->x, "file"), O_RDONLY);
    assert_int_equal(pread(fd, seen, sizeof(seen), 0), sizeof(seen));
    check(s, seen, sizeof(seen), 0);
    close(fd);
    fixture_stop(&s->x);
    free(s->bytes);
    free(s->unknown);
    free(s);
}

/* Of what is nowhere else a read is an error; what was flushed is read from the PFS; what is written now goes elsewhere. */
static void test_a_node_is_lost(void **state)
{
    (void)state;
    struct scene *s = begin(TB_MODE_PERSISTENT_ASYNC, TB_POLICY_USER_DEFINED);
    const uint32_t half = 1u << 20;
    assert_int_equal(put(s, half, 0, 'a'), half);
    assert_true(tb_engine_flush(s->x.engine, -1) >= 0);
    assert_int_equal(put(s, half, half, 'b'), half);
    uint64_t alive = dirty_there(s, 0), gone = dirty_there(s, 1);
    assert_true(alive > 0 && gone > 0);
    lent.lost[1] = true;
    for (uint32_t offset = 0; offset < half / 2; offset += 65536)
        assert_int_equal(put(s, 100, offset + 500, 'd'), 100);
    assert_int_equal(get(s, half, 0), half);
    uint32_t n_lost = 0;
    for (uint32_t offset = half; offset < 2 * half; offset += 65536) {
        ssize_t r = get(s, 65536, offset);
        assert_true(r == 65536 || r == -EIO);
        n_lost += r == -EIO;
    }
    assert_int_equal(n_lost, gone / 65536);
    assert_int_equal(put(s, half, 2 * half, 'c'), half);
    assert_int_equal(get(s, half, 2 * half), half);
    assert_int_equal(dirty_there(s, 1), gone);
    /* a flush takes what can be had, and says that it is not all */
    assert_int_equal(tb_instance_drain(s->x.engine, 2, NULL, NULL, NULL), -EIO);
    assert_int_equal(dirty_there(s, 0), 0);
    assert_int_equal(TB_IO(s->x.io, fsync, s->fd, false), -EIO);
    lent.lost[1] = false;
    assert_int_equal(get(s, 3 * half, 0), 3 * half);
    assert_int_equal(tb_instance_drain(s->x.engine, 2, NULL, NULL, NULL), 0);
    check_pfs(s);
    TB_IO(s->x.io, fsync, s->fd, false); /* the error is told once */
    end(s);
}

/* Nodes come and go; every byte that is read is right, and all are there when they are back. */
static void test_nodes_come_and_go(void **state)
{
    (void)state;
    struct scene *s = begin(TB_MODE_PERSISTENT_ASYNC, TB_POLICY_USER_DEFINED);
    uint32_t n_errors = 0, n_right = 0;
    for (uint32_t i = 0; i < ROUNDS; i++) {
        uint32_t n = 1 + pick(pick(4) ? 9000 : 200000), offset = pick(SPAN - n);
        if (i % 40 == 0)
            lent.lost[pick(2)] = pick(3) == 0;
        ssize_t r = pick(2) ? put(s, n, offset, (int)(1 + pick(120))) : get(s, n, offset);
        assert_true(r >= 0 || r == -EIO);
        n_errors += r < 0;
        n_right += r > 0;
        if (i % 200 == 199)
            tb_engine_flush(s->x.engine, -1);
        if (i % 250 == 249)
            TB_IO(s->x.io, fsync, s->fd, false);
        assert_true(tb_region_is_valid(s->x.engine));
    }
    assert_true(n_errors > 0 && n_right > ROUNDS / 2);
    lent.lost[0] = lent.lost[1] = false;
    assert_true(get(s, SPAN, 0) > 0);
    assert_int_equal(tb_instance_drain(s->x.engine, 2, NULL, NULL, NULL), 0);
    check_pfs(s);
    TB_IO(s->x.io, fsync, s->fd, false);
    end(s);
}

/* Bytes move down to it from memory and on to the tier below, and up again, with a node that is lost on the way. */
static void test_moves(void **state)
{
    (void)state;
    struct scene *s = begin(TB_MODE_PERSISTENT_ASYNC, TB_POLICY_MAX_BANDWIDTH);
    tb_engine *e = s->x.engine;
    uint32_t n, moved = 0;
    assert_int_equal(put(s, 10 * 65536, 0, 'a'), 10 * 65536);
    for (uint32_t tier = FAR; tier < 3; tier++) {
        struct tb_buffer_ref *refs = tb_file_buffers(e, s->file, TB_BUFFERS_ALL, &n);
        for (uint32_t i = 0; i < n; i++)
            moved += tb_move(e, s->file, &refs[i], tier, 0) == 0;
        free(refs);
        assert_int_equal(get(s, 10 * 65536, 0), 10 * 65536);
    }
    assert_int_equal(moved, 20);
    struct tb_buffer_ref *refs = tb_file_buffers(e, s->file, TB_BUFFERS_ALL, &n);
    lent.lost[0] = lent.lost[1] = true;
    for (uint32_t i = 0; i < n; i++)
        assert_int_equal(tb_move(e, s->file, &refs[i], FAR, 0), -EHOSTDOWN);
    assert_int_equal(get(s, 10 * 65536, 0), 10 * 65536);
    free(refs);
    end(s);
}

/* A client is killed in its write: in a new buffer nothing of it is seen, in an old one nothing beside it is touched. */
static void test_a_writer_is_killed(void **state)
{
    (void)state;
    for (int old = 0; old < 2; old++) {
        struct scene *s = begin(TB_MODE_PERSISTENT_ASYNC, TB_POLICY_USER_DEFINED);
        uint64_t used = tb_tier_used(s->x.engine, FAR);
        if (old)
            assert_int_equal(put(s, 4 * 65536, 0, 'a'), 4 * 65536);
        lent.dies_at = *lent.writes + 2;
        tb_engine_atfork_prepare(s->x.engine);
        pid_t child = fork();
        if (child == 0) {
            tb_engine_atfork_child(s->x.engine);
            put(s, 2 * 65536, 65536, 'b');
            _exit(1);
        }
        tb_engine_atfork_parent(s->x.engine);
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status));
        lent.dies_at = 0;
        tb_repair(s->x.engine);
        char *seen = calloc(1, 4 * 65536);
        ssize_t r = TB_IO(s->x.io, pread, s->fd, seen, 4 * 65536, 0);
        assert_int_equal(r, old ? 4 * 65536 : 0);
        for (ssize_t i = 0; i < r; i++)
            assert_true(seen[i] == 'a' || (seen[i] == 'b' && i / 65536 % 3));
        free(seen);
        if (!old)
            assert_int_equal(tb_tier_used(s->x.engine, FAR), used);
        end(s);
    }
}

/* As slow as its model says, which is what placement predicts. */
static void test_it_is_modelled(void **state)
{
    (void)state;
    struct scene *s = begin_with(TB_MODE_PERSISTENT_ASYNC, TB_POLICY_USER_DEFINED, 2 << 20);
    const struct tb_tier_figures f = s->x.engine->placement->tiers.tier[FAR].figures;
    double predicted = f.latency + (512 << 10) / f.bandwidth;
    assert_true(predicted > 0.24 && predicted < 0.26);
    uint64_t begun = tb_now_ns();
    assert_int_equal(put(s, 512 << 10, 0, 'a'), 512 << 10);
    tb_model_settle(true);
    double took = (double)(tb_now_ns() - begun) * 1e-9;
    assert_int_equal(dirty_there(s, 0) + dirty_there(s, 1), 512 << 10);
    if (took < 0.9 * predicted || took > 2 * predicted)
        fail_msg("%.3f s, predicted were %.3f", took, predicted);
    end(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_policy_uses_it),
        cmocka_unit_test(test_a_promise_leaves_it),
        cmocka_unit_test(test_a_node_is_lost),
        cmocka_unit_test(test_nodes_come_and_go),
        cmocka_unit_test(test_moves),
        cmocka_unit_test(test_a_writer_is_killed),
        cmocka_unit_test(test_it_is_modelled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
