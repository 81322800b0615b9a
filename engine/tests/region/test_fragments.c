/* Fragments of large buffers: each buffer in memory may have one, and gives it back when its bytes are one interval again. */
#include "fixture.h"

#include "instance/invariants.h"
#include "buffer/in_place.h"
#include "buffer/map.h"
#include "layer/descriptions.h"

#define BLOCK 4096u
#define BLOCKS 16u
#define SIZE (BLOCKS * BLOCK)

static char bytes[SIZE];

/* One memory tier of buffers of 16 blocks. */
static int start(struct fixture *x)
{
    fixture_init(x, TB_MODE_PERSISTENT_ASYNC);
    x->config.n_tiers = 1;
    x->config.fsync = TB_FSYNC_PFS;
    x->config.tiers[0].capacity = 16u << 20; /* many more buffers than the fragments that a small region has anyway */
    x->config.tiers[0].n_slabs = 0;
    fixture_slab(&x->config.tiers[0], BLOCKS, 1.0);
    fixture_start(x);
    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (char)(i / 7 + i / BLOCK);
    int fd = TB_IO(x->io, open, fixture_path(x, "f"), O_RDWR | O_CREAT, 0600);
    assert_true(fd >= 0);
    return fd;
}

static void write_block(struct fixture *x, int fd, uint32_t buffer, uint32_t block)
{
    off_t at = (off_t)buffer * SIZE + block * BLOCK;
    assert_int_equal(TB_IO(x->io, pwrite, fd, bytes + block * BLOCK, BLOCK, at), BLOCK);
    assert_true(tb_region_is_valid(x->engine));
}

static bool has_fragment(struct fixture *x, int fd, uint32_t buffer)
{
    const struct tb_buffer *b = tb_map_find(x->engine, tb_open_of(x->engine, fd)->file, 0, buffer);
    assert_non_null(b);
    return b->fragment != TB_NONE;
}

static void end(struct fixture *x, int fd)
{
    assert_int_equal(TB_IO(x->io, close, fd), 0);
    fixture_stop(x);
}

static void expect(struct fixture *x, int fd, uint32_t buffer)
{
    static char back[SIZE];
    assert_int_equal(TB_IO(x->io, pread, fd, back, SIZE, (off_t)buffer * SIZE), SIZE);
    assert_memory_equal(back, bytes, SIZE);
}

/* As ranks that write records by turns do. Reads need no lock after that. */
static void a_buffer_filled_in_any_order_has_none(void **state)
{
    static char back[SIZE];
    struct fixture x;
    int fd = start(&x);
    (void)state;
    for (uint32_t i = 0; i < BLOCKS; i++) {
        write_block(&x, fd, 0, i * 7 % BLOCKS);
        assert_int_equal(has_fragment(&x, fd, 0), i > 0 && i + 1 < BLOCKS);
    }
    assert_true(tb_read_in_place(x.engine, tb_open_of(x.engine, fd)->file, back, SIZE, 0));
    expect(&x, fd, 0);
    end(&x, fd);
}

/* Clean bytes between dirty ones: valid is one interval, dirty is two, until the bytes between are written too. */
static void clean_bytes_between_dirty_ones_need_one(void **state)
{
    struct fixture x;
    int fd = start(&x);
    (void)state;
    assert_int_equal(TB_IO(x.io, pwrite, fd, bytes, SIZE, 0), SIZE);
    assert_int_equal(TB_IO(x.io, fsync, fd, false), 0);
    write_block(&x, fd, 0, 2);
    assert_false(has_fragment(&x, fd, 0));
    write_block(&x, fd, 0, 4);
    assert_true(has_fragment(&x, fd, 0));
    write_block(&x, fd, 0, 3);
    assert_false(has_fragment(&x, fd, 0));
    expect(&x, fd, 0);
    end(&x, fd);
}

/* Without one, a write that leaves a gap flushes its buffer. */
static void all_buffers_may_have_one(void **state)
{
    struct fixture x;
    struct tb_stats stats;
    int fd = start(&x);
    (void)state;
    uint32_t n = x.engine->header->layout.slab[0].n_buffers;
    for (uint32_t i = 0; i < n; i++)
        write_block(&x, fd, i, 0);
    for (uint32_t i = 0; i < n; i++)
        write_block(&x, fd, i, 2);
    for (uint32_t i = 0; i < n; i++)
        assert_true(has_fragment(&x, fd, i));
    tb_engine_stats(x.engine, &stats);
    assert_int_equal(stats.pfs_bytes_written, 0);
    end(&x, fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_buffer_filled_in_any_order_has_none),
        cmocka_unit_test(clean_bytes_between_dirty_ones_need_one),
        cmocka_unit_test(all_buffers_may_have_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
