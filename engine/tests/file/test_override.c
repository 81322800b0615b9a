/* One file in another mode or with another promise than its prefix: for all processes that have it open, until the last close. */
#include "fixture.h"

#include <errno.h>
#include <signal.h>
#include <sys/wait.h>

#include "file/file.h"
#include "flush/queue.h"
#include "layer/repair.h"
#include "layer/descriptions.h"

static int open_f(struct fixture *x)
{
    int fd = TB_IO(x->io, open, fixture_path(x, "f"), O_RDWR | O_CREAT, 0600);
    assert_true(fd >= 0);
    return fd;
}

static void close_f(struct fixture *x, int fd)
{
    assert_int_equal(TB_IO(x->io, close, fd), 0);
}

static void write_f(struct fixture *x, int fd, const char *text)
{
    assert_int_equal(TB_IO(x->io, pwrite, fd, text, strlen(text), 0), (ssize_t)strlen(text));
}

/* What the PFS has of the file, beside the engine. */
static bool pfs_has(const struct fixture *x, const char *text)
{
    char found[64] = "";
    int fd = open(fixture_path(x, "f"), O_RDONLY);
    ssize_t n = read(fd, found, sizeof(found) - 1);
    close(fd);
    return n == (ssize_t)strlen(text) && strcmp(found, text) == 0;
}

static void assert_promise(struct fixture *x, int fd, enum tb_mode mode, enum tb_fsync fsync)
{
    enum tb_mode m;
    enum tb_fsync f;
    assert_int_equal(tb_engine_promise(x->engine, fd, &m, &f), 0);
    assert_int_equal(m, mode);
    assert_int_equal(f, fsync);
}

static void write_through_is_for_all_until_the_last_close(void **state)
{
    (void)state;
    struct fixture x;
    tb_engine *other;
    fixture_init(&x, TB_MODE_PERSISTENT_ASYNC);
    fixture_start(&x);
    assert_int_equal(tb_engine_attach(x.name, tb_io_libc(), &other), 0);
    struct tb_io *io = tb_engine_route(other, x.pfs, NULL);
    int fd = open_f(&x), theirs = TB_IO(io, open, fixture_path(&x, "f"), O_RDWR, 0);
    write_f(&x, fd, "one");
    assert_false(pfs_has(&x, "one"));
    tb_engine_know(other, theirs);
    assert_int_equal(tb_engine_set_mode(x.engine, fd, TB_MODE_PERSISTENT_SYNC), 0);
    assert_true(pfs_has(&x, "one")); /* what was dirty went first */
    assert_promise(&x, fd, TB_MODE_PERSISTENT_SYNC, TB_FSYNC_TIER);
    close_f(&x, fd);
    assert_int_equal(TB_IO(io, pwrite, theirs, "two", 3, 0), 3);
    assert_true(pfs_has(&x, "two")); /* the other process's too, while it has the file open */
    assert_int_equal(TB_IO(io, close, theirs), 0);
    fd = open_f(&x);
    assert_promise(&x, fd, TB_MODE_PERSISTENT_ASYNC, TB_FSYNC_TIER);
    write_f(&x, fd, "six");
    assert_true(pfs_has(&x, "two"));
    close_f(&x, fd);
    tb_engine_detach(other);
    fixture_stop(&x);
}

static void write_behind_is_flushed_at_close(void **state)
{
    (void)state;
    struct fixture x;
    fixture_init(&x, TB_MODE_PERSISTENT_SYNC);
    fixture_start(&x); /* flush policy: manual */
    int fd = open_f(&x);
    assert_int_equal(tb_engine_set_mode(x.engine, fd, TB_MODE_PERSISTENT_ASYNC), 0);
    write_f(&x, fd, "behind");
    assert_false(pfs_has(&x, "behind"));
    close_f(&x, fd);
    assert_true(pfs_has(&x, "behind"));
    fd = open_f(&x);
    write_f(&x, fd, "beside");
    assert_true(pfs_has(&x, "beside"));
    assert_int_equal(tb_engine_set_mode(x.engine, fd, TB_MODE_PERSISTENT_ASYNC), 0);
    write_f(&x, fd, "before");
    assert_int_equal(tb_engine_set_mode(x.engine, fd, TB_MODE_PERSISTENT_SYNC), 0);
    assert_true(pfs_has(&x, "before"));
    close_f(&x, fd);
    fixture_stop(&x);
}

static void a_killed_writer_behind_leaves_a_flush(void **state)
{
    (void)state;
    struct fixture x;
    int status;
    fixture_init(&x, TB_MODE_PERSISTENT_SYNC);
    fixture_start(&x);
    tb_engine_atfork_prepare(x.engine);
    pid_t child = fork();
    if (child == 0) {
        tb_engine_atfork_child(x.engine);
        int fd = TB_IO(x.io, open, fixture_path(&x, "f"), O_RDWR | O_CREAT, 0600);
        bool ok = tb_engine_set_mode(x.engine, fd, TB_MODE_PERSISTENT_ASYNC) == 0 && TB_IO(x.io, pwrite, fd, "behind", 6, 0) == 6;
        raise(ok ? SIGKILL : SIGABRT);
    }
    tb_engine_atfork_parent(x.engine);
    waitpid(child, &status, 0);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    assert_int_equal(tb_repair(x.engine), 1);
    uint32_t file = tb_flush_dequeue(x.engine);
    assert_int_not_equal(file, TB_NONE);
    assert_true(x.engine->region.files[file].flags & TB_FILE_SYNC); /* no process has it open: its prefix's mode again */
    assert_int_equal(tb_engine_flush(x.engine, -1), 1);
    assert_true(pfs_has(&x, "behind"));
    fixture_stop(&x);
}

static void bypass_passes_through(void **state)
{
    (void)state;
    struct fixture x;
    fixture_init(&x, TB_MODE_PERSISTENT_ASYNC);
    fixture_start(&x);
    int fd = open_f(&x);
    write_f(&x, fd, "one");
    assert_int_equal(tb_engine_set_mode(x.engine, fd, TB_MODE_BYPASS), 0);
    assert_promise(&x, fd, TB_MODE_BYPASS, TB_FSYNC_PFS);
    assert_true(pfs_has(&x, "one"));
    write_f(&x, fd, "two");
    assert_true(pfs_has(&x, "two"));
    assert_int_equal(tb_engine_set_mode(x.engine, fd, TB_MODE_BYPASS), 0);
    assert_int_equal(tb_engine_set_mode(x.engine, fd, TB_MODE_PERSISTENT_SYNC), -EBUSY);
    close_f(&x, fd);
    fd = open_f(&x);
    assert_promise(&x, fd, TB_MODE_PERSISTENT_ASYNC, TB_FSYNC_TIER);
    close_f(&x, fd);
    fixture_stop(&x);
}

static void fsync_can_promise_more(void **state)
{
    (void)state;
    struct fixture x;
    fixture_init(&x, TB_MODE_PERSISTENT_ASYNC);
    fixture_start(&x);
    for (int stronger = 1; stronger >= 0; stronger--) { /* the second open promises what is configured again */
        int fd = open_f(&x);
        const char *text = stronger ? "on the PFS" : "in a tier ";
        if (stronger)
            assert_int_equal(tb_engine_set_fsync(x.engine, fd, TB_FSYNC_PFS), 0);
        assert_promise(&x, fd, TB_MODE_PERSISTENT_ASYNC, stronger ? TB_FSYNC_PFS : TB_FSYNC_TIER);
        write_f(&x, fd, text);
        assert_int_equal(TB_IO(x.io, fsync, fd, false), 0);
        assert_int_equal(pfs_has(&x, text), stronger);
        assert_int_equal(x.engine->header->journal.n_journaled, !stronger);
        close_f(&x, fd);
    }
    fixture_stop(&x);
}

static void refusals(void **state)
{
    (void)state;
    struct fixture x;
    enum tb_mode mode;
    enum tb_fsync fsync;
    fixture_init(&x, TB_MODE_PERSISTENT_ASYNC);
    x.config.fsync = TB_FSYNC_PFS;
    x.config.n_prefixes = 2;
    snprintf(x.config.prefixes[1].prefix, sizeof(x.config.prefixes[1].prefix), "%s/scratch", x.pfs);
    x.config.prefixes[1].mode = TB_MODE_SCRATCH;
    assert_int_equal(mkdir(x.config.prefixes[1].prefix, 0700), 0);
    fixture_start(&x);
    struct tb_io *io = &x.engine->any.io; /* x.io is the chain of another prefix */
    int fd = open_f(&x), scratch = TB_IO(io, open, fixture_path(&x, "scratch/f"), O_RDWR | O_CREAT, 0600);
    assert_true(scratch >= 0);
    assert_int_equal(tb_engine_set_mode(x.engine, 1000, TB_MODE_BYPASS), -EBADF);
    assert_int_equal(tb_engine_set_fsync(x.engine, 1000, TB_FSYNC_PFS), -EBADF);
    assert_int_equal(tb_engine_promise(x.engine, 1000, &mode, &fsync), -EBADF);
    assert_int_equal(tb_engine_set_mode(x.engine, fd, TB_MODE_BYPASS + 1), -EINVAL);
    assert_int_equal(tb_engine_set_fsync(x.engine, fd, TB_FSYNC_NONE + 1), -EINVAL);
    assert_int_equal(tb_engine_set_mode(x.engine, fd, TB_MODE_SCRATCH), -EOPNOTSUPP);
    assert_int_equal(tb_engine_set_fsync(x.engine, fd, TB_FSYNC_TIER), -EPERM); /* weaker */
    assert_int_equal(tb_engine_set_fsync(x.engine, fd, TB_FSYNC_NONE), -EPERM);
    assert_int_equal(tb_engine_set_fsync(x.engine, fd, TB_FSYNC_PFS), 0);
    assert_int_equal(tb_engine_set_mode(x.engine, scratch, TB_MODE_SCRATCH), 0);
    assert_int_equal(tb_engine_set_mode(x.engine, scratch, TB_MODE_PERSISTENT_SYNC), -EOPNOTSUPP);
    assert_int_equal(tb_engine_set_fsync(x.engine, scratch, TB_FSYNC_NONE), 0);
    assert_int_equal(tb_engine_set_fsync(x.engine, scratch, TB_FSYNC_PFS), -EOPNOTSUPP);
    assert_promise(&x, scratch, TB_MODE_SCRATCH, TB_FSYNC_NONE);
    assert_promise(&x, fd, TB_MODE_PERSISTENT_ASYNC, TB_FSYNC_PFS);
    close_f(&x, scratch);
    close_f(&x, fd);
    fixture_stop(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(write_through_is_for_all_until_the_last_close),
        cmocka_unit_test(write_behind_is_flushed_at_close),
        cmocka_unit_test(a_killed_writer_behind_leaves_a_flush),
        cmocka_unit_test(bypass_passes_through),
        cmocka_unit_test(fsync_can_promise_more),
        cmocka_unit_test(refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
