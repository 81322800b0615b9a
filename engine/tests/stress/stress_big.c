/*
 * Files that are large because of where their bytes are: sparse, to 2^43 and,
 * where the file system goes so far, to 2^63.  A twin beside the managed folder
 * gets the same calls by libc alone: results, errors, sizes and, after the
 * drain, bytes must be the same.
 */
#include "instance/drain.h"
#include "stress.h"

#define BLOCK 3000u

struct twins {
    struct fixture x;
    char path[512], twin_path[512];
    int fd, twin;
};

static const uint64_t edges[] = {
    (1ull << 31) - 10,    (1ull << 31),      (1ull << 32) - 10,   1ull << 32,          (1ull << 40) - 10, 1ull << 40,
    (1ull << 40) + 12345, (1ull << 43) - 10, (1ull << 44) - 4106, (1ull << 44) - 4096, 1ull << 44,        1ull << 50,
    (1ull << 62) - 10,    1ull << 62,        INT64_MAX - 10000,   INT64_MAX - 10,      INT64_MAX,
};
#define N_EDGES (sizeof(edges) / sizeof(edges[0]))

static void start_twins(struct twins *t, const char *folder)
{
    if (folder)
        setenv("TMPDIR", folder, 1);
    fixture_init(&t->x, TB_MODE_PERSISTENT_ASYNC);
    fixture_start(&t->x);
    snprintf(t->path, sizeof(t->path), "%s/big", t->x.pfs);
    snprintf(t->twin_path, sizeof(t->twin_path), "%s/twin", t->x.root);
    t->fd = TB_IO(t->x.io, open, t->path, O_RDWR | O_CREAT, 0600);
    t->twin = open(t->twin_path, O_RDWR | O_CREAT, 0600);
    assert_true(t->fd >= 0 && t->twin >= 0);
}

static void stop_twins(struct twins *t)
{
    assert_int_equal(TB_IO(t->x.io, close, t->fd), 0);
    close(t->twin);
    assert_true(tb_region_is_valid(t->x.engine));
    fixture_stop(&t->x);
}

static ssize_t rc_of(ssize_t rc)
{
    return rc < 0 ? -errno : rc;
}

static void same_size(const struct twins *t)
{
    struct stat a, b;
    assert_int_equal(TB_IO(t->x.io, fstat, t->fd, &a), 0);
    assert_int_equal(fstat(t->twin, &b), 0);
    assert_int_equal(a.st_size, b.st_size);
}

static void same_write(const struct twins *t, uint64_t at, size_t n, uint32_t serial)
{
    unsigned char bytes[BLOCK];
    stamp_block(bytes, sizeof(bytes), 1, serial, at);
    ssize_t a = TB_IO(t->x.io, pwrite, t->fd, bytes, n, (off_t)at), b = rc_of(pwrite(t->twin, bytes, n, (off_t)at));
    if (a != b)
        fail_msg("write of %zu at %llu: %zd, not %zd", n, (unsigned long long)at, a, b);
    same_size(t);
}

static void same_read(const struct twins *t, uint64_t at, size_t n)
{
    static unsigned char a[1 << 16], b[1 << 16];
    ssize_t got = TB_IO(t->x.io, pread, t->fd, a, n, (off_t)at), expected = rc_of(pread(t->twin, b, n, (off_t)at));
    if (got != expected)
        fail_msg("read of %zu at %llu: %zd, not %zd", n, (unsigned long long)at, got, expected);
    if (expected > 0)
        assert_memory_equal(a, b, (size_t)expected);
}

static void same_seek(const struct twins *t, off_t at, int whence)
{
    off_t a = TB_IO(t->x.io, lseek, t->fd, at, whence), b = rc_of(lseek(t->twin, at, whence));
    if (a != b)
        fail_msg("seek to %lld from %d: %lld, not %lld", (long long)at, whence, (long long)a, (long long)b);
}

static void same_truncate(const struct twins *t, uint64_t length)
{
    int a = TB_IO(t->x.io, ftruncate, t->fd, (off_t)length), b = (int)rc_of(ftruncate(t->twin, (off_t)length));
    if (a != b)
        fail_msg("truncate to %llu: %d, not %d", (unsigned long long)length, a, b);
    same_size(t);
}

/* The bytes of both on the file system, around every place written to. */
static void same_on_pfs(const struct twins *t, const uint64_t *at, size_t n)
{
    static unsigned char a[1 << 16], b[1 << 16];
    struct stat x, y;
    int fd = open(t->path, O_RDONLY);
    assert_true(fd >= 0 && fstat(fd, &x) == 0 && fstat(t->twin, &y) == 0);
    assert_int_equal(x.st_size, y.st_size);
    for (size_t i = 0; i < n; i++) {
        off_t from = (off_t)(at[i] > 5000 ? at[i] - 5000 : 0);
        ssize_t got = pread(fd, a, 20000, from);
        assert_int_equal(got, pread(t->twin, b, 20000, from));
        if (got > 0)
            assert_memory_equal(a, b, (size_t)got);
    }
    close(fd);
}

static void drain(const struct twins *t)
{
    assert_int_equal(tb_instance_drain(t->x.engine, 2, NULL, NULL, NULL), 0);
}

static void check_edges(const char *folder)
{
    struct twins t;
    start_twins(&t, folder);
    for (size_t i = 0; i < N_EDGES; i++) {
        same_write(&t, edges[i], 20, (uint32_t)i);
        same_read(&t, edges[i] - 5000, 20000);
        same_seek(&t, (off_t)edges[i], SEEK_SET);
        same_seek(&t, (off_t)(INT64_MAX - edges[i]), SEEK_CUR);
        same_seek(&t, 0, SEEK_SET);
        same_seek(&t, (off_t)edges[i], SEEK_END);
        same_seek(&t, 0, SEEK_SET);
    }
    drain(&t);
    same_on_pfs(&t, edges, N_EDGES);
    for (size_t i = N_EDGES; i--;) {
        same_truncate(&t, edges[i] + (i % 2 && edges[i] < INT64_MAX ? 1 : 0));
        same_read(&t, edges[i] - 5000, 20000);
    }
    drain(&t);
    same_on_pfs(&t, edges, N_EDGES);
    stop_twins(&t);
}

static void edges_on_the_disk(void **state)
{
    (void)state;
    check_edges(NULL);
}

static void edges_in_memory(void **state)
{
    (void)state;
    const char *before = getenv("TMPDIR");
    char kept[256];
    snprintf(kept, sizeof(kept), "%s", before ? before : "/tmp");
    check_edges("/dev/shm");
    setenv("TMPDIR", kept, 1);
}

static void scattered(void **state)
{
    (void)state;
    struct twins t;
    size_t n = (size_t)stress_amount(2000);
    uint64_t *at = malloc(n * sizeof(*at));
    uint32_t seed = 42;
    start_twins(&t, NULL);
    for (size_t i = 0; i < n; i++) {
        bool again = i > 10 && next_random(&seed) % 3 == 0;
        at[i] = again ? at[next_random(&seed) % i] + next_random(&seed) % 8000
                      : ((uint64_t)next_random(&seed) << 11 ^ next_random(&seed)) % (1ull << 43);
        same_write(&t, at[i], 24 + next_random(&seed) % (BLOCK - 24), (uint32_t)i);
        uint64_t k = at[next_random(&seed) % (i + 1)];
        same_read(&t, k > 3000 ? k - 3000 : 0, 1 + next_random(&seed) % 60000);
        if (i % 500 == 499)
            assert_true(tb_engine_flush(t.x.engine, t.fd) >= 0);
    }
    drain(&t);
    same_on_pfs(&t, at, n);
    free(at);
    stop_twins(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(edges_on_the_disk),
        cmocka_unit_test(edges_in_memory),
        cmocka_unit_test(scattered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
