/*
 * Reads of bytes that are in several tiers: devices are told first, work side by side, no byte is copied in vain, and
 * what is read again goes up only as long as that makes the read faster. The layer below notes what slabs are asked for.
 */
#include "fixture.h"

#include "buffer/slab.h"
#include "chain/model/device_clock.h"
#include "io/io_layer.h"
#include "region/counters.h"

#define UNIT 65536u
#define UNITS 4u
#define MS UINT64_C(1000000)

static struct {
    struct tb_io io;
    struct tb_io_ops ops;
    char log[64]; /* a letter for each call on a slab: w, told what will be read; r, read */
    unsigned n;
} below;

static uint64_t now_ns = 1000000 * MS;

static uint64_t fake_now(void)
{
    return now_ns;
}

static void fake_sleep(uint64_t until)
{
    now_ns = until > now_ns ? until : now_ns;
}

static void note(int fd, char letter)
{
    char link[64], path[600] = "";
    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    if (readlink(link, path, sizeof(path) - 1) > 0 && !strstr(path, "/pfs/") && below.n + 1 < sizeof(below.log))
        below.log[below.n++] = letter;
    below.log[below.n] = '\0';
}

static int noted_will_read(struct tb_io *io, int fd, off_t offset, size_t n)
{
    note(fd, 'w');
    return TB_IO(io->next, will_read, fd, offset, n);
}

static ssize_t noted_pread(struct tb_io *io, int fd, void *buf, size_t n, off_t offset)
{
    note(fd, 'r');
    return TB_IO(io->next, pread, fd, buf, n, offset);
}

static const struct tb_device device = {.read_bandwidth = 64 * UNIT, .write_bandwidth = 64 * UNIT, .channels = 1};

/* Two equally fast tiers with buffers of one unit; the policy says which unit of the file goes where. */
static int start(struct fixture *x, enum tb_policy policy, bool known)
{
    static const struct tb_io_ops ops = {.name = "below", .pread = noted_pread, .will_read = noted_will_read};
    static const struct tb_model_time time = {fake_now, fake_sleep};
    struct tb_config *c = &x->config;
    fixture_init(x, TB_MODE_PERSISTENT_ASYNC);
    c->max_files = 16;
    c->n_tiers = 2;
    for (int t = 0; t < 2; t++) {
        c->tiers[t].n_slabs = 0;
        c->tiers[t].block = UNIT;
        fixture_slab(&c->tiers[t], 1, 1.0);
        c->tiers[t].modelled = known;
        c->tiers[t].model = device;
    }
    c->placement.policy = policy;
    c->placement.n_rules = 1;
    snprintf(c->placement.rules[0].pattern, sizeof(c->placement.rules[0].pattern), "*");
    c->placement.rules[0].at_most = UINT64_MAX;
    c->placement.rules[0].n_tiers = 1;
    c->placement.rules[0].tier[0] = 1;
    tb_io_layer_init(&below.io, &below.ops, &ops, tb_io_libc());
    x->base = &below.io;
    tb_model_set_time(&time);
    fixture_start(x);
    int fd = TB_IO(x->io, open, fixture_path(x, "f"), O_RDWR | O_CREAT, 0600);
    assert_true(fd >= 0);
    return fd;
}

static void stop(struct fixture *x, int fd)
{
    assert_int_equal(TB_IO(x->io, close, fd), 0);
    fixture_stop(x);
    tb_model_set_time(NULL);
}

static void put(struct fixture *x, int fd, unsigned unit)
{
    char bytes[UNIT];
    memset(bytes, 'a' + (int)unit, sizeof(bytes));
    assert_int_equal(TB_IO(x->io, pwrite, fd, bytes, UNIT, (off_t)unit * UNIT), UNIT);
}

/* In one call, from unit `first` on; a unit that was not written is zeros. Returns how long it took, in units of a tier. */
static double get(struct fixture *x, int fd, unsigned first, unsigned n, const char *expected)
{
    static char bytes[UNITS * UNIT];
    uint64_t began = now_ns;
    below.n = 0;
    below.log[0] = '\0';
    assert_int_equal(TB_IO(x->io, pread, fd, bytes, n * UNIT, (off_t)first * UNIT), n * UNIT);
    for (unsigned i = 0; i < n; i++)
        for (unsigned k = 0; k < UNIT; k += UNIT - 1)
            assert_int_equal(bytes[i * UNIT + k], expected[i] == '-' ? 0 : expected[i]);
    return (double)(now_ns - began) / (1e9 / 64);
}

static uint64_t units_in(const struct fixture *x, uint32_t tier)
{
    return tb_tier_used(x->engine, tier) / UNIT;
}

static uint64_t units_read_from_memory(const struct fixture *x)
{
    struct tb_stats stats;
    tb_engine_stats(x->engine, &stats);
    return stats.tier[0].bytes_out / UNIT;
}

/* Round robin: units 0 and 2 in memory, 1 and 3 in the directory. */
static void tiers_are_read_side_by_side(void **state)
{
    (void)state;
    struct fixture x;
    int fd = start(&x, TB_POLICY_ROUND_ROBIN, true);
    for (unsigned i = 0; i < UNITS; i++)
        put(&x, fd, i);
    assert_int_equal(units_in(&x, 0), 2);
    double took = get(&x, fd, 0, UNITS, "abcd");
    assert_string_equal(below.log, "wwrr");
    assert_true(took > 1.9 && took < 2.1); /* one after the other: 4 */
    assert_int_equal(units_read_from_memory(&x), 2);
    stop(&x, fd);
}

static void one_buffer_and_memory_alone_are_just_read(void **state)
{
    (void)state;
    struct fixture x;
    int fd = start(&x, TB_POLICY_ROUND_ROBIN, true);
    for (unsigned i = 0; i < UNITS; i++)
        put(&x, fd, i);
    get(&x, fd, 1, 1, "b");
    assert_string_equal(below.log, "r");
    get(&x, fd, 2, 1, "c");
    assert_string_equal(below.log, "");
    stop(&x, fd);
}

/* The model must not take a read of the PFS for one that began with the others. */
static void a_read_that_the_pfs_serves_begins_nothing(void **state)
{
    (void)state;
    struct fixture x;
    int fd = start(&x, TB_POLICY_ROUND_ROBIN, true);
    put(&x, fd, 0);
    put(&x, fd, 1);
    put(&x, fd, 3);
    get(&x, fd, 0, UNITS, "ab-d");
    assert_string_equal(below.log, "r");
    stop(&x, fd);
}

/* All four in the directory, read until nothing goes up any more. */
static uint64_t units_that_went_up(bool known)
{
    struct fixture x;
    int fd = start(&x, TB_POLICY_USER_DEFINED, known);
    for (unsigned i = 0; i < UNITS; i++)
        put(&x, fd, i);
    assert_int_equal(units_in(&x, 1), UNITS);
    for (int i = 0; i < 8; i++)
        get(&x, fd, 0, UNITS, "abcd");
    uint64_t up = units_in(&x, 0);
    for (int i = 0; i < 8; i++) /* by itself each goes up */
        get(&x, fd, 3, 1, "d");
    assert_true(units_in(&x, 0) >= up && units_in(&x, 0) <= up + 1);
    stop(&x, fd);
    return up;
}

static void as_many_go_up_as_make_a_read_faster(void **state)
{
    (void)state;
    assert_int_equal(units_that_went_up(true), UNITS / 2);
    assert_int_equal(units_that_went_up(false), UNITS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tiers_are_read_side_by_side),
        cmocka_unit_test(one_buffer_and_memory_alone_are_just_read),
        cmocka_unit_test(a_read_that_the_pfs_serves_begins_nothing),
        cmocka_unit_test(as_many_go_up_as_make_a_read_faster),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
