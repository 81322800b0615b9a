/* Every device of configs/devices can be read, says where its numbers come from, and is what programs get: by fake clock. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "chain/model/model.h"
#include "config/config.h"
#include "sim.h"

#define OVERSHOOT UINT64_C(70000)
#define SECONDS 0.2
#define OPERATIONS_MAX 8000 /* of all actors: the fastest devices are watched for less than 200 ms */

enum kind { WRITE, READ, SYNC, CREATE, STAT, N_KINDS };
static const char *const kind_names[N_KINDS] = {"write", "read", "sync", "create", "stat"};

struct load {
    enum kind kind;
    size_t bytes;
    int operations; /* left, of all actors together: none is alone at the end */
    struct tb_io *io;
};

/* What one operation takes: time of the device, and time of a process that is alone with it.  Stated apart from the model's own code. */
struct expected {
    double busy, whole;
};

static struct expected expect(const struct tb_device *d, enum kind kind, size_t bytes)
{
    double latency = kind == READ ? d->read_latency : d->write_latency;
    double bandwidth = kind == READ ? d->read_bandwidth : d->write_bandwidth;
    double transfer = bandwidth > 0 ? (double)bytes / bandwidth : 0;
    if (kind == SYNC)
        return (struct expected){d->sync_time, d->sync_time};
    if (kind == CREATE)
        return (struct expected){d->open_time, d->open_time};
    if (kind == STAT)
        return (struct expected){d->metadata_time, d->metadata_time};
    return (struct expected){latency / d->channels + transfer, latency + transfer};
}

static void operate(struct tb_io *io, int fd, enum kind kind, size_t bytes)
{
    struct stat st;
    switch (kind) {
    case READ: TB_IO(io, pread, fd, NULL, bytes, 0); break;
    case CREATE: TB_IO(io, open, "/new", O_CREAT | O_EXCL | O_WRONLY, 0600); break; /* not closed: that would pay at once */
    case STAT: TB_IO(io, stat, "/file", &st, 0); break;
    default:
        TB_IO(io, pwrite, fd, NULL, bytes, 0);
        if (kind == SYNC)
            TB_IO(io, fsync, fd, false);
    }
}

static void work_through(int actor, void *arg)
{
    struct load *load = arg; /* each actor has a file of its own */
    while (load->operations-- > 0)
        operate(load->io, 3 + actor, load->kind, load->bytes);
    tb_model_settle(true);
}

static double larger(double a, double b)
{
    return a > b ? a : b;
}

static void check_rate(const char *file, const struct tb_device *device, enum kind kind, size_t bytes, int actors)
{
    struct tb_device_clock clock = {0};
    struct expected one = expect(device, kind, bytes);
    double each = larger(one.busy, one.whole / actors);
    if (each == 0)
        return;
    int rounds = (int)(SECONDS / each / actors) + 1;
    int n = (rounds < OPERATIONS_MAX / actors ? rounds : OPERATIONS_MAX / actors) * actors;
    struct load load = {
        .kind = kind, .bytes = bytes, .operations = n, .io = tb_io_model_new(&(struct tb_io_place){device, &clock}, NULL, sim_io(0))};
    double took = (double)sim_run(actors, work_through, &load, OVERSHOOT) * 1e-9, should = n * each;
    load.io->ops->free(load.io);
    if (took < should * 0.95 || took > should * 1.05)
        fail_msg("%s: %d operations by %d: %s of %zu bytes took %g s; %g s are right", file, n, actors, kind_names[kind], bytes, took,
                 should);
}

static void check_device(const char *file)
{
    struct tb_device device;
    struct tb_error err = {""};
    if (tb_device_read(file, &device, &err))
        fail_msg("%s", err.text);
    struct tb_device only_sync = {.sync_time = device.sync_time, .channels = device.channels}; /* there must be something to sync */
    assert_true(device.read_bandwidth > 0 && device.write_bandwidth > 0 && device.channels > 0);
    for (int actors = 1; actors <= 8; actors *= 2) {
        for (size_t bytes = 4096; bytes <= 16 << 20; bytes *= 16) {
            check_rate(file, &device, WRITE, bytes, actors);
            check_rate(file, &device, READ, bytes, actors);
        }
        check_rate(file, &only_sync, SYNC, 4096, actors);
        check_rate(file, &device, CREATE, 0, actors);
        check_rate(file, &device, STAT, 0, actors);
    }
}

static const char *devices(void)
{
    static char pattern[512];
    const char *root = getenv("TB_SOURCE_DIR");
    snprintf(pattern, sizeof(pattern), "%s/configs/devices/*.yaml", root ? root : ".");
    return pattern;
}

static void every_device_holds_its_rates(void **state)
{
    glob_t found;
    (void)state;
    assert_int_equal(glob(devices(), 0, NULL, &found), 0);
    assert_true(found.gl_pathc >= 5);
    for (size_t i = 0; i < found.gl_pathc; i++)
        check_device(found.gl_pathv[i]);
    globfree(&found);
}

static void every_device_says_its_source(void **state)
{
    glob_t found;
    char text[4096];
    (void)state;
    assert_int_equal(glob(devices(), 0, NULL, &found), 0);
    for (size_t i = 0; i < found.gl_pathc; i++) {
        FILE *f = fopen(found.gl_pathv[i], "r");
        assert_non_null(f);
        text[fread(text, 1, sizeof(text) - 1, f)] = 0;
        fclose(f);
        if (!strstr(text, "\nsource: "))
            fail_msg("%s: has no source", found.gl_pathv[i]);
    }
    globfree(&found);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_device_holds_its_rates),
        cmocka_unit_test(every_device_says_its_source),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
