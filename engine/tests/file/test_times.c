/* Times and blocks of a buffered file: what is seen before a flush is seen after it. */
#include <errno.h>
#include <time.h>

#include "fixture.h"

static int start(void **state)
{
    struct fixture *x = calloc(1, sizeof(*x));
    fixture_init(x, TB_MODE_PERSISTENT_ASYNC);
    x->config.fsync = TB_FSYNC_PFS;
    fixture_start(x);
    *state = x;
    return 0;
}

static int stop(void **state)
{
    fixture_stop(*state);
    free(*state);
    return 0;
}

static int64_t ns(struct timespec t)
{
    return t.tv_sec * 1000000000ll + t.tv_nsec;
}

/* Longer than the tick of the clock that file systems use. */
static void later(void)
{
    nanosleep(&(struct timespec){0, 20000000}, NULL);
}

static struct stat seen(const struct fixture *x, const char *path)
{
    struct stat st;
    assert_int_equal(TB_IO(x->io, stat, path, &st, 0), 0);
    return st;
}

static int write_new(const struct fixture *x, const char *path)
{
    static char bytes[20000] = {1};
    int fd = TB_IO(x->io, open, path, O_CREAT | O_RDWR, 0600);
    assert_true(fd >= 0);
    later();
    assert_int_equal(TB_IO(x->io, write, fd, bytes, sizeof(bytes)), sizeof(bytes));
    return fd;
}

static void a_flush_changes_no_time(void **state)
{
    const struct fixture *x = *state;
    const char *path = fixture_path(x, "f");
    struct stat before, after, outside, made;
    int fd = write_new(x, path);
    assert_int_equal(stat(path, &made), 0);
    before = seen(x, path);
    assert_true(ns(before.st_mtim) > ns(made.st_mtim)); /* of the write, not of the open */
    later();
    assert_int_equal(tb_engine_flush(x->engine, fd), 0);
    after = seen(x, path);
    assert_int_equal(stat(path, &outside), 0);
    assert_int_equal(ns(after.st_mtim), ns(before.st_mtim));
    assert_int_equal(ns(after.st_ctim), ns(before.st_ctim));
    assert_int_equal(ns(outside.st_mtim), ns(before.st_mtim)); /* and for a program without the adapter */
    later();
    assert_int_equal(TB_IO(x->io, write, fd, "more", 4), 4);
    assert_true(ns(seen(x, path).st_mtim) > ns(before.st_mtim));
    TB_IO(x->io, close, fd);
}

static void what_others_change_is_seen(void **state)
{
    const struct fixture *x = *state;
    const char *path = fixture_path(x, "f");
    const struct timespec times[2] = {{1000, 0}, {2000, 5}};
    int fd = write_new(x, path);
    assert_int_equal(tb_engine_flush(x->engine, fd), 0);
    later();
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
    assert_int_equal(seen(x, path).st_mtim.tv_sec, 2000);
    assert_true(seen(x, path).st_ctim.tv_sec > 2000);
    assert_int_equal(TB_IO(x->io, fsync, fd, false), 0); /* nothing was written since: no time is given again */
    assert_int_equal(seen(x, path).st_mtim.tv_sec, 2000);
    TB_IO(x->io, close, fd);
}

static void a_cut_is_a_change(void **state)
{
    const struct fixture *x = *state;
    const char *path = fixture_path(x, "f");
    int fd = write_new(x, path);
    int64_t written = ns(seen(x, path).st_mtim);
    later();
    assert_int_equal(TB_IO(x->io, ftruncate, fd, 10000), 0);
    int64_t cut = ns(seen(x, path).st_mtim);
    assert_true(cut > written);
    later();
    assert_int_equal(tb_engine_flush(x->engine, fd), 0);
    assert_int_equal(ns(seen(x, path).st_mtim), cut);
    TB_IO(x->io, close, fd);
}

/* A cut took all bytes that were to be flushed. Then no flush would give their time any more, and it would hide what a program sets. */
static void set_after_a_cut(const struct fixture *x, int flags)
{
    const char *path = fixture_path(x, "f");
    const struct timespec times[2] = {{1000, 0}, {2000, 5}};
    int fd = write_new(x, path), other = TB_IO(x->io, open, path, flags, 0);
    struct stat st;
    assert_int_equal(TB_IO(x->io, ftruncate, fd, 0), 0);
    int64_t cut = ns(seen(x, path).st_mtim);
    later();
    assert_int_equal(tb_engine_flush(x->engine, other), 0); /* as futimens and its kin do first */
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(ns(st.st_mtim), cut);
    assert_int_equal(ns(seen(x, path).st_mtim), cut);
    assert_int_equal(futimens(other, times), 0);
    assert_int_equal(seen(x, path).st_mtim.tv_sec, 2000);
    assert_int_equal(TB_IO(x->io, fstat, fd, &st), 0);
    assert_int_equal(st.st_mtim.tv_sec, 2000);
    TB_IO(x->io, close, other);
    TB_IO(x->io, close, fd);
    assert_int_equal(seen(x, path).st_mtim.tv_sec, 2000);
}

static void what_is_set_after_a_cut_is_seen(void **state)
{
    set_after_a_cut(*state, O_WRONLY);
}

/* A flush by such a descriptor opens another one. */
static void what_is_set_after_a_cut_by_a_reader_is_seen(void **state)
{
    set_after_a_cut(*state, O_RDONLY);
}

static void a_buffered_file_is_not_a_hole(void **state)
{
    const struct fixture *x = *state;
    const char *path = fixture_path(x, "f");
    struct stat st;
    int fd = write_new(x, path);
    blkcnt_t blocks = seen(x, path).st_blocks;
    assert_int_equal(blocks, 40);
    assert_int_equal(TB_IO(x->io, fstat, fd, &st), 0);
    assert_int_equal(st.st_blocks, 40);
    assert_int_equal(tb_engine_flush(x->engine, fd), 0);
    assert_int_equal(TB_IO(x->io, fsync, fd, false), 0);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(seen(x, path).st_blocks, st.st_blocks); /* the file system's own count, where it has the bytes */
    TB_IO(x->io, close, fd);
}

static void a_hole_is_not_filled(void **state)
{
    const struct fixture *x = *state;
    const char *path = fixture_path(x, "f");
    int fd = TB_IO(x->io, open, path, O_RDWR | O_CREAT, 0600);
    assert_int_equal(TB_IO(x->io, pwrite, fd, "end", 3, 1ll << 32), 3);
    blkcnt_t blocks = seen(x, path).st_blocks;
    assert_in_range(blocks, 1, 2 * (65536 / 512)); /* one buffer, and what the backing file may have */
    TB_IO(x->io, close, fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_flush_changes_no_time, start, stop),
        cmocka_unit_test_setup_teardown(what_others_change_is_seen, start, stop),
        cmocka_unit_test_setup_teardown(a_cut_is_a_change, start, stop),
        cmocka_unit_test_setup_teardown(what_is_set_after_a_cut_is_seen, start, stop),
        cmocka_unit_test_setup_teardown(what_is_set_after_a_cut_by_a_reader_is_seen, start, stop),
        cmocka_unit_test_setup_teardown(a_buffered_file_is_not_a_hole, start, stop),
        cmocka_unit_test_setup_teardown(a_hole_is_not_filled, start, stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
