/*
 * Bytes that go because another node's are newer: of what was dirty exactly these, whatever pieces buffers and blocks
 * hold them in, and nothing where that can't be done.
 */
#include "fixture.h"

#include <errno.h>

#include "file/claim.h"
#include "file/file.h"
#include "io/identity.h"
#include "layer/data.h"
#include "shared/local.h"
#include "shared/recent.h"
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

static void share(struct scene *s)
{
    struct stat st;
    assert_int_equal(stat(s->x.pfs, &st), 0);
    s->x.engine->shared_device = st.st_dev;
}

static bool is_dirty(struct scene *s, uint32_t lo, uint32_t hi)
{
    bool all = true;
    list(s, s->now);
    for (uint32_t i = lo; i < hi; i++)
        all = all && s->now[i];
    return all;
}

static struct scene *scene;

/* A write of [0, 4096) was noted, and its commit by this node has that version; 0: it is in none. */
static void written(uint64_t version)
{
    scene = calloc(1, sizeof(*scene));
    begin(scene, TB_FSYNC_TIER);
    share(scene);
    tb_engine *e = scene->x.engine;
    assert_int_equal(tb_recent_add(e, scene->file, 0, 4096), 0);
    struct tb_recent_taken taken = {.began = tb_recent_begin(e, scene->file), .version = version, .keep = true};
    if (version)
        tb_recent_committed(e, scene->file, &taken);
}

static void test_what_was_committed_before_goes(void **state)
{
    (void)state;
    uint32_t file;
    written(4);
    assert_int_equal(let_go(scene, 0, 8192, &file), 0);
    assert_false(is_dirty(scene, 0, 1) || is_dirty(scene, 4096, 4097));
    end(scene);
}

static void test_what_is_in_no_commit_stays(void **state)
{
    (void)state;
    uint32_t file;
    written(0);
    assert_int_equal(let_go(scene, 0, 8192, &file), 0);
    assert_true(is_dirty(scene, 0, 4096));
    assert_false(is_dirty(scene, 4096, 4097));
    end(scene);
}

static void test_what_was_committed_later_stays(void **state)
{
    (void)state;
    uint32_t file;
    written(UINT64_MAX);
    assert_int_equal(let_go(scene, 0, 8192, &file), 0);
    assert_true(is_dirty(scene, 0, 4096));
    assert_false(is_dirty(scene, 4096, 4097));
    end(scene);
}

/* Older bytes on both sides and between: the outer ones go, so that a flush of what stays can leave the block, and then the rest goes. */
static void test_what_can_go_alone_goes(void **state)
{
    (void)state;
    uint32_t file;
    scene = calloc(1, sizeof(*scene));
    begin(scene, TB_FSYNC_TIER);
    share(scene);
    tb_engine *e = scene->x.engine;
    assert_int_equal(tb_recent_add(e, scene->file, 1000, 1100), 0);
    assert_int_equal(tb_recent_add(e, scene->file, 2000, 2100), 0);
    assert_int_equal(let_go(scene, 0, 8192, &file), -EBUSY);
    list(scene, scene->now);
    for (uint32_t i = 0; i < 8192; i++)
        assert_int_equal(scene->now[i], i >= 1000 && i < 2100);
    uint32_t n_let_go = e->region.file_nodes[scene->file].n_let_go;
    struct tb_wire_range range = {0, 8192};
    const struct tb_due due = {.version = UINT64_MAX - 1, .ranges = {.at = &range, .n = 1}};
    uint64_t clock;
    assert_int_equal(tb_local_let_go(e, &scene->id, &due, 1, true, &file, &clock), -EBUSY);
    assert_int_equal(e->region.file_nodes[scene->file].n_let_go, n_let_go);
    end(scene);
}

static bool lets_go_first, flushes;
static uint32_t cleans; /* so many buffers the flush has cleaned, as far as the count says */

/* Above 0: bytes are going, for so many sleeps of the thread that waits for that (the linker wraps the calls). */
static int going, n_written_after;

int __real_nanosleep(const struct timespec *time, struct timespec *left);
int __wrap_nanosleep(const struct timespec *time, struct timespec *left);

int __wrap_nanosleep(const struct timespec *time, struct timespec *left)
{
    if (!going)
        return __real_nanosleep(time, left);
    if (--going == 0) {
        struct tb_file_nodes *f = &scene->x.engine->region.file_nodes[scene->file];
        f->n_let_go++;
        f->n_torn++;
        f->n_tearing--;
    }
    return 0;
}

bool __real_tb_daemon_is_alive(struct tb_header *h);
bool __wrap_tb_daemon_is_alive(struct tb_header *h);

bool __wrap_tb_daemon_is_alive(struct tb_header *h)
{
    return going || __real_tb_daemon_is_alive(h);
}

ssize_t __real_tb_data_write(struct tb_target *t, const void *from, size_t n, uint64_t offset);
ssize_t __wrap_tb_data_write(struct tb_target *t, const void *from, size_t n, uint64_t offset);

ssize_t __wrap_tb_data_write(struct tb_target *t, const void *from, size_t n, uint64_t offset)
{
    uint32_t file;
    if (lets_go_first) {
        lets_go_first = false;
        assert_int_equal(let_go(scene, 0, 8192, &file), 0);
        assert_false(is_dirty(scene, 0, 1));
    }
    n_written_after += !going;
    ssize_t w = __real_tb_data_write(t, from, n, offset);
    if (flushes) {
        struct tb_recent_taken taken = {.began = tb_recent_begin(t->engine, t->file), .version = 4};
        tb_recent_committed(t->engine, t->file, &taken);
        t->engine->region.file_nodes[t->file].n_torn++;
        t->engine->region.file_nodes[t->file].n_cleaned += cleans;
        flushes = false;
        cleans = 0;
    }
    return w;
}

/* As long as its bytes are not there, others would read the older ones. */
static void test_a_write_that_begins_keeps_no_older_bytes(void **state)
{
    (void)state;
    uint32_t file;
    scene = calloc(1, sizeof(*scene));
    begin(scene, TB_FSYNC_TIER);
    share(scene);
    lets_go_first = true;
    memset(scene->bytes, 'y', 4096);
    assert_int_equal(TB_IO(scene->x.io, pwrite, scene->fd, scene->bytes, 4096, 0), 4096);
    assert_int_equal(let_go(scene, 0, 8192, &file), 0);
    assert_true(is_dirty(scene, 0, 4096));
    assert_false(is_dirty(scene, 4096, 4097));
    check_bytes(scene);
    end(scene);
}

/* However long that takes: else a part of it could go after the write has returned. */
static void test_a_write_ends_after_what_tears_it(void **state)
{
    (void)state;
    scene = calloc(1, sizeof(*scene));
    begin(scene, TB_FSYNC_TIER);
    share(scene);
    scene->x.engine->region.file_nodes[scene->file].n_tearing++;
    going = 1000;
    n_written_after = 0;
    assert_int_equal(TB_IO(scene->x.io, pwrite, scene->fd, scene->bytes, 4096, 0), 4096);
    assert_int_equal(going, 0);
    assert_int_equal(n_written_after, 1);
    end(scene);
}

/* A flush has committed a part of it, and nothing has gone: it is not written again, and is in no commit as a whole. */
static void test_a_write_that_a_flush_met_is_noted_again(void **state)
{
    (void)state;
    struct tb_ranges newer = {0};
    scene = calloc(1, sizeof(*scene));
    begin(scene, TB_FSYNC_TIER);
    share(scene);
    tb_engine *e = scene->x.engine;
    flushes = true;
    n_written_after = 0;
    assert_int_equal(TB_IO(scene->x.io, pwrite, scene->fd, scene->bytes, 4096, 0), 4096);
    assert_false(flushes);
    assert_int_equal(n_written_after, 1);
    assert_int_equal(tb_recent_newer(e, scene->file, UINT64_MAX - 1, &newer), 0);
    assert_true(tb_ranges_cover(&newer, 0, 4096));
    tb_ranges_free(&newer);
    end(scene);
}

/* The flush has put a part of it on the PFS, too: to be there as a whole it is written again. So it is where a flush has the claim. */
static void test_a_write_of_which_a_flush_took_a_part_is_written_again(void **state)
{
    (void)state;
    scene = calloc(1, sizeof(*scene));
    begin(scene, TB_FSYNC_TIER);
    share(scene);
    flushes = true;
    cleans = 1;
    n_written_after = 0;
    assert_int_equal(TB_IO(scene->x.io, pwrite, scene->fd, scene->bytes, 4096, 0), 4096);
    assert_int_equal(n_written_after, 2);
    assert_true(tb_file_claim(scene->x.engine, scene->file));
    flushes = true;
    n_written_after = 0;
    assert_int_equal(TB_IO(scene->x.io, pwrite, scene->fd, scene->bytes, 4096, 0), 4096);
    assert_int_equal(n_written_after, 2);
    tb_file_unclaim(scene->x.engine, scene->file);
    end(scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exactly_these_bytes_go),
        cmocka_unit_test(test_records_of_them_are_void),
        cmocka_unit_test(test_clean_bytes_go_and_dirty_ones_stay),
        cmocka_unit_test(test_what_was_committed_before_goes),
        cmocka_unit_test(test_what_is_in_no_commit_stays),
        cmocka_unit_test(test_what_was_committed_later_stays),
        cmocka_unit_test(test_what_can_go_alone_goes),
        cmocka_unit_test(test_a_write_that_begins_keeps_no_older_bytes),
        cmocka_unit_test(test_a_write_ends_after_what_tears_it),
        cmocka_unit_test(test_a_write_that_a_flush_met_is_noted_again),
        cmocka_unit_test(test_a_write_of_which_a_flush_took_a_part_is_written_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
