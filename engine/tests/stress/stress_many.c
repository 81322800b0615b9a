/*
 * Many files, many descriptors: every small file buffered at once, read back,
 * drained, unlinked; then nothing is left in use.  As many descriptors as a
 * process of 1,024 may have; more files than max_files, which pass through.
 */
#include "instance/drain.h"
#include "stress.h"
#include "text/sizes.h"

#include <sys/resource.h>

#define BYTES 4096
#define PER_DIRECTORY 1000

static void name_of(const struct fixture *x, uint32_t i, char *out, size_t size)
{
    snprintf(out, size, "%s/d%u/file-%u", x->pfs, i / PER_DIRECTORY, i);
}

static void make_one(struct worker *w, uint32_t i)
{
    unsigned char bytes[BYTES];
    char path[512];
    name_of(w->x, i, path, sizeof(path));
    stamp_block(bytes, BYTES, 1, i, 0);
    int fd = TB_IO(w->io, open, path, O_WRONLY | O_CREAT | O_EXCL, 0600);
    must(fd >= 0, "open %s: %d", path, fd);
    must(TB_IO(w->io, write, fd, bytes, BYTES) == BYTES, "write %s", path);
    must(TB_IO(w->io, close, fd) == 0, "close %s", path);
}

static void check_one(struct worker *w, uint32_t i)
{
    unsigned char bytes[BYTES + 1];
    struct stamp s;
    char path[512];
    name_of(w->x, i, path, sizeof(path));
    int fd = TB_IO(w->io, open, path, O_RDONLY, 0);
    must(fd >= 0, "open %s: %d", path, fd);
    ssize_t n = TB_IO(w->io, read, fd, bytes, sizeof(bytes));
    must(n == BYTES && stamp_read(bytes, BYTES, 0, &s) && s.serial == i, "%s: %zd bytes", path, n);
    must(TB_IO(w->io, close, fd) == 0, "close %s", path);
}

static void remove_one(struct worker *w, uint32_t i)
{
    char path[512];
    name_of(w->x, i, path, sizeof(path));
    must(TB_IO(w->io, unlink, path, 0) == 0, "unlink %s", path);
}

#define WORKERS 2
struct many {
    uint32_t n;
    uint32_t step;
    void (*act)(struct worker *, uint32_t);
};

static void act_on_each(struct worker *w)
{
    const struct many *m = w->arg;
    for (uint32_t i = (uint32_t)w->id * m->step; i < m->n; i += m->step * WORKERS)
        m->act(w, i);
}

static void on_each(struct fixture *x, uint32_t n, uint32_t step, void (*act)(struct worker *, uint32_t))
{
    struct many m = {n, step, act};
    run_workers(x, WORKERS, false, act_on_each, &m);
}

static uint64_t metadata_of(struct fixture *x)
{
    const struct tb_layout *l = tb_layout_of(x->engine);
    return l->total_bytes - l->section[TB_SECTION_DATA].bytes;
}

/* Memory for all of them: one small buffer a file. */
static void configure_for(struct fixture *x, uint32_t n)
{
    fixture_init(x, TB_MODE_PERSISTENT_ASYNC);
    x->config.max_files = n;
    x->config.fsync = TB_FSYNC_PFS;
    x->config.n_tiers = 1;
    x->config.tiers[0].n_slabs = 0;
    fixture_slab(&x->config.tiers[0], 1, 1.0);
    x->config.tiers[0].capacity = (uint64_t)n * (BYTES + 300) + (16u << 20);
}

static void check_on_pfs(struct fixture *x, uint32_t n)
{
    unsigned char bytes[BYTES + 1];
    struct stamp s;
    char path[512];
    for (uint32_t i = 0; i < n; i++) {
        name_of(x, i, path, sizeof(path));
        int fd = open(path, O_RDONLY);
        must(fd >= 0 && read(fd, bytes, sizeof(bytes)) == BYTES && stamp_read(bytes, BYTES, 0, &s) && s.serial == i, "%s on the PFS", path);
        close(fd);
    }
}

static void many_files(void **state)
{
    (void)state;
    struct fixture x;
    struct tb_stats stats;
    uint32_t n = (uint32_t)stress_amount(20000);
    char path[512];
    configure_for(&x, n);
    fixture_start(&x);
    for (uint32_t d = 0; d <= n / PER_DIRECTORY; d++) {
        snprintf(path, sizeof(path), "%s/d%u", x.pfs, d);
        assert_int_equal(TB_IO(x.io, mkdir, path, 0700), 0);
    }
    on_each(&x, n, 1, make_one);
    tb_engine_stats(x.engine, &stats);
    assert_int_equal(stats.n_files, n);
    assert_int_equal(stats.n_dirty_files, n);
    assert_int_equal(stats.tier[0].used, (uint64_t)n * BYTES);
    assert_int_equal(stats.pfs_bytes_written, 0);
    print_message("%u buffered files: %.1f MiB of metadata\n", n, (double)metadata_of(&x) / TB_MIB);
    if (n >= 1000000)
        assert_true(metadata_of(&x) < 256u << 20);
    on_each(&x, n, 7, check_one);
    assert_int_equal(tb_instance_drain(x.engine, 2, NULL, NULL, NULL), 0);
    check_on_pfs(&x, n);
    on_each(&x, n, 1, remove_one);
    assert_true(tb_region_is_valid(x.engine));
    tb_engine_stats(x.engine, &stats);
    assert_int_equal(stats.n_files, 0);
    assert_int_equal(stats.tier[0].used + stats.tier[0].dirty, 0);
    fixture_stop(&x);
}

/* Up to the process's limit, each one a description of its own; what no slot is left for passes through. */
static void many_descriptors(void **state)
{
    (void)state;
    struct fixture x;
    struct tb_stats stats;
    struct rlimit limit = {1024, 1024}, before;
    static int fd[1024];
    unsigned char bytes[64];
    int n = 0;
    struct stamp s;
    fixture_init(&x, TB_MODE_PERSISTENT_ASYNC);
    x.config.max_files = 2048;
    x.config.tiers[0].capacity = 16u << 20;
    fixture_start(&x);
    getrlimit(RLIMIT_NOFILE, &before);
    limit.rlim_max = before.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    char name[32];
    for (; n < 1024; n++) {
        snprintf(name, sizeof(name), "f%d", n % 700); /* some files twice */
        fd[n] = TB_IO(x.io, open, fixture_path(&x, name), O_RDWR | O_CREAT, 0600);
        if (fd[n] < 0)
            break;
        stamp_block(bytes, sizeof(bytes), 2, (uint32_t)n, 0);
        assert_int_equal(TB_IO(x.io, pwrite, fd[n], bytes, sizeof(bytes), (off_t)(n * 100)), sizeof(bytes));
    }
    assert_int_equal(fd[n], -EMFILE);
    assert_true(n > 1000);
    for (int i = 0; i < n; i++) {
        assert_int_equal(TB_IO(x.io, pread, fd[i], bytes, sizeof(bytes), (off_t)(i * 100)), sizeof(bytes));
        assert_true(stamp_read(bytes, sizeof(bytes), 0, &s) && s.serial == (uint32_t)i);
    }
    for (int i = 0; i < n; i++)
        assert_int_equal(TB_IO(x.io, close, fd[i]), 0);
    setrlimit(RLIMIT_NOFILE, &before);
    assert_int_equal(tb_instance_drain(x.engine, 2, NULL, NULL, NULL), 0);
    tb_engine_stats(x.engine, &stats);
    assert_int_equal(stats.n_dirty_files, 0);
    assert_true(tb_region_is_valid(x.engine));
    fixture_stop(&x);
}

/* The table is full: what comes on top is as right as the rest. */
static void more_than_max_files(void **state)
{
    (void)state;
    struct fixture x;
    struct tb_stats stats;
    uint32_t n = 3000;
    configure_for(&x, 1024);
    x.config.tiers[0].capacity = 16u << 20;
    fixture_start(&x);
    uint32_t most = x.engine->region.n_file_buckets;
    assert_true(most < n);
    for (uint32_t d = 0; d <= n / PER_DIRECTORY; d++) {
        char path[512];
        snprintf(path, sizeof(path), "%s/d%u", x.pfs, d);
        assert_int_equal(TB_IO(x.io, mkdir, path, 0700), 0);
    }
    on_each(&x, n, 1, make_one);
    on_each(&x, n, 1, check_one);
    tb_engine_stats(x.engine, &stats);
    assert_int_equal(stats.n_files, most);
    assert_int_equal(stats.passed, 2 * (n - most)); /* made, and read */
    assert_int_equal(tb_instance_drain(x.engine, 2, NULL, NULL, NULL), 0);
    check_on_pfs(&x, n);
    on_each(&x, n, 1, remove_one);
    tb_engine_stats(x.engine, &stats);
    assert_int_equal(stats.n_files, 0);
    assert_true(tb_region_is_valid(x.engine));
    fixture_stop(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(many_files),
        cmocka_unit_test(many_descriptors),
        cmocka_unit_test(more_than_max_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
