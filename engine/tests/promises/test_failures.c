/*
 * ENOSPC and EIO from the PFS and from tier directories, in every mode and policy:
 * what was promised stays, the call that asked gets the error (write, fsync, close,
 * drain, status), and when the place works again a drain puts everything on the PFS.
 */
#include "fixture.h"

#include <errno.h>

#include "base/report.h"
#include "instance/drain.h"
#include "recovery/recover.h"
#include "io/io_layer.h"
#include "region/counters.h"

#define BYTES 400000u

/* A base of which one operation at one place fails while `error` is set. */
static struct {
    struct tb_io io;
    struct tb_io_ops ops;
    const char *operation;
    char path[300];
    int error;
} broken;

static int failure(const char *operation, int fd)
{
    char link[64], path[600] = "";
    if (!broken.error || strcmp(operation, broken.operation) != 0)
        return 0;
    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof(path) - 1);
    return n > 0 && strncmp(path, broken.path, strlen(broken.path)) == 0 ? -broken.error : 0;
}

static ssize_t broken_pwrite(struct tb_io *io, int fd, const void *buf, size_t n, off_t offset)
{
    int error = failure("pwrite", fd);
    return error ? error : TB_IO(io->next, pwrite, fd, buf, n, offset);
}

static ssize_t broken_pread(struct tb_io *io, int fd, void *buf, size_t n, off_t offset)
{
    int error = failure("pread", fd);
    return error ? error : TB_IO(io->next, pread, fd, buf, n, offset);
}

static int broken_fsync(struct tb_io *io, int fd, bool data_only)
{
    int error = failure("fsync", fd);
    return error ? error : TB_IO(io->next, fsync, fd, data_only);
}

static int broken_close(struct tb_io *io, int fd)
{
    int error = failure("close", fd), rc = TB_IO(io->next, close, fd);
    return error ? error : rc;
}

struct situation {
    const char *place, *operation;
    int error;
    enum tb_mode mode;
    enum tb_flush_policy policy;
    enum tb_fsync fsync;
    bool crash; /* the region is lost while the place is broken */
};

static char text[300];

static const char *describe(const struct situation *s)
{
    snprintf(text, sizeof(text), "%s %s %s, mode %d, policy %d, fsync %s%s", s->place, s->operation, strerrorname_np(s->error), s->mode,
             s->policy, tb_fsync_name(s->fsync), s->crash ? ", crash" : "");
    return text;
}

static void start(struct fixture *x, const struct situation *s)
{
    static const struct tb_io_ops ops = {
        .name = "broken", .pwrite = broken_pwrite, .pread = broken_pread, .fsync = broken_fsync, .close = broken_close};
    fixture_init(x, s->mode);
    x->config.fsync = s->fsync;
    x->config.flush.policy = s->policy;
    x->config.organizer.enabled = false;
    tb_io_layer_init(&broken.io, &broken.ops, &ops, tb_io_libc());
    broken.operation = s->operation;
    broken.error = 0;
    snprintf(broken.path, sizeof(broken.path), "%s/%s", x->root, s->place);
    x->base = &broken.io;
    fixture_start(x);
}

/* What the file holds, and which of it may be older or missing. */
struct model {
    unsigned char now[BYTES], promised[BYTES];
    bool is_promised[BYTES], unsure[BYTES];
};
static struct model m;

static int write_at(struct fixture *x, int fd, unsigned offset, unsigned n, unsigned seed)
{
    static unsigned char bytes[BYTES];
    for (unsigned i = 0; i < n; i++)
        bytes[i] = (unsigned char)(1 + (i * 7 + seed * 31 + (i >> 8)) % 255);
    ssize_t w = TB_IO(x->io, pwrite, fd, bytes, n, offset);
    size_t done = w > 0 ? (size_t)w : 0;
    memcpy(m.now + offset, bytes, done);
    for (unsigned i = offset + (unsigned)done; i < offset + n; i++)
        m.unsure[i] = true; /* it said so: these bytes may be the one or the other */
    return w < 0 ? (int)w : 0;
}

static int sync_file(struct fixture *x, int fd)
{
    int rc = TB_IO(x->io, fsync, fd, false);
    if (rc)
        return rc;
    memcpy(m.promised, m.now, BYTES);
    memset(m.is_promised, 1, BYTES);
    return 0;
}

static void count_error(void *arg, const struct tb_file_report *r)
{
    *(int *)arg += r->error != 0;
}

static void check_pfs(struct fixture *x, const struct situation *s, bool all)
{
    static unsigned char found[BYTES];
    memset(found, 0, sizeof(found));
    int fd = open(fixture_path(x, "f"), O_RDONLY);
    assert_true(fd >= 0 && pread(fd, found, BYTES, 0) >= 0);
    close(fd);
    for (unsigned i = 0; i < BYTES; i++) {
        bool right =
            found[i] == m.now[i] || m.unsure[i] || (!all && m.is_promised[i] && found[i] == m.promised[i]) || (!all && !m.is_promised[i]);
        if (!right)
            fail_msg("%s: byte %u is %u, not %u", describe(s), i, found[i], m.now[i]);
    }
}

/* The place works again: a drain, or recovery, and nothing is missing. */
static void mend(struct fixture *x, const struct situation *s)
{
    struct tb_error err = {""};
    int errors = 0;
    broken.error = 0;
    if (s->crash) {
        fixture_lose_region(x);
        int n = tb_instance_recover(&x->config, tb_io_libc(), NULL, count_error, &errors, &err);
        if (n < 0 || errors)
            fail_msg("%s: recovery says %d", describe(s), n);
    } else {
        int rc = tb_instance_drain(x->engine, 1, NULL, count_error, &errors);
        if (rc || errors)
            fail_msg("%s: the drain that should work says %d", describe(s), rc);
    }
    check_pfs(x, s, !s->crash);
}

static void fail_and_mend(const struct situation *s)
{
    struct fixture x;
    int errors = 0, listed = 0;
    start(&x, s);
    memset(&m, 0, sizeof(m));
    int fd = TB_IO(x.io, open, fixture_path(&x, "f"), O_RDWR | O_CREAT, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write_at(&x, fd, 0, 300000, 1), 0);
    assert_int_equal(sync_file(&x, fd), 0);
    assert_int_equal(write_at(&x, fd, 5000, 70000, 2), 0);
    broken.error = s->error;
    int told = write_at(&x, fd, 200, 3000, 3) != 0;
    told |= write_at(&x, fd, 290000, 100000, 4) != 0;
    told |= sync_file(&x, fd) != 0;
    bool had_dirty = tb_tier_dirty(x.engine->header, 0) || tb_tier_dirty(x.engine->header, 1) || tb_tier_dirty(x.engine->header, 2);
    told |= TB_IO(x.io, close, fd) != 0;
    if (!s->crash) {
        told |= tb_instance_drain(x.engine, 1, NULL, count_error, &errors) != 0;
        tb_instance_errors(x.engine, count_error, &listed);
        if (errors && !listed)
            fail_msg("%s: the drain failed and status lists nothing", describe(s));
        if (!told)
            check_pfs(&x, s, true); /* no call returned an error */
        if (had_dirty && strcmp(s->place, "pfs") == 0 && strcmp(s->operation, "pwrite") == 0 && !errors)
            fail_msg("%s: the drain worked on a broken PFS", describe(s));
    }
    mend(&x, s);
    fixture_stop(&x);
}

static void everywhere(bool crash)
{
    static const char *const places[] = {"pfs", "nvme", "bb"}, *const operations[] = {"pwrite", "fsync", "pread"};
    static const int errors[] = {ENOSPC, EIO};
    static const enum tb_mode modes[] = {TB_MODE_PERSISTENT_ASYNC, TB_MODE_PERSISTENT_SYNC};
    static const enum tb_flush_policy policies[] = {TB_FLUSH_ON_CLOSE, TB_FLUSH_WATERMARK, TB_FLUSH_MANUAL};
    static const enum tb_fsync syncs[] = {TB_FSYNC_TIER, TB_FSYNC_PFS};
    for (int i = 0; i < 3 * 3 * 2 * 2 * 3 * 2; i++) {
        struct situation s = {
            places[i % 3], operations[i / 3 % 3], errors[i / 9 % 2], modes[i / 18 % 2], policies[i / 36 % 3], syncs[i / 108 % 2], crash};
        fail_and_mend(&s);
    }
}

static void errors_are_told_and_retried(void **state)
{
    (void)state;
    everywhere(false);
}

static void promises_outlive_errors_and_the_region(void **state)
{
    (void)state;
    everywhere(true);
}

/* NFS, or a quota: that a write failed is told by close alone, and the bytes are not on the PFS. */
static void a_close_that_fails_keeps_the_bytes(void **state)
{
    static const struct situation s = {"pfs", "close", EDQUOT, TB_MODE_PERSISTENT_ASYNC, TB_FLUSH_MANUAL, TB_FSYNC_PFS, false};
    char found[5] = "";
    struct fixture x;
    (void)state;
    start(&x, &s);
    int fd = TB_IO(x.io, open, fixture_path(&x, "f"), O_RDWR | O_CREAT, 0600);
    assert_int_equal(TB_IO(x.io, pwrite, fd, "bytes", 5, 0), 5);
    broken.error = s.error;
    assert_int_equal(tb_engine_flush(x.engine, -1), -EDQUOT);
    broken.error = 0;
    int pfs = open(fixture_path(&x, "f"), O_RDWR | O_CLOEXEC);
    assert_int_equal(pwrite(pfs, "wrong", 5, 0), 5);
    assert_int_equal(tb_engine_flush(x.engine, -1), 1);
    assert_int_equal(pread(pfs, found, 5, 0), 5);
    assert_memory_equal(found, "bytes", 5);
    close(pfs);
    assert_int_equal(TB_IO(x.io, fsync, fd, false), -EDQUOT);
    assert_int_equal(TB_IO(x.io, close, fd), 0);
    fixture_stop(&x);
}

/*
 * The system reports lost bytes once to each descriptor, no matter which process wrote them; the next sync returns 0. So what was in
 * the slab, or in the journal, is promised on the PFS.
 */
static void what_a_failed_sync_covered_is_not_believed(void **state)
{
    static const struct situation s = {"nvme", "fsync", EIO, TB_MODE_PERSISTENT_ASYNC, TB_FLUSH_MANUAL, TB_FSYNC_TIER, false};
    char found[6] = "";
    struct fixture x;
    start(&x, &s);
    if (*state)
        fixture_promise_in_slabs(&x);
    int told = TB_IO(x.io, open, fixture_path(&x, "f"), O_RDWR | O_CREAT, 0600);
    int other = TB_IO(x.io, open, fixture_path(&x, "g"), O_RDWR | O_CREAT, 0600);
    assert_int_equal(TB_IO(x.io, pwrite, told, "first", 5, 0), 5);
    assert_int_equal(TB_IO(x.io, pwrite, other, "other", 5, 0), 5);
    uint64_t before = x.engine->header->totals.pfs_written;
    assert_int_equal(TB_IO(x.io, fsync, other, false), 0);
    assert_int_equal(x.engine->header->totals.pfs_written, before);
    assert_int_equal(TB_IO(x.io, pwrite, other, "again", 5, 0), 5);
    broken.error = s.error;
    assert_int_equal(TB_IO(x.io, fsync, told, false), -EIO); /* the journal is there too */
    broken.error = 0;
    assert_int_equal(TB_IO(x.io, fsync, other, false), 0);
    int pfs = open(fixture_path(&x, "g"), O_RDONLY | O_CLOEXEC);
    assert_int_equal(pread(pfs, found, 5, 0), 5);
    assert_string_equal(found, "again");
    close(pfs);
    assert_int_equal(TB_IO(x.io, close, told), 0);
    assert_int_equal(TB_IO(x.io, close, other), 0);
    fixture_stop(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_close_that_fails_keeps_the_bytes),
        cmocka_unit_test_prestate(what_a_failed_sync_covered_is_not_believed, "slabs"),
        cmocka_unit_test_prestate(what_a_failed_sync_covered_is_not_believed, NULL),
        cmocka_unit_test(errors_are_told_and_retried),
        cmocka_unit_test(promises_outlive_errors_and_the_region),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
