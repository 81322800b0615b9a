/*
 * What an fsync to a tier and a removal owe to the PFS: a new file's name, and a
 * removal before the removed file's promised bytes are given up.  A layer below
 * the engine notes what is synced; a power cut itself is played by tests/power.
 */
#include "fixture.h"

#include <errno.h>

static char synced[4096];         /* paths, one a line, in the order of their syncs */
static const char *failing;       /* a path that cannot be synced */
static void (*during_sync)(void); /* what other processes do before a sync ends */

static int note_fsync(struct tb_io *io, int fd, bool data_only)
{
    char link[64], path[300];
    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof(path) - 2);
    assert_true(n > 0);
    memcpy(path + n, "\n", 2);
    strncat(synced, path, sizeof(synced) - strlen(synced) - 1);
    if (during_sync)
        during_sync();
    if (failing && strncmp(path, failing, strlen(failing)) == 0)
        return -EIO;
    return tb_io_libc()->ops->fsync(io, fd, data_only);
}

static struct tb_io *noting(void)
{
    static struct tb_io_ops ops;
    static struct tb_io io = {.ops = &ops};
    ops = *tb_io_libc()->ops;
    ops.fsync = note_fsync;
    return &io;
}

static void begin(struct fixture *x)
{
    fixture_init(x, TB_MODE_PERSISTENT_ASYNC);
    x->base = noting();
    fixture_start(x);
}

static const char *in_pfs(struct fixture *x, const char *name)
{
    static char path[2][400];
    static int turn;
    char *out = path[turn++ % 2];
    snprintf(out, sizeof(path[0]), "%s/%s", x->pfs, name);
    return out;
}

static int write_new(struct fixture *x, const char *name)
{
    int fd = TB_IO(x->io, open, in_pfs(x, name), O_CREAT | O_RDWR, 0600);
    assert_true(fd >= 0);
    assert_int_equal(TB_IO(x->io, pwrite, fd, "promised", 8, 0), 8);
    return fd;
}

static int syncs_of(const char *path)
{
    char line[420];
    int n = 0;
    snprintf(line, sizeof(line), "%s\n", path);
    for (const char *at = synced; (at = strstr(at, line)); at += strlen(line))
        n++;
    return n;
}

static void a_new_file_is_synced_on_the_pfs_by_its_first_fsync(void **state)
{
    struct fixture x;
    (void)state;
    begin(&x);
    int fd = write_new(&x, "new");
    synced[0] = '\0';
    assert_int_equal(TB_IO(x.io, fsync, fd, true), 0);
    assert_int_equal(syncs_of(in_pfs(&x, "new")), 1);
    assert_int_equal(TB_IO(x.io, pwrite, fd, "again", 5, 8), 5);
    assert_int_equal(TB_IO(x.io, fsync, fd, true), 0);
    assert_int_equal(syncs_of(in_pfs(&x, "new")), 1);
    assert_int_equal(TB_IO(x.io, close, fd), 0);
    fixture_stop(&x);
}

static void close_new(struct fixture *x, const char *name, bool promised)
{
    int fd = write_new(x, name);
    if (promised)
        assert_int_equal(TB_IO(x->io, fsync, fd, true), 0);
    assert_int_equal(TB_IO(x->io, close, fd), 0);
}

static void a_name_that_cannot_be_synced_leaves_no_record(void **state)
{
    struct fixture x;
    (void)state;
    begin(&x);
    int fd = write_new(&x, "new");
    failing = in_pfs(&x, "new");
    synced[0] = '\0';
    assert_int_equal(TB_IO(x.io, fsync, fd, true), -EIO);
    assert_null(strstr(synced, "journal\n"));
    assert_int_equal(TB_IO(x.io, fsync, fd, true), -EIO); /* and it is tried again */
    failing = NULL;
    assert_int_equal(TB_IO(x.io, fsync, fd, true), 0);
    assert_int_equal(TB_IO(x.io, close, fd), 0);
    fixture_stop(&x);
}

static struct {
    struct fixture *x;
    int fd, result;
} second;

static void fsync_too(void)
{
    during_sync = NULL;
    second.result = TB_IO(second.x->io, fsync, second.fd, true);
}

static void nobody_relies_on_a_sync_that_has_not_ended(void **state)
{
    struct fixture x;
    (void)state;
    begin(&x);
    int fd = write_new(&x, "new");
    second.x = &x;
    second.fd = fd;
    during_sync = fsync_too;
    failing = in_pfs(&x, "new");
    assert_int_equal(TB_IO(x.io, fsync, fd, true), -EIO);
    assert_int_equal(second.result, -EIO);
    failing = NULL;
    assert_int_equal(TB_IO(x.io, close, fd), 0);
    fixture_stop(&x);
}

static void a_removal_is_durable_before_promised_bytes_are_given_up(void **state)
{
    struct fixture x;
    (void)state;
    begin(&x);
    close_new(&x, "gone", true);
    synced[0] = '\0';
    assert_int_equal(TB_IO(x.io, unlink, in_pfs(&x, "gone"), 0), 0);
    const char *journal = strstr(synced, "journal\n"), *folder = strstr(synced, "/pfs\n");
    assert_non_null(journal); /* the UNLINK record */
    assert_non_null(folder);
    assert_non_null(strstr(folder, "journal\n")); /* the DROP record, after it */
    assert_true(journal < folder);
    fixture_stop(&x);
}

static void a_removal_that_cannot_be_synced_gives_nothing_up(void **state)
{
    struct fixture x;
    (void)state;
    begin(&x);
    close_new(&x, "gone", true);
    failing = x.pfs;
    synced[0] = '\0';
    assert_int_equal(TB_IO(x.io, unlink, in_pfs(&x, "gone"), 0), 0);
    const char *folder = strstr(synced, "/pfs\n");
    assert_non_null(folder);
    assert_null(strstr(folder, "journal\n"));
    failing = NULL;
    fixture_stop(&x);
}

static void a_replaced_file_is_as_a_removed_one(void **state)
{
    struct fixture x;
    (void)state;
    begin(&x);
    close_new(&x, "old", true);
    close_new(&x, "new", false);
    synced[0] = '\0';
    assert_int_equal(TB_IO(x.io, rename, in_pfs(&x, "new"), in_pfs(&x, "old"), 0), 0);
    const char *folder = strstr(synced, "/pfs\n");
    assert_non_null(folder);
    assert_non_null(strstr(folder, "journal\n"));
    fixture_stop(&x);
}

static void what_was_never_promised_goes_without_a_sync(void **state)
{
    struct fixture x;
    (void)state;
    begin(&x);
    close_new(&x, "other", true);
    close_new(&x, "gone", false);
    synced[0] = '\0';
    assert_int_equal(TB_IO(x.io, unlink, in_pfs(&x, "gone"), 0), 0);
    assert_null(strstr(synced, "/pfs\n"));
    fixture_stop(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_new_file_is_synced_on_the_pfs_by_its_first_fsync),
        cmocka_unit_test(a_name_that_cannot_be_synced_leaves_no_record),
        cmocka_unit_test(nobody_relies_on_a_sync_that_has_not_ended),
        cmocka_unit_test(a_removal_is_durable_before_promised_bytes_are_given_up),
        cmocka_unit_test(a_removal_that_cannot_be_synced_gives_nothing_up),
        cmocka_unit_test(a_replaced_file_is_as_a_removed_one),
        cmocka_unit_test(what_was_never_promised_goes_without_a_sync),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
