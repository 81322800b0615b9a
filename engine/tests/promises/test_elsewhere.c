/*
 * `fsync: tier` where no directory tier has buffers of the size that the bytes are in: they go on in buffers of another
 * size there, and the PFS is not written.
 */
#include "fixture.h"

#include <errno.h>

#include "instance/invariants.h"
#include "recovery/recover.h"

#define PAGE 4096u
#define LARGE (16u * PAGE)

static char bytes[4 * LARGE], back[4 * LARGE];

/* Memory with slabs of `above` units over a directory tier with slabs of `below`; 0: no second one. */
static void start(struct fixture *x, uint32_t above, uint32_t above2, uint32_t below)
{
    fixture_init(x, TB_MODE_PERSISTENT_ASYNC);
    x->config.n_tiers = 2;
    x->config.tiers[0].n_slabs = x->config.tiers[1].n_slabs = 0;
    fixture_slab(&x->config.tiers[0], above, above2 ? 0.5 : 1.0);
    if (above2)
        fixture_slab(&x->config.tiers[0], above2, 0.5);
    fixture_slab(&x->config.tiers[1], below, 1.0);
    fixture_start(x);
    fixture_promise_in_slabs(x);
    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (char)(1 + i / 3 + i / PAGE);
}

static int new_file(struct fixture *x)
{
    int fd = TB_IO(x->io, open, fixture_path(x, "f"), O_RDWR | O_CREAT, 0600);
    assert_true(fd >= 0);
    assert_int_equal(TB_IO(x->io, fsync, fd, false), 0); /* its name */
    return fd;
}

/* The bytes of `bytes` at the same place. */
static void put(struct fixture *x, int fd, size_t n, size_t offset)
{
    assert_int_equal(TB_IO(x->io, pwrite, fd, bytes + offset, n, (off_t)offset), n);
}

static void keep_without_pfs(struct fixture *x, int fd)
{
    uint64_t before = x->engine->header->totals.pfs_written;
    assert_int_equal(TB_IO(x->io, fsync, fd, false), 0);
    assert_int_equal(x->engine->header->totals.pfs_written, before);
    assert_true(tb_region_is_valid(x->engine));
}

/* A crash of the node takes the memory; what was promised is put on the PFS from the tier. */
static void crash_and_compare(struct fixture *x, size_t n, size_t offset)
{
    struct tb_error err = {""};
    fixture_lose_region(x);
    assert_int_equal(tb_instance_recover(&x->config, tb_io_libc(), NULL, NULL, NULL, &err), 1);
    FILE *f = fopen(fixture_path(x, "f"), "r");
    assert_non_null(f);
    assert_int_equal(fseek(f, (long)offset, SEEK_SET), 0);
    assert_int_equal(fread(back, 1, n, f), n);
    fclose(f);
    assert_memory_equal(back, bytes + offset, n);
    fixture_stop(x);
}

static void small_buffers_are_gathered(void **state)
{
    struct fixture x;
    (void)state;
    start(&x, 1, 16, 16); /* the example of the design: 4 KiB and large ones over large ones only */
    int fd = new_file(&x);
    put(&x, fd, PAGE, 2 * PAGE);
    keep_without_pfs(&x, fd);
    put(&x, fd, 100, 5 * PAGE + 50); /* in a copy of what the record refers to */
    put(&x, fd, PAGE, 3 * PAGE);
    keep_without_pfs(&x, fd);
    assert_int_equal(TB_IO(x.io, pread, fd, back, 2 * PAGE, 2 * PAGE), 2 * PAGE);
    assert_memory_equal(back, bytes + 2 * PAGE, 2 * PAGE);
    crash_and_compare(&x, 2 * PAGE, 2 * PAGE);
}

static void those_of_many_frames_are_gathered(void **state)
{
    struct fixture x;
    (void)state;
    start(&x, 1, 0, 16);
    int fd = new_file(&x);
    for (size_t at = PAGE; at + 5000 < sizeof(bytes); at += 3 * PAGE)
        put(&x, fd, 5000, at);
    keep_without_pfs(&x, fd);
    for (size_t at = PAGE; at + 5000 < sizeof(bytes); at += 3 * PAGE) {
        assert_int_equal(TB_IO(x.io, pread, fd, back, 5000, (off_t)at), 5000);
        assert_memory_equal(back, bytes + at, 5000);
    }
    crash_and_compare(&x, 5000, 4 * PAGE);
}

static void large_buffers_are_split(void **state)
{
    struct fixture x;
    (void)state;
    start(&x, 16, 0, 1);
    int fd = new_file(&x);
    put(&x, fd, 2 * LARGE, LARGE);
    keep_without_pfs(&x, fd);
    put(&x, fd, 700, LARGE + 300);
    keep_without_pfs(&x, fd);
    crash_and_compare(&x, 2 * LARGE, LARGE);
}

/* Where the directory tier has no room at all, the promise is kept on the PFS as before. */
static void without_room_the_pfs_keeps_it(void **state)
{
    struct fixture x;
    (void)state;
    start(&x, 1, 0, 256); /* one buffer */
    int fd = new_file(&x);
    put(&x, fd, PAGE, 0);
    keep_without_pfs(&x, fd);
    char end[PAGE] = "end";
    assert_int_equal(TB_IO(x.io, pwrite, fd, end, PAGE, 4 << 20), PAGE);
    uint64_t before = x.engine->header->totals.pfs_written;
    assert_int_equal(TB_IO(x.io, fsync, fd, false), 0);
    assert_true(x.engine->header->totals.pfs_written > before);
    assert_true(tb_region_is_valid(x.engine));
    assert_int_equal(TB_IO(x.io, close, fd), 0);
    fixture_stop(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_buffers_are_gathered),
        cmocka_unit_test(those_of_many_frames_are_gathered),
        cmocka_unit_test(large_buffers_are_split),
        cmocka_unit_test(without_room_the_pfs_keeps_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
