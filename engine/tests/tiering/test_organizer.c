/*
 * The organizer: what is read again is staged in and goes up, nothing hotter goes
 * for it, and no byte is wrong while it works beside writers and truncations.
 */
#include "reads.h"

#include <errno.h>

#include "buffer/heat.h"
#include "buffer/slab.h"
#include "instance/invariants.h"
#include "buffer/map.h"
#include "buffer/of_file.h"
#include "instance/background.h"
#include "instance/drain.h"
#include "instance/stats.h"
#include "io/io_layer.h"
#include "layer/descriptions.h"
#include "region/counters.h"
#include "tiering/move.h"
#include "tiering/organizer.h"

static void the_second_miss_stages_in(void **state)
{
    (void)state;
    static const size_t transfers[] = {4096, 10000, 65536, 262144, BYTES};
    for (size_t i = 0; i < sizeof(transfers) / sizeof(transfers[0]); i++) {
        struct fixture x;
        fixture_init(&x, TB_MODE_PERSISTENT_ASYNC);
        fixture_start(&x);
        make_file(&x, "f", BYTES - 100, 1);
        for (int pass = 1; pass <= 4; pass++) { /* each opens the file again: what was seen outlives its record */
            int fd = open_file(&x, "f");
            uint64_t from_pfs = read_pass(&x, fd, BYTES - 100, transfers[i], 1);
            assert_int_equal(TB_IO(x.io, close, fd), 0);
            if (pass == 1)
                assert_true(from_pfs >= BYTES - 100 && x.engine->header->totals.staged < BYTES / 2);
            else if (pass == 2)
                assert_true(from_pfs >= BYTES / 2);
            else
                assert_int_equal(from_pfs, 0);
        }
        assert_true(x.engine->header->totals.staged >= BYTES - 100);
        assert_true(tb_region_is_valid(x.engine));
        fixture_stop(&x);
    }
}

static void write_through_stages_in_at_once(void **state)
{
    (void)state;
    struct fixture x;
    fixture_init(&x, TB_MODE_PERSISTENT_SYNC);
    fixture_start(&x);
    make_file(&x, "f", BYTES, 2);
    int fd = open_file(&x, "f");
    assert_int_equal(read_pass(&x, fd, BYTES, 65536, 2), BYTES);
    assert_int_equal(read_pass(&x, fd, BYTES, 65536, 2), 0);
    TB_IO(x.io, close, fd);
    fixture_stop(&x);
}

static void disabled_stages_nothing(void **state)
{
    (void)state;
    struct fixture x;
    fixture_init(&x, TB_MODE_PERSISTENT_SYNC);
    x.config.organizer.enabled = false;
    fixture_start(&x);
    make_file(&x, "f", BYTES, 2);
    int fd = open_file(&x, "f");
    for (int pass = 0; pass < 3; pass++)
        assert_int_equal(read_pass(&x, fd, BYTES, 65536, 2), BYTES);
    TB_IO(x.io, close, fd);
    fixture_stop(&x);
}

/* Another node, or a program outside, wrote the file while no process had it open. */
static void what_changed_outside_is_read_anew(void **state)
{
    (void)state;
    struct fixture x;
    fixture_init(&x, TB_MODE_PERSISTENT_ASYNC);
    fixture_start(&x);
    make_file(&x, "f", BYTES, 3);
    for (int pass = 0; pass < 3; pass++) {
        int fd = open_file(&x, "f");
        read_pass(&x, fd, BYTES, 65536, 3);
        TB_IO(x.io, close, fd);
    }
    usleep(20000); /* the clock of file times */
    make_file(&x, "f", BYTES, 4);
    int fd = open_file(&x, "f");
    read_pass(&x, fd, BYTES, 65536, 4);
    TB_IO(x.io, close, fd);
    fixture_stop(&x);
}

/* Bytes of one tier of 64 KiB buffers. */
static void small_tier(struct fixture *x, enum tb_mode mode, uint64_t bytes)
{
    fixture_init(x, mode);
    x->config.n_tiers = 2;
    x->config.fsync = TB_FSYNC_PFS;
    struct tb_config_tier nvme = x->config.tiers[1];
    nvme.capacity = bytes;
    nvme.n_slabs = 0;
    fixture_slab(&nvme, 16, 1.0);
    x->config.tiers[0] = nvme;
    x->config.n_tiers = 1;
    fixture_start(x);
}

static void nothing_hotter_goes(void **state)
{
    (void)state;
    struct fixture x;
    small_tier(&x, TB_MODE_PERSISTENT_SYNC, BYTES);
    make_file(&x, "hot", BYTES, 5);
    make_file(&x, "cold", BYTES, 6);
    int hot = open_file(&x, "hot"), cold = open_file(&x, "cold");
    read_pass(&x, hot, BYTES, 65536, 5);
    assert_int_equal(read_pass(&x, hot, BYTES, 65536, 5), 0); /* all of the tier is the hot file's */
    for (int pass = 0; pass < 3; pass++)
        assert_int_equal(read_pass(&x, cold, BYTES, 65536, 6), BYTES);
    assert_int_equal(read_pass(&x, hot, BYTES, 65536, 5), 0);
    x.engine->header->movement.heat_epoch += 3; /* long ago */
    read_pass(&x, cold, BYTES, 65536, 6);
    assert_int_equal(read_pass(&x, cold, BYTES, 65536, 6), 0);
    assert_true(tb_region_is_valid(x.engine));
    TB_IO(x.io, close, hot);
    TB_IO(x.io, close, cold);
    fixture_stop(&x);
}

/* A write may take any clean buffer, the coldest first. */
static void a_write_takes_the_coldest(void **state)
{
    (void)state;
    static unsigned char bytes[65536];
    struct fixture x;
    small_tier(&x, TB_MODE_PERSISTENT_SYNC, BYTES);
    make_file(&x, "f", BYTES, 7);
    int fd = open_file(&x, "f");
    read_pass(&x, fd, BYTES, 65536, 7);
    for (size_t at = 0; at < BYTES; at += 65536)
        if (at != 3 * 65536)
            read_range(&x, fd, at, 65536, 7); /* all but one are warmer now */
    int out = TB_IO(x.io, open, fixture_path(&x, "out"), O_RDWR | O_CREAT, 0600);
    assert_int_equal(TB_IO(x.io, pwrite, out, bytes, sizeof(bytes), 0), sizeof(bytes));
    assert_int_equal(x.engine->header->totals.spilled, 0);
    uint32_t file = tb_open_of(x.engine, fd)->file;
    for (uint64_t cell = 0; cell < 8; cell++)
        assert_true((tb_map_find(x.engine, file, 0, cell) == NULL) == (cell == 3));
    TB_IO(x.io, close, fd);
    TB_IO(x.io, close, out);
    fixture_stop(&x);
}

static uint64_t in_tier(struct fixture *x, uint32_t file, uint32_t tier)
{
    uint32_t n;
    uint64_t bytes = 0;
    struct tb_buffer_ref *refs = tb_file_buffers(x->engine, file, TB_BUFFERS_ALL, &n);
    for (uint32_t i = 0; i < n; i++) {
        const struct tb_buffer *b = &x->engine->region.buffers[refs[i].buffer];
        bytes += tb_slab_layout(x->engine, b)->tier == tier ? b->valid_hi - b->valid_lo : 0;
    }
    free(refs);
    return bytes;
}

static void move_down(struct fixture *x, uint32_t file, uint32_t from, uint32_t to)
{
    uint32_t n;
    struct tb_buffer_ref *refs = tb_file_buffers(x->engine, file, TB_BUFFERS_ALL, &n);
    for (uint32_t i = 0; i < n; i++)
        if (tb_slab_layout(x->engine, &x->engine->region.buffers[refs[i].buffer])->tier == from)
            tb_move(x->engine, file, &refs[i], to, TB_HEAT_ANY);
    free(refs);
}

static void what_is_read_again_goes_up(void **state)
{
    (void)state;
    static unsigned char bytes[BYTES];
    struct fixture x;
    fixture_init(&x, TB_MODE_PERSISTENT_ASYNC);
    fixture_start(&x);
    for (size_t i = 0; i < BYTES; i++)
        bytes[i] = pattern(i, 8);
    int fd = TB_IO(x.io, open, fixture_path(&x, "f"), O_RDWR | O_CREAT, 0600);
    uint32_t file = tb_open_of(x.engine, fd)->file;
    assert_int_equal(TB_IO(x.io, pwrite, fd, bytes, BYTES, 0), BYTES);
    move_down(&x, file, 0, 1);
    assert_int_equal(in_tier(&x, file, 0), 0);
    uint64_t lower = in_tier(&x, file, 1);
    assert_true(lower > BYTES / 2);
    read_pass(&x, fd, BYTES, 65536, 8);
    assert_int_equal(in_tier(&x, file, 0), 0); /* written and read once */
    read_pass(&x, fd, BYTES, 65536, 8);
    assert_int_equal(in_tier(&x, file, 0), BYTES); /* dirty bytes too */
    assert_int_equal(tb_moved_in(x.engine, 0), BYTES);
    assert_true(tb_region_is_valid(x.engine));
    assert_int_equal(tb_instance_drain(x.engine, 2, NULL, NULL, NULL), 0);
    TB_IO(x.io, close, fd);
    fixture_stop(&x);
}

static void quiet_ticks(struct fixture *x, struct tb_organizer *o)
{
    for (int i = 0; i < 200; i++)
        tb_organizer_tick(x->engine, o);
}

/* Fill the top tier with bytes that the PFS lacks. */
static int fill_top(struct fixture *x, uint64_t *n)
{
    static unsigned char bytes[1 << 16];
    int fd = TB_IO(x->io, open, fixture_path(x, "full"), O_RDWR | O_CREAT, 0600);
    for (*n = 0; tb_tier_used(x->engine, 1) == 0; *n += sizeof(bytes)) {
        for (size_t i = 0; i < sizeof(bytes); i++)
            bytes[i] = pattern(*n + i, 10);
        assert_int_equal(TB_IO(x->io, pwrite, fd, bytes, sizeof(bytes), (off_t)*n), sizeof(bytes));
    }
    return fd;
}

static void cold_bytes_go_down_while_programs_compute(void **state)
{
    (void)state;
    struct fixture x;
    struct tb_organizer o = {0};
    uint64_t n, moved;
    fixture_init(&x, TB_MODE_PERSISTENT_ASYNC);
    x.config.tiers[2].capacity = 8u << 20;
    fixture_start(&x);
    int fd = fill_top(&x, &n);
    uint32_t file = tb_open_of(x.engine, fd)->file;
    read_range(&x, fd, 65536, 65536, 10); /* warmer than the rest */
    struct tb_buffer *kept = tb_map_find(x.engine, file, 1, 2);
    assert_non_null(kept);
    kept->flags |= TB_BUFFER_KEEP;
    tb_organizer_tick(x.engine, &o); /* sees the traffic */
    tb_organizer_tick(x.engine, &o);
    assert_int_equal(tb_moved_in(x.engine, 1) + tb_moved_in(x.engine, 2), 0);
    quiet_ticks(&x, &o);
    moved = tb_moved_in(x.engine, 1) + tb_moved_in(x.engine, 2);
    assert_true(moved > n / 5 && moved < n / 2); /* from above high to low, and no further */
    assert_ptr_equal(tb_map_find(x.engine, file, 1, 2), kept);
    assert_int_equal(tb_slab_layout(x.engine, tb_map_find(x.engine, file, 1, 1))->tier, 0);
    assert_true(tb_region_is_valid(x.engine));
    read_pass(&x, fd, n, 65536, 10);
    assert_int_equal(tb_instance_drain(x.engine, 2, NULL, NULL, NULL), 0);
    moved = tb_moved_in(x.engine, 1) + tb_moved_in(x.engine, 2);
    quiet_ticks(&x, &o); /* what the PFS has is room: nothing to do */
    assert_int_equal(tb_moved_in(x.engine, 1) + tb_moved_in(x.engine, 2), moved);
    TB_IO(x.io, close, fd);
    fixture_stop(&x);
}

/* The write goes on in another buffer, for a record refers to the first one. */
static void a_write_after_an_fsync_keeps_heat_and_hint(void **state)
{
    (void)state;
    static unsigned char bytes[65536];
    struct fixture x;
    fixture_init(&x, TB_MODE_PERSISTENT_ASYNC);
    fixture_start(&x);
    int fd = TB_IO(x.io, open, fixture_path(&x, "f"), O_RDWR | O_CREAT, 0600);
    uint32_t file = tb_open_of(x.engine, fd)->file;
    for (int i = 0; i < 3; i++)
        assert_int_equal(TB_IO(x.io, pwrite, fd, bytes, sizeof(bytes), 0), sizeof(bytes));
    assert_int_equal(tb_engine_advise(x.engine, fd, 0, sizeof(bytes), TB_HINT_KEEP), 0);
    assert_int_equal(TB_IO(x.io, fsync, fd, false), 0);
    const struct tb_buffer *first = tb_map_find(x.engine, file, 1, 0);
    assert_true(first && first->flags & TB_BUFFER_JOURNALED && first->flags & TB_BUFFER_KEEP);
    uint32_t heat = tb_heat_decayed(x.engine, first->heat);
    assert_true(heat >= 3 * TB_HEAT_WRITE);
    assert_int_equal(TB_IO(x.io, pwrite, fd, "x", 1, 0), 1);
    const struct tb_buffer *second = tb_map_find(x.engine, file, 1, 0);
    assert_true(second != first && second->flags & TB_BUFFER_KEEP);
    assert_true(tb_heat_decayed(x.engine, second->heat) > heat);
    assert_true(tb_region_is_valid(x.engine));
    TB_IO(x.io, close, fd);
    fixture_stop(&x);
}

static void traffic_cools(void **state)
{
    (void)state;
    struct fixture x;
    struct tb_organizer o = {0};
    uint64_t n;
    fixture_init(&x, TB_MODE_PERSISTENT_ASYNC);
    fixture_start(&x);
    int fd = fill_top(&x, &n);
    uint32_t file = tb_open_of(x.engine, fd)->file;
    read_range(&x, fd, 0, 65536, 10);
    quiet_ticks(&x, &o);
    uint32_t warm = tb_heat_of(x.engine, tb_map_find(x.engine, file, 1, 0));
    assert_true(warm > TB_HEAT_READ);
    quiet_ticks(&x, &o); /* time alone does not */
    assert_int_equal(tb_heat_of(x.engine, tb_map_find(x.engine, file, 1, 0)), warm);
    for (int pass = 0; pass < 3; pass++) {
        for (size_t at = 65536; at < n; at += 65536)
            read_range(&x, fd, at, 65536, 10);
        tb_organizer_tick(x.engine, &o);
    }
    assert_true(tb_heat_of(x.engine, tb_map_find(x.engine, file, 1, 0)) < warm);
    TB_IO(x.io, close, fd);
    fixture_stop(&x);
}

/* A slow PFS: its bytes take a while to arrive. */
static ssize_t dawdling_pread(struct tb_io *io, int fd, void *buf, size_t n, off_t offset)
{
    ssize_t r = TB_IO(io->next, pread, fd, buf, n, offset);
    usleep(200);
    return r;
}

static struct tb_io *dawdling(void)
{
    static const struct tb_io_ops own = {.name = "dawdling", .pread = dawdling_pread};
    static struct tb_io_ops table;
    static struct tb_io io;
    tb_io_layer_init(&io, &table, &own, tb_io_libc());
    return &io;
}

/* Readers that stage in while the file is cut and grows: what is past a cut reads as zeros or as what was written since. */
struct cutter {
    struct fixture *x;
    _Atomic bool stop;
    _Atomic uint64_t reads;
};

static void *read_while_cut(void *arg)
{
    struct cutter *c = arg;
    static _Thread_local unsigned char bytes[65536];
    int fd = open_file(c->x, "f");
    for (uint32_t i = 0; !c->stop; i++) {
        uint64_t at = (uint64_t)(i * 7 % 16) * 32768;
        ssize_t n = TB_IO(c->x->io, pread, fd, bytes, sizeof(bytes), (off_t)at);
        assert_true(n >= 0);
        c->reads++;
    }
    TB_IO(c->x->io, close, fd);
    return NULL;
}

static void a_cut_voids_what_was_read_before(void **state)
{
    (void)state;
    static unsigned char zeros[BYTES], bytes[BYTES];
    struct fixture x;
    fixture_init(&x, TB_MODE_PERSISTENT_SYNC); /* stages in at the first read */
    x.base = dawdling();
    fixture_start(&x);
    make_file(&x, "f", BYTES, 9);
    struct cutter c = {.x = &x};
    pthread_t readers[2];
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&readers[i], NULL, read_while_cut, &c), 0);
    int fd = open_file(&x, "f"), plain = open(fixture_path(&x, "f"), O_RDWR);
    for (int round = 0; round < 200; round++) {
        for (size_t i = 0; i < BYTES; i += 4096)
            memset(bytes + i, 1 + round % 250, 4096);
        assert_int_equal(pwrite(plain, bytes, BYTES, 0), BYTES); /* bytes that only the PFS has, at once stale */
        uint64_t reads = c.reads;
        while (c.reads < reads + 3)
            sched_yield();
        assert_int_equal(TB_IO(x.io, ftruncate, fd, 5000), 0);
        assert_int_equal(TB_IO(x.io, ftruncate, fd, BYTES), 0);
        assert_int_equal(TB_IO(x.io, pread, fd, bytes, BYTES - 5000, 5000), BYTES - 5000);
        assert_memory_equal(bytes, zeros, BYTES - 5000);
    }
    c.stop = true;
    for (int i = 0; i < 2; i++)
        pthread_join(readers[i], NULL);
    assert_true(tb_region_is_valid(x.engine));
    close(plain);
    TB_IO(x.io, close, fd);
    fixture_stop(&x);
}

/* A program's thread: what it reads of its part of a file is what it wrote there. */
struct program {
    struct fixture *x;
    pthread_t thread;
    int fd;
    uint64_t start;
    uint32_t seed;
    unsigned char bytes[BYTES];
};

static uint32_t next_random(uint32_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 17;
    return *state ^= *state << 5;
}

static void check_part(struct program *p, size_t offset, size_t n)
{
    unsigned char got[32768];
    assert_int_equal(TB_IO(p->x->io, pread, p->fd, got, n, (off_t)(p->start + offset)), (ssize_t)n);
    assert_memory_equal(got, p->bytes + offset, n);
}

static void *run_program(void *arg)
{
    struct program *p = arg;
    for (int round = 0; round < 60; round++) {
        for (int i = 0; i < 8; i++) {
            size_t offset = next_random(&p->seed) % (BYTES - 20000), n = 1 + next_random(&p->seed) % 20000;
            memset(p->bytes + offset, (int)(next_random(&p->seed) & 0xff), n);
            assert_int_equal(TB_IO(p->x->io, pwrite, p->fd, p->bytes + offset, n, (off_t)(p->start + offset)), (ssize_t)n);
        }
        for (size_t at = 0; at < BYTES && round % 3; at += 32768) /* a stream */
            check_part(p, at, 32768);
        usleep(round % 10 ? 0 : 30000); /* computes: the organizer's turn */
    }
    return NULL;
}

/* Daemon and programs at once, on tiers that overflow. */
static void all_of_it_beside_programs(void **state)
{
    (void)state;
    enum { PROGRAMS = 4 };
    struct fixture x;
    fixture_init(&x, TB_MODE_PERSISTENT_ASYNC);
    x.config.tiers[0].capacity = 3u << 20;
    x.config.organizer.high = 0.3;
    x.config.organizer.low = 0.1;
    x.config.organizer.prefetch = 256u << 10;
    x.config.flush.policy = TB_FLUSH_WATERMARK;
    fixture_start(&x);
    make_file(&x, "f", PROGRAMS * BYTES, 18);
    int fd = open_file(&x, "f");
    struct program *p = calloc(PROGRAMS, sizeof(*p));
    assert_int_equal(tb_background_start(x.engine), 0);
    for (int i = 0; i < PROGRAMS; i++) {
        p[i].x = &x;
        p[i].fd = i % 2 ? open_file(&x, "f") : fd;
        p[i].start = (uint64_t)i * BYTES;
        p[i].seed = 99u + (uint32_t)i;
        for (size_t k = 0; k < BYTES; k++)
            p[i].bytes[k] = pattern(p[i].start + k, 18);
        assert_int_equal(pthread_create(&p[i].thread, NULL, run_program, &p[i]), 0);
    }
    for (int i = 0; i < PROGRAMS; i++)
        pthread_join(p[i].thread, NULL);
    tb_background_stop(x.engine);
    assert_true(tb_region_is_valid(x.engine));
    assert_int_equal(tb_instance_drain(x.engine, 2, NULL, NULL, NULL), 0);
    for (int i = 0; i < PROGRAMS; i++) {
        static unsigned char got[BYTES];
        assert_int_equal(pread(p[i].fd, got, BYTES, (off_t)p[i].start), BYTES);
        assert_memory_equal(got, p[i].bytes, BYTES);
        if (i % 2)
            TB_IO(x.io, close, p[i].fd);
    }
    TB_IO(x.io, close, fd);
    free(p);
    fixture_stop(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_second_miss_stages_in),
        cmocka_unit_test(write_through_stages_in_at_once),
        cmocka_unit_test(disabled_stages_nothing),
        cmocka_unit_test(what_changed_outside_is_read_anew),
        cmocka_unit_test(nothing_hotter_goes),
        cmocka_unit_test(a_write_takes_the_coldest),
        cmocka_unit_test(what_is_read_again_goes_up),
        cmocka_unit_test(cold_bytes_go_down_while_programs_compute),
        cmocka_unit_test(a_write_after_an_fsync_keeps_heat_and_hint),
        cmocka_unit_test(traffic_cools),
        cmocka_unit_test(a_cut_voids_what_was_read_before),
        cmocka_unit_test(all_of_it_beside_programs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
