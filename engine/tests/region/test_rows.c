/*
 * Writes that take and publish buffers by the row: from which lane they take, cut short where a slab, a tier or all of them end, and
 * seen by readers whole or not at all.
 */
#include "fixture.h"

#include <errno.h>
#include <pthread.h>
#include <sys/wait.h>

#include "instance/invariants.h"
#include "buffer/slab.h"
#include "region/counters.h"

#define PAGE 4096u
#define ROWS_PAGES 40u /* more than one row, less than a chunk */

static char bytes[256 * PAGE], back[256 * PAGE];

/* One memory tier with small buffers only, and what else the test adds. */
static void start(struct fixture *x, enum tb_mode mode, uint32_t n_tiers)
{
    fixture_init(x, mode);
    x->config.n_tiers = n_tiers;
    x->config.tiers[0].n_slabs = 0;
    fixture_slab(&x->config.tiers[0], 1, 1.0);
    fixture_start(x);
    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (char)(i / 7 + i / PAGE);
}

static int new_file(struct fixture *x, const char *name)
{
    int fd = TB_IO(x->io, open, fixture_path(x, name), O_RDWR | O_CREAT, 0600);
    assert_true(fd >= 0);
    return fd;
}

static void check_bytes(struct fixture *x, int fd, size_t n, off_t offset)
{
    memset(back, 0, n);
    assert_int_equal(TB_IO(x->io, pread, fd, back, n, offset), n);
    assert_memory_equal(back, bytes, n);
    assert_true(tb_region_is_valid(x->engine));
}

/* Take free buffers of a slab until `leave` are left. */
static uint32_t hold(struct fixture *x, uint32_t slab, uint32_t leave, struct tb_buffer **held)
{
    uint32_t n = 0;
    while (tb_slab_n_free(x->engine, slab) > leave)
        held[n++] = tb_slab_take(x->engine, slab, 0);
    return n;
}

static void give_back(struct fixture *x, struct tb_buffer **held, uint32_t n)
{
    while (n > 0)
        tb_slab_give(x->engine, held[--n]);
}

static void a_row_holds_what_it_covers(void **state)
{
    static const struct {
        size_t n;
        off_t offset;
        uint32_t buffers;
    } writes[] = {{PAGE, 0, 1},
                  {PAGE + 1, 0, 2},
                  {47008, 0, 12},
                  {47008, 47008, 12},
                  {TB_ROW * PAGE, 0, TB_ROW},
                  {ROWS_PAGES * PAGE, 5, ROWS_PAGES + 1},
                  {1, PAGE - 1, 1},
                  {2, PAGE - 1, 2}};
    struct fixture x;
    (void)state;
    start(&x, TB_MODE_PERSISTENT_ASYNC, 1);
    for (size_t i = 0; i < sizeof(writes) / sizeof(writes[0]); i++) {
        char name[16];
        snprintf(name, sizeof(name), "f%zu", i);
        int fd = new_file(&x, name);
        uint32_t before = tb_slab_n_free(x.engine, 0);
        assert_int_equal(TB_IO(x.io, pwrite, fd, bytes, writes[i].n, writes[i].offset), writes[i].n);
        assert_int_equal(before - tb_slab_n_free(x.engine, 0), writes[i].buffers);
        assert_int_equal(TB_IO(x.io, fsync, fd, false), 0);
        check_bytes(&x, fd, writes[i].n, writes[i].offset);
        assert_int_equal(TB_IO(x.io, close, fd), 0);
    }
    fixture_stop(&x);
}

/* The rest of the write goes on in the next tier. */
static void a_row_ends_with_its_slab(void **state)
{
    static struct tb_buffer *held[4096];
    struct fixture x;
    struct tb_stats stats;
    (void)state;
    start(&x, TB_MODE_PERSISTENT_ASYNC, 2);
    uint32_t n = hold(&x, 0, 5, held);
    int fd = new_file(&x, "f");
    assert_int_equal(TB_IO(x.io, pwrite, fd, bytes, 47008, 0), 47008);
    assert_int_equal(tb_slab_n_free(x.engine, 0), 0);
    tb_engine_stats(x.engine, &stats);
    assert_true(stats.tier[1].used > 0);
    give_back(&x, held, n);
    check_bytes(&x, fd, 47008, 0);
    assert_int_equal(TB_IO(x.io, close, fd), 0);
    fixture_stop(&x);
}

/* A short write of what there was room for, then ENOSPC; the bytes before it stay. */
static void a_row_ends_with_the_room(void **state)
{
    static struct tb_buffer *held[4096];
    struct fixture x;
    (void)state;
    start(&x, TB_MODE_SCRATCH, 1);
    uint32_t n = hold(&x, 0, 7, held);
    int fd = new_file(&x, "f");
    assert_int_equal(TB_IO(x.io, pwrite, fd, bytes, 47008, 0), 7 * PAGE);
    assert_int_equal(TB_IO(x.io, pwrite, fd, bytes, 47008, 7 * PAGE), -ENOSPC);
    give_back(&x, held, n);
    check_bytes(&x, fd, 7 * PAGE, 0);
    assert_int_equal(TB_IO(x.io, pwrite, fd, bytes, 47008, 0), 47008);
    check_bytes(&x, fd, 47008, 0);
    assert_int_equal(TB_IO(x.io, close, fd), 0);
    fixture_stop(&x);
}

/* A tier that refuses all writes but the first: what was filled counts, what was only taken is free again. */
static uint32_t n_writes;

static ssize_t failing_write(struct tb_io *io, int fd, const void *from, size_t n, off_t offset)
{
    (void)io;
    return ++n_writes >= 2 ? -EIO : TB_IO(tb_io_libc(), pwrite, fd, from, n, offset);
}

static void a_row_ends_with_a_failing_device(void **state)
{
    static struct tb_buffer *held[4096];
    struct tb_io_ops ops = *tb_io_libc()->ops;
    struct tb_io failing = {.ops = &ops};
    struct fixture x;
    (void)state;
    start(&x, TB_MODE_PERSISTENT_ASYNC, 2);
    uint32_t n = hold(&x, 0, 0, held);
    int fd = new_file(&x, "f");
    struct tb_io *chain = x.engine->tier[1];
    ops.pwrite = failing_write;
    x.engine->tier[1] = &failing;
    n_writes = 0;
    uint64_t before = tb_tier_used(x.engine, 1);
    assert_int_equal(TB_IO(x.io, pwrite, fd, bytes, 47008, 0), 47008); /* the rest went to the PFS */
    assert_int_equal(tb_tier_used(x.engine, 1) - before, PAGE);
    assert_int_equal(tb_tier_dirty(x.engine->header, 1), PAGE);
    x.engine->tier[1] = chain;
    give_back(&x, held, n);
    check_bytes(&x, fd, 47008, 0);
    assert_int_equal(TB_IO(x.io, close, fd), 0);
    fixture_stop(&x);
}

struct race {
    struct fixture *x;
    int fd;
    _Atomic bool done;
    _Atomic uint32_t n_torn, n_reads;
};

/* The write is in one chunk, so a read of it sees all of it or nothing. */
static void *read_beside(void *arg)
{
    struct race *r = arg;
    static char seen[ROWS_PAGES * PAGE];
    while (!r->done) {
        ssize_t n = TB_IO(r->x->io, pread, r->fd, seen, sizeof(seen), 0);
        if (n > 0) {
            r->n_reads++;
            r->n_torn += (size_t)n != sizeof(seen) || memcmp(seen, bytes, sizeof(seen)) != 0;
        }
    }
    return NULL;
}

static void readers_see_all_rows_of_a_chunk_or_none(void **state)
{
    struct fixture x;
    (void)state;
    start(&x, TB_MODE_PERSISTENT_ASYNC, 1);
    for (uint32_t i = 0; i < 50; i++) {
        struct race r = {.x = &x, .fd = new_file(&x, "f")};
        pthread_t reader;
        assert_int_equal(pthread_create(&reader, NULL, read_beside, &r), 0);
        assert_int_equal(TB_IO(x.io, pwrite, r.fd, bytes, ROWS_PAGES * PAGE, 0), ROWS_PAGES * PAGE);
        while (!r.n_reads)
            sched_yield();
        r.done = true;
        pthread_join(reader, NULL);
        assert_int_equal(r.n_torn, 0);
        assert_int_equal(TB_IO(x.io, close, r.fd), 0);
        assert_int_equal(TB_IO(x.io, unlink, fixture_path(&x, "f"), 0), 0);
    }
    assert_true(tb_region_is_valid(x.engine));
    fixture_stop(&x);
}

static uint32_t lane_of_next(struct fixture *x)
{
    struct tb_buffer *b = tb_slab_take(x->engine, 0, 0);
    assert_non_null(b);
    uint32_t number = tb_buffer_number(x->engine, b) - x->engine->header->layout.slab[0].first_buffer;
    tb_slab_give(x->engine, b);
    return number / TB_LANE_RUN % TB_LANES;
}

static uint32_t lane_of_child(struct fixture *x)
{
    int status;
    tb_engine_atfork_prepare(x->engine);
    pid_t child = fork();
    if (child == 0) {
        tb_engine_atfork_child(x->engine);
        _exit((int)lane_of_next(x));
    }
    tb_engine_atfork_parent(x->engine);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return (uint32_t)WEXITSTATUS(status);
}

/* Who finds its own lane empty takes from the others, until nothing is left. */
static void each_process_begins_with_a_lane_of_its_own(void **state)
{
    static struct tb_buffer *held[4096];
    struct fixture x;
    (void)state;
    start(&x, TB_MODE_PERSISTENT_ASYNC, 1);
    uint32_t own = lane_of_next(&x), all = x.engine->header->layout.slab[0].n_buffers;
    assert_true(all > TB_LANES * TB_LANE_RUN);
    assert_int_not_equal(lane_of_child(&x), own);
    assert_int_equal(hold(&x, 0, 0, held), all);
    assert_int_equal(tb_tier_room(x.engine, 0, TB_ROOM_ALL), 0);
    assert_int_equal(tb_tier_used(x.engine, 0), (uint64_t)all * PAGE);
    assert_null(tb_slab_take(x.engine, 0, 0));
    give_back(&x, held, all);
    assert_int_equal(tb_tier_room(x.engine, 0, TB_ROOM_ALL), (uint64_t)all * PAGE);
    assert_true(tb_tier_room(x.engine, 0, PAGE) >= PAGE);
    assert_int_equal(lane_of_next(&x), own);
    assert_true(tb_region_is_valid(x.engine));
    fixture_stop(&x);
}

/* As a client leaves them that was killed before it had counted what another one takes away. */
static void counts_below_zero_promise_nothing(void **state)
{
    struct fixture x;
    (void)state;
    start(&x, TB_MODE_PERSISTENT_ASYNC, 1);
    uint64_t room = tb_tier_room(x.engine, 0, TB_ROOM_ALL);
    assert_false(tb_tier_is_dirty(x.engine->header, 0));
    x.engine->region.slabs[0].n_clean--;
    tb_count_dirty(x.engine, 0, -(uint64_t)PAGE);
    assert_int_equal(tb_tier_room(x.engine, 0, TB_ROOM_ALL), room);
    assert_int_equal(tb_tier_dirty(x.engine->header, 0), 0);
    assert_true(tb_tier_is_dirty(x.engine->header, 0));
    x.engine->region.slabs[0].n_clean++;
    tb_count_dirty(x.engine, 0, PAGE);
    assert_true(tb_region_is_valid(x.engine));
    fixture_stop(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_row_holds_what_it_covers),
        cmocka_unit_test(each_process_begins_with_a_lane_of_its_own),
        cmocka_unit_test(counts_below_zero_promise_nothing),
        cmocka_unit_test(a_row_ends_with_its_slab),
        cmocka_unit_test(a_row_ends_with_the_room),
        cmocka_unit_test(a_row_ends_with_a_failing_device),
        cmocka_unit_test(readers_see_all_rows_of_a_chunk_or_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
