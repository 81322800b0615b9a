/*
 * Bytes that go because another node's are newer: of what was dirty exactly these, whatever pieces buffers and blocks
 * hold them in, and nothing where that can't be done.
 */
#include "fixture.h"

#include <errno.h>

#include "file/file.h"
#include "io/identity.h"
#include "shared/local.h"
#include <tierbench/engine.h>

#define SIZE 300000u
#define ROUNDS 60
#define WRITES 12
#define GONE 6

static uint64_t seed = 1;

static uint32_t pick(uint32_t n)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(seed >> 33) % n;
}

static void mark(char *is_dirty, const struct tb_ranges *r)
{
    memset(is_dirty, 0, SIZE);
    for (uint32_t i = 0; i < r->n; i++)
        memset(is_dirty + r->at[i].lo, 1, r->at[i].hi - r->at[i].lo);
}

struct scene {
    struct fixture x;
    int fd;
    uint32_t file;
    struct tb_wire_file id;
    char bytes[SIZE], dirty[SIZE], now[SIZE];
};

static void list(struct scene *s, char *is_dirty)
{
    struct tb_ranges r = {0};
    assert_int_equal(tb_local_dirty(s->x.engine, s->file, &r), 0);
    mark(is_dirty, &r);
    tb_ranges_free(&r);
}

/* The bytes that are dirty still are the ones that were written last. */
static void check_bytes(struct scene *s)
{
    for (uint32_t lo = 0, hi; lo < SIZE; lo = hi) {
        for (hi = lo + 1; hi < SIZE && s->now[hi] == s->now[lo]; hi++)
            ;
        char *seen = malloc(hi - lo);
        if (s->now[lo]) {
            assert_int_equal(tb_local_read(s->x.engine, &s->id, lo, hi, seen), 0);
            assert_memory_equal(seen, s->bytes + lo, hi - lo);
        }
        free(seen);
    }
}

/* Small pieces make fragments, large ones whole buffers; some begin and end at blocks. */
static void write_some(struct scene *s)
{
    for (int i = 0; i < WRITES; i++) {
        uint32_t n = 1 + pick(i % 3 ? 5000 : 90000), at = pick(SIZE - n);
        if (pick(2)) {
            at = at / 4096 * 4096;
            n = (n + 4095) / 4096 * 4096;
            n = n < SIZE - at ? n : SIZE - at;
        }
        memset(s->bytes + at, (int)(1 + pick(250)), n);
        assert_int_equal(TB_IO(s->x.io, pwrite, s->fd, s->bytes + at, n, at), n);
    }
}

/* Only what has gone moves the clock. */
static int let_go(struct scene *s, uint64_t lo, uint64_t hi, uint32_t *file)
{
    struct tb_wire_range range = {lo, hi};
    const struct tb_due due = {.version = UINT64_MAX - 1, .ranges = {.at = &range, .n = 1}};
    uint64_t before = s->x.engine->header->asking.clock, clock;
    int rc = tb_local_let_go(s->x.engine, &s->id, &due, 1, false, file, &clock);
    assert_true(rc ? s->x.engine->header->asking.clock == before : clock > before);
    return rc;
}

static int let_go_some(struct scene *s)
{
    uint32_t n = 1 + pick(40000), lo = pick(SIZE - n), hi = lo + n, file;
    if (pick(3)) {
        lo = lo / 4096 * 4096;
        hi = lo + (n + 4095) / 4096 * 4096;
    }
    list(s, s->dirty);
    int rc = let_go(s, lo, hi, &file);
    assert_true(rc == 0 || rc == -EBUSY);
    assert_int_equal(file, s->file);
    if (!rc && lo < SIZE)
        memset(s->dirty + lo, 0, (hi < SIZE ? hi : SIZE) - lo);
    list(s, s->now);
    assert_memory_equal(s->now, s->dirty, SIZE);
    check_bytes(s);
    return rc;
}

/* No daemon answers here: a file counts as shared only while nothing of it is committed. */
static void begin(struct scene *s, enum tb_fsync fsync)
{
    struct tb_identity id;
    fixture_init(&s->x, TB_MODE_PERSISTENT_ASYNC);
    s->x.config.several_nodes = TB_NODES_SHARED;
    s->x.config.fsync = fsync;
    fixture_start(&s->x);
    s->x.engine->shared_device = 0;
    s->fd = TB_IO(s->x.io, open, fixture_path(&s->x, "file"), O_RDWR | O_CREAT, 0600);
    assert_true(s->fd >= 0);
    assert_int_equal(tb_identity_of_fd(s->fd, &id), 0);
    s->id = (struct tb_wire_file){id.inode, id.birth_ns};
    s->file = tb_file_find(s->x.engine, &id);
    memset(s->bytes, 'z', SIZE);
    assert_int_equal(TB_IO(s->x.io, pwrite, s->fd, s->bytes, SIZE, 0), SIZE);
    s->x.engine->shared_device = id.device;
}

static void end(struct scene *s)
{
    s->x.engine->shared_device = 0;
    TB_IO(s->x.io, close, s->fd);
    fixture_stop(&s->x);
    free(s);
}

static void test_exactly_these_bytes_go(void **state)
{
    (void)state;
    struct scene *s = calloc(1, sizeof(*s));
    int n_busy = 0;
    begin(s, TB_FSYNC_TIER);
    for (int round = 0; round < ROUNDS; round++) {
        s->x.engine->shared_device = 0;
        write_some(s);
        if (round % 4 == 3)
            assert_int_equal(TB_IO(s->x.io, fsync, s->fd, false), 0);
        struct stat st;
        assert_int_equal(stat(s->x.pfs, &st), 0);
        s->x.engine->shared_device = st.st_dev;
        for (int i = 0; i < GONE; i++)
            n_busy += let_go_some(s) != 0;
    }
    assert_true(n_busy > 0 && n_busy < ROUNDS * GONE / 2);
    end(s);
}

/* What an fsync promised and another node has newer bytes of does not come back after a crash. */
static void test_records_of_them_are_void(void **state)
{
    (void)state;
    struct scene *s = calloc(1, sizeof(*s));
    uint32_t file;
    begin(s, TB_FSYNC_TIER);
    s->x.engine->shared_device = 0;
    assert_int_equal(TB_IO(s->x.io, fsync, s->fd, false), 0);
    assert_true(s->x.engine->header->journal.n_journaled > 0);
    struct stat st;
    assert_int_equal(stat(s->x.pfs, &st), 0);
    s->x.engine->shared_device = st.st_dev;
    uint64_t before = s->x.engine->header->journal.end;
    assert_int_equal(let_go(s, 0, SIZE, &file), 0);
    assert_true(s->x.engine->header->journal.end > before);
    assert_int_equal(s->x.engine->header->journal.synced, s->x.engine->header->journal.end);
    list(s, s->now);
    memset(s->dirty, 0, SIZE);
    assert_memory_equal(s->now, s->dirty, SIZE);
    end(s);
}

static void test_clean_bytes_go_and_dirty_ones_stay(void **state)
{
    (void)state;
    struct scene *s = calloc(1, sizeof(*s));
    begin(s, TB_FSYNC_TIER);
    s->x.engine->shared_device = 0;
    assert_true(tb_engine_flush(s->x.engine, -1) >= 0);
    write_some(s);
    struct stat st;
    assert_int_equal(stat(s->x.pfs, &st), 0);
    s->x.engine->shared_device = st.st_dev;
    list(s, s->dirty);
    tb_local_forget_clean(s->x.engine, s->file);
    list(s, s->now);
    assert_memory_equal(s->now, s->dirty, SIZE);
    check_bytes(s);
    for (uint32_t i = 0; i < SIZE; i++)
        if (!s->dirty[i])
            assert_int_equal(tb_local_read(s->x.engine, &s->id, i, i + 1, s->now), -ESTALE);
    end(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exactly_these_bytes_go),
        cmocka_unit_test(test_records_of_them_are_void),
        cmocka_unit_test(test_clean_bytes_go_and_dirty_ones_stay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
