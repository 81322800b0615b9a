/*
 * A small write beside other bytes of its block: when the gap between them is read from the PFS, and that all
 * bytes are right, no matter how they came. The PFS below counts reads.
 */
#include "fixture.h"

#include "io/io_layer.h"

static struct {
    struct tb_io io;
    struct tb_io_ops ops;
    char path[300];
    int n_reads;
} pfs;

static ssize_t pfs_pread(struct tb_io *io, int fd, void *buf, size_t n, off_t offset)
{
    char link[64], path[600] = "";
    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    pfs.n_reads += readlink(link, path, sizeof(path) - 1) > 0 && strncmp(path, pfs.path, strlen(pfs.path)) == 0;
    return TB_IO(io->next, pread, fd, buf, n, offset);
}

/* Buffers of 64 KiB with fragments, or of one block. */
static int start(struct fixture *x, bool one_block)
{
    static const struct tb_io_ops ops = {.name = "pfs", .pread = pfs_pread};
    fixture_init(x, TB_MODE_PERSISTENT_ASYNC);
    x->config.organizer.enabled = false;
    x->config.tiers[0].n_slabs = 0;
    fixture_slab(&x->config.tiers[0], one_block ? 1 : 16, 1.0);
    tb_io_layer_init(&pfs.io, &pfs.ops, &ops, tb_io_libc());
    snprintf(pfs.path, sizeof(pfs.path), "%s", x->pfs);
    x->base = &pfs.io;
    fixture_start(x);
    int fd = TB_IO(x->io, open, fixture_path(x, "f"), O_RDWR | O_CREAT, 0600);
    assert_true(fd >= 0);
    pfs.n_reads = 0;
    return fd;
}

static void put(struct fixture *x, int fd, char byte, size_t n, off_t offset)
{
    char bytes[8192];
    memset(bytes, byte, n);
    assert_int_equal(TB_IO(x->io, pwrite, fd, bytes, n, offset), n);
}

/* So many bytes from there on are all that byte, to a reader of the instance. */
static void assert_bytes(struct fixture *x, int fd, char byte, size_t n, off_t offset)
{
    char bytes[8192];
    assert_int_equal(TB_IO(x->io, pread, fd, bytes, n, offset), n);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(bytes[i], byte);
}

static void flush(struct fixture *x)
{
    assert_true(tb_engine_flush(x->engine, -1) >= 0);
}

/* Bytes 100 to 200 and 300 to 400, of which nothing was flushed: the file on the PFS is empty. */
static void past_the_end_nothing_is_read(struct fixture *x, int fd)
{
    put(x, fd, 'a', 100, 100);
    put(x, fd, 'b', 100, 300);
    assert_int_equal(pfs.n_reads, 0);
    assert_bytes(x, fd, 'a', 100, 100);
    assert_bytes(x, fd, 0, 100, 200);
    assert_bytes(x, fd, 'b', 100, 300);
    assert_int_equal(TB_IO(x->io, close, fd), 0);
}

static void beside_clean_bytes_nothing_is_read(struct fixture *x, int fd)
{
    put(x, fd, 'x', 1000, 0);
    put(x, fd, 'y', 1000, 4096); /* another block: its bytes stay */
    flush(x);
    put(x, fd, 'b', 100, 2000);
    put(x, fd, 'c', 100, 2100);
    assert_int_equal(pfs.n_reads, 0);
    assert_bytes(x, fd, 'y', 1000, 4096);
    assert_int_equal(pfs.n_reads, 0);
    assert_bytes(x, fd, 'x', 1000, 0); /* forgotten: from the PFS */
    assert_bytes(x, fd, 0, 1000, 1000);
    assert_bytes(x, fd, 'b', 100, 2000);
    assert_bytes(x, fd, 'c', 100, 2100);
    assert_true(pfs.n_reads > 0);
    flush(x);
    assert_bytes(x, fd, 'x', 1000, 0);
    assert_bytes(x, fd, 'b', 100, 2000);
    assert_int_equal(TB_IO(x->io, close, fd), 0);
}

/* Dirty bytes are nowhere else, so the gap beside them is read, once. The file was on the PFS before. */
static void beside_dirty_bytes_the_gap_is_read(struct fixture *x, int fd)
{
    char old[5000];
    memset(old, 'x', sizeof(old));
    assert_int_equal(TB_IO(x->io, close, fd), 0);
    int pfs_fd = open(fixture_path(x, "f"), O_WRONLY);
    assert_int_equal(write(pfs_fd, old, sizeof(old)), sizeof(old));
    close(pfs_fd);
    fd = TB_IO(x->io, open, fixture_path(x, "f"), O_RDWR, 0);
    put(x, fd, 'a', 100, 100);
    assert_int_equal(pfs.n_reads, 0);
    put(x, fd, 'b', 100, 300);
    assert_int_equal(pfs.n_reads, 1);
    flush(x);
    assert_bytes(x, fd, 'x', 100, 0);
    assert_bytes(x, fd, 'a', 100, 100);
    assert_bytes(x, fd, 'x', 100, 200);
    assert_bytes(x, fd, 'b', 100, 300);
    assert_bytes(x, fd, 'x', 4600, 400);
    assert_int_equal(TB_IO(x->io, close, fd), 0);
}

static void in_both_kinds_of_buffers(void (*check)(struct fixture *, int))
{
    for (int one_block = 0; one_block < 2; one_block++) {
        struct fixture x;
        check(&x, start(&x, one_block));
        fixture_stop(&x);
    }
}

static void past_the_end(void **state)
{
    (void)state;
    in_both_kinds_of_buffers(past_the_end_nothing_is_read);
}

static void beside_clean_bytes(void **state)
{
    (void)state;
    in_both_kinds_of_buffers(beside_clean_bytes_nothing_is_read);
}

static void beside_dirty_bytes(void **state)
{
    (void)state;
    in_both_kinds_of_buffers(beside_dirty_bytes_the_gap_is_read);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(past_the_end),
        cmocka_unit_test(beside_clean_bytes),
        cmocka_unit_test(beside_dirty_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
