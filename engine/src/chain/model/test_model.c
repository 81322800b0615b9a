/* The model keeps its rates: on a simulated machine, so that every run is the same. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "chain/model/device_clock.h"
#include "chain/model/model.h"
#include "sim.h"
#include "text/sizes.h"

#define MS UINT64_C(1000000)
#define OVERSHOOT UINT64_C(70000)

struct load {
    const struct tb_device *device;
    struct tb_device_clock *clock;
    struct tb_io *io;
    size_t bytes;   /* of one operation */
    int operations; /* of one actor */
    uint64_t pause; /* between them, ns */
    int syncs;      /* after each operation */
    bool read, sync_each;
};

static void assert_within(double value, double expected, double fraction)
{
    if (value < expected * (1 - fraction) || value > expected * (1 + fraction))
        fail_msg("%g is not within %g %% of %g", value, fraction * 100, expected);
}

static void transfer(int actor, void *arg)
{
    struct load *load = arg;
    struct tb_io *io = load->io;
    int fd = TB_IO(io, open, "/file", load->sync_each ? O_WRONLY | O_SYNC : O_RDWR, 0);
    (void)actor;
    for (int i = 0; i < load->operations; i++) {
        if (load->read)
            TB_IO(io, pread, fd, NULL, load->bytes, 0);
        else
            TB_IO(io, pwrite, fd, NULL, load->bytes, 0);
        for (int k = 0; k < load->syncs; k++)
            TB_IO(io, fsync, fd, false);
        sim_work(load->pause);
    }
    TB_IO(io, close, fd);
}

/* Seconds that `actors` need for the load over a device, with real work of `work` ns an operation. */
static double seconds_of(struct load load, const struct tb_device *device, int actors, uint64_t work, uint64_t overshoot)
{
    struct tb_device_clock clock = {0};
    load.io = tb_io_model_new(&(struct tb_io_place){device, &clock}, NULL, sim_io(work));
    assert_non_null(load.io);
    uint64_t ns = sim_run(actors, transfer, &load, overshoot);
    load.io->ops->free(load.io);
    return (double)ns * 1e-9;
}

static void rates_hold_for_every_size_and_number_of_writers(void **state)
{
    const struct tb_device device = {.write_bandwidth = 400 * TB_MIB, .read_bandwidth = 800 * TB_MIB, .channels = 1};
    (void)state;
    for (size_t bytes = 4096; bytes <= 16 << 20; bytes *= 4) {
        for (int actors = 1; actors <= 8; actors *= 2) {
            int operations = (int)(80 * TB_MIB / (double)bytes / actors) + 1;
            double total = (double)bytes * operations * actors;
            struct load load = {.bytes = bytes, .operations = operations};
            assert_within(total / seconds_of(load, &device, actors, 1000, OVERSHOOT), 400 * TB_MIB, 0.05);
            load.read = true;
            assert_within(total / seconds_of(load, &device, actors, 1000, OVERSHOOT), 800 * TB_MIB, 0.05);
        }
    }
}

static void oversleeping_costs_no_bandwidth(void **state)
{
    const struct tb_device device = {.write_bandwidth = 400 * TB_MIB, .channels = 1};
    struct load load = {.bytes = 1 << 20, .operations = 80};
    (void)state;
    assert_within(seconds_of(load, &device, 1, 100000, 2 * MS), 0.2, 0.015);
}

/* Runs first: only a process's first operation is one. */
static void the_first_operation_counts_from_its_start(void **state)
{
    const struct tb_device device = {.write_bandwidth = 400 * TB_MIB, .channels = 1};
    struct load load = {.bytes = 40 << 20, .operations = 1};
    (void)state;
    assert_within(seconds_of(load, &device, 1, 30 * MS, 0), 0.1 + 0.06, 0.001); /* and open and close */
}

static void real_time_counts_and_only_slows(void **state)
{
    const struct tb_device device = {.write_bandwidth = 400 * TB_MIB, .channels = 1};
    struct load load = {.bytes = 1 << 20, .operations = 80};
    (void)state;
    assert_within(seconds_of(load, &device, 1, 2 * MS, 0), 0.2, 0.02);   /* hidden by the device's 2.5 ms */
    assert_within(seconds_of(load, &device, 1, 5 * MS, 0), 0.41, 0.001); /* slower than it: open and close count */
    assert_within(seconds_of(load, &device, 4, 100 * MS, 0), 8.2, 0.001);
}

static void slow_then_fast(int actor, void *arg)
{
    struct tb_io *io = arg;
    (void)actor;
    for (int i = 0; i < 40; i++)
        TB_IO(io, pwrite, 3, NULL, 1 << 20, 0);
    sim_io(0);
    for (int i = 0; i < 40; i++)
        TB_IO(io, pwrite, 3, NULL, 1 << 20, 0);
}

static void a_slow_machine_earns_no_credit(void **state)
{
    const struct tb_device device = {.write_bandwidth = 400 * TB_MIB};
    struct tb_device_clock clock = {0};
    struct tb_io *io = tb_io_model_new(&(struct tb_io_place){&device, &clock}, NULL, sim_io(5 * MS));
    (void)state;
    assert_within((double)sim_run(1, slow_then_fast, io, 0) * 1e-9, 40 * 5e-3 + 40 * 2.5e-3, 0.01);
    io->ops->free(io);
}

static void computing_is_neither_credit_nor_payment(void **state)
{
    const struct tb_device device = {.write_bandwidth = 400 * TB_MIB, .channels = 1};
    struct load small = {.bytes = 4096, .operations = 5000, .pause = 20000}; /* 10 us of device, 20 us of computing */
    struct load large = {.bytes = 1 << 20, .operations = 40, .pause = 50 * MS};
    (void)state;
    double device_seconds = 5000 * 4096 / (400 * TB_MIB);
    assert_within(seconds_of(small, &device, 1, 0, OVERSHOOT), device_seconds + 0.1, 0.03);
    assert_within(seconds_of(large, &device, 1, 0, OVERSHOOT), 40 * 0.0525, 0.01);
}

static void write_for_200_ms(int actor, void *arg)
{
    struct load *load = arg;
    uint64_t end = sim_now() + 200 * MS;
    (void)actor;
    for (; sim_now() < end; load->operations++)
        TB_IO(load->io, pwrite, 3, NULL, load->bytes, 0);
}

/* Operations per second of `actors` together, over 200 ms. */
static double operations_rate(const struct tb_device *device, int actors)
{
    struct tb_device_clock clock = {0};
    struct load load = {.bytes = 4096, .io = tb_io_model_new(&(struct tb_io_place){device, &clock}, NULL, sim_io(1000))};
    sim_run(actors, write_for_200_ms, &load, OVERSHOOT);
    load.io->ops->free(load.io);
    return load.operations / 0.2;
}

static void channels_hide_latency_from_many_not_from_one(void **state)
{
    struct tb_device device = {.write_latency = 100e-6, .channels = 1};
    (void)state;
    assert_within(operations_rate(&device, 1), 10000, 0.05);
    assert_within(operations_rate(&device, 4), 10000, 0.05);
    device.channels = 4;
    assert_within(operations_rate(&device, 1), 10000, 0.05);
    assert_within(operations_rate(&device, 4), 40000, 0.05);
    assert_within(operations_rate(&device, 8), 40000, 0.05);
}

static void only_syncs_of_something_cost(void **state)
{
    const struct tb_device device = {.sync_time = 10e-3, .channels = 4};
    struct load load = {.bytes = 4096, .operations = 20, .syncs = 3};
    (void)state;
    assert_within(seconds_of(load, &device, 1, 0, OVERSHOOT), 0.2, 0.01);
    assert_within(seconds_of(load, &device, 2, 0, OVERSHOOT), 0.4, 0.01);
    load.syncs = 0;
    load.sync_each = true;
    assert_within(seconds_of(load, &device, 1, 0, OVERSHOOT), 0.2, 0.01);
}

/* The time of one step of a test that has a single actor. */
#define TOOK(step)                            \
    __extension__({                           \
        uint64_t before_ = sim_now();         \
        step;                                 \
        (double)(sim_now() - before_) * 1e-9; \
    })

static void duplicates(int actor, void *arg)
{
    struct tb_io *io = arg;
    (void)actor;
    int fd = TB_IO(io, open, "/file", O_RDWR, 0);
    TB_IO(io, dup, fd, 7);
    TB_IO(io, pwrite, fd, NULL, 1, 0);
    assert_within(TOOK(TB_IO(io, fsync, 7, true)), 10e-3, 0.01);
    assert_within(TOOK(TB_IO(io, fsync, fd, true)), 0, 0);
    TB_IO(io, pwrite, 7, NULL, 1, 0);
    TB_IO(io, close, fd);
    assert_within(TOOK(TB_IO(io, fsync, 7, true)), 10e-3, 0.01);
    TB_IO(io, close, 7);
}

static void duplicates_share_what_was_written(void **state)
{
    const struct tb_device device = {.sync_time = 10e-3};
    struct tb_device_clock clock = {0};
    struct tb_io *io = tb_io_model_new(&(struct tb_io_place){&device, &clock}, NULL, sim_io(0));
    (void)state;
    sim_run(1, duplicates, io, 0);
    io->ops->free(io);
}

static void opens(int actor, void *arg)
{
    struct tb_io *io = arg;
    int fd = TB_IO(io, open, "/new", O_CREAT | O_WRONLY, 0600);
    TB_IO(io, close, fd);
    fd = TB_IO(io, open, "/old", O_RDONLY, 0);
    TB_IO(io, close, fd);
    (void)actor;
}

static void metadata_has_a_clock_of_its_own(void **state)
{
    const struct tb_device device = {.open_time = 5e-3, .metadata_time = 2e-3, .write_bandwidth = 1};
    struct tb_device_clock clock = {0};
    struct tb_io *io = tb_io_model_new(&(struct tb_io_place){&device, &clock}, NULL, sim_io(0));
    (void)state;
    tb_model_charge(&device, &clock, TB_CHARGE_WRITE, 1000); /* busy for long: not waited for */
    tb_model_set_time(NULL);
    assert_within((double)sim_run(4, opens, io, 0) * 1e-9, 4 * 7e-3, 0.01);
    io->ops->free(io);
}

/* Over libc, as no simulated machine has names: only the model's time is looked at. */
static void ask_for_names(int actor, void *arg)
{
    struct tb_io *io = arg;
    const double asked = 2e-3;
    char text[PATH_MAX];
    struct stat st;
    struct statx x;
    struct dirent *entry;
    DIR *directory;
    (void)actor;
    assert_within(TOOK(TB_IO(io, readlink, "/proc/self", text, sizeof(text))), asked, 0.001);
    assert_within(TOOK(TB_IO(io, realpath, "/tmp", text)), asked, 0.001);
    assert_within(TOOK(TB_IO(io, access, "/tmp", F_OK, AT_EACCESS)), asked, 0.001);
    assert_within(TOOK(TB_IO(io, stat, "/tmp", &st, 0)), asked, 0.001);
    assert_within(TOOK(TB_IO(io, symlink, "text", "/no such/link")), asked, 0.001); /* failed: asked all the same */
    assert_within(TOOK(TB_IO(io, chmod, "/no such", 0600, 0)), asked, 0.001);
    assert_within(TOOK(TB_IO(io, chown, "/no such", getuid(), getgid(), AT_SYMLINK_NOFOLLOW)), asked, 0.001);
    assert_within(TOOK(TB_IO(io, utimens, "/no such", NULL, AT_SYMLINK_NOFOLLOW)), asked, 0.001);
    assert_within(TOOK(TB_IO(io, mknod, "/no such/fifo", S_IFIFO | 0600, 0)), asked, 0.001);
    assert_within(TOOK(TB_IO(io, opendir, "/tmp", &directory)), asked, 0.001);
    assert_within(TOOK(TB_IO(io, readdir, directory, &entry)), 0, 0);
    assert_within(TOOK(TB_IO(io, closedir, directory)), 0, 0);
    assert_within(TOOK(TB_IO(io, statx, "/tmp", 0, STATX_BASIC_STATS, &x)), 0, 0);
}

static void operations_on_names_ask_the_server(void **state)
{
    const struct tb_device device = {.metadata_time = 2e-3};
    struct tb_device_clock clock = {0};
    struct tb_io *io = tb_io_model_new(&(struct tb_io_place){&device, &clock}, NULL, tb_io_libc());
    (void)state;
    sim_run(1, ask_for_names, io, 0);
    io->ops->free(io);
}

struct deferring {
    const struct tb_device *device;
    struct tb_device_clock *clock;
};

static void defer(int actor, void *arg)
{
    struct deferring *d = arg;
    (void)actor;
    double deferred = TOOK({
        tb_model_defer_begin();
        tb_model_charge(d->device, d->clock, TB_CHARGE_WRITE, 4 << 20);
        tb_model_defer_begin();
        tb_model_charge(d->device, d->clock, TB_CHARGE_WRITE, 4 << 20);
        tb_model_defer_end();
        tb_model_settle(true);
        sim_work(3 * MS);
        tb_model_defer_end();
    });
    assert_within(deferred, 3e-3, 0);                           /* no sleep while deferring */
    assert_true(tb_model_queue(d->clock, tb_model_now()) == 0); /* all of it is this thread's */
    assert_within(TOOK(tb_model_settle(false)), 17e-3, 0.001);  /* the work inside counted */
    assert_within(TOOK(tb_model_settle(true)), 0, 0);
    tb_model_charge(d->device, d->clock, TB_CHARGE_WRITE, 4096);
    assert_within(TOOK(tb_model_settle(false)), 0, 0); /* too little to sleep for */
    assert_in_range(TOOK(tb_model_settle(true)) * 1e9, 9000, 10000);
}

static void deferring_reserves_and_settling_pays(void **state)
{
    const struct tb_device device = {.write_bandwidth = 400 * TB_MIB};
    struct tb_device_clock clock = {0};
    struct deferring arg = {&device, &clock};
    (void)state;
    sim_run(1, defer, &arg, 0);
}

struct two_devices {
    const struct tb_device *fast, *slow;
    struct tb_device_clock *fast_clock, *slow_clock;
};

/* Actor 0 writes to both devices at once; actor 1, which comes later, sees their queues. */
static void write_together(int actor, void *arg)
{
    struct two_devices *d = arg;
    if (actor == 1) {
        sim_work(1 * MS);
        assert_within(tb_model_queue(d->fast_clock, tb_model_now()), 9e-3, 0.001);
        assert_within(tb_model_queue(d->slow_clock, tb_model_now()), 19e-3, 0.001);
        return;
    }
    assert_true(tb_model_queue(d->fast_clock, tb_model_now()) == 0);
    tb_model_defer_begin();
    tb_model_together_begin();
    tb_model_charge(d->fast, d->fast_clock, TB_CHARGE_WRITE, 2 << 20);
    tb_model_charge(d->slow, d->slow_clock, TB_CHARGE_WRITE, 4 << 20);
    tb_model_charge(d->fast, d->fast_clock, TB_CHARGE_WRITE, 2 << 20);
    assert_within(tb_model_queue(d->slow_clock, tb_model_now()), 20e-3, 0.001); /* for what begins with them */
    tb_model_together_end();
    tb_model_defer_end();
    assert_within(TOOK(tb_model_settle(true)), 20e-3, 0.001); /* the slowest's time, not the sum */
    assert_true(tb_model_queue(d->slow_clock, tb_model_now()) == 0);
}

static void together_takes_the_time_of_the_slowest(void **state)
{
    const struct tb_device fast = {.write_bandwidth = 400 * TB_MIB}, slow = {.write_bandwidth = 200 * TB_MIB};
    struct tb_device_clock fast_clock = {0}, slow_clock = {0};
    struct two_devices arg = {&fast, &slow, &fast_clock, &slow_clock};
    (void)state;
    tb_model_start();
    sim_run(2, write_together, &arg, 0);
}

/* On the real clock: the parent's debt of an hour must not hold up its child. */
static void a_child_does_not_pay_its_parents_debt(void **state)
{
    const struct tb_device device = {.write_bandwidth = 1};
    struct tb_device_clock clock = {0};
    int status;
    (void)state;
    pid_t inner = fork();
    if (inner == 0) {
        tb_model_start();
        tb_model_charge(&device, &clock, TB_CHARGE_WRITE, 3600);
        pid_t child = fork();
        if (child == 0) {
            alarm(20);
            tb_model_settle(true);
            _exit(0);
        }
        _exit(waitpid(child, &status, 0) == child && status == 0 ? 0 : 1);
    }
    assert_int_equal(waitpid(inner, &status, 0), inner);
    assert_int_equal(status, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_operation_counts_from_its_start),
        cmocka_unit_test(rates_hold_for_every_size_and_number_of_writers),
        cmocka_unit_test(oversleeping_costs_no_bandwidth),
        cmocka_unit_test(real_time_counts_and_only_slows),
        cmocka_unit_test(a_slow_machine_earns_no_credit),
        cmocka_unit_test(computing_is_neither_credit_nor_payment),
        cmocka_unit_test(channels_hide_latency_from_many_not_from_one),
        cmocka_unit_test(only_syncs_of_something_cost),
        cmocka_unit_test(duplicates_share_what_was_written),
        cmocka_unit_test(metadata_has_a_clock_of_its_own),
        cmocka_unit_test(operations_on_names_ask_the_server),
        cmocka_unit_test(deferring_reserves_and_settling_pays),
        cmocka_unit_test(together_takes_the_time_of_the_slowest),
        cmocka_unit_test(a_child_does_not_pay_its_parents_debt),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
