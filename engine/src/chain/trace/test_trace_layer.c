/* The trace layer: what Darshan's POSIX module counts is counted, and failed calls are not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/remove_tree.h"
#include "chain/trace/trace.h"
#include "trace/clock.h"
#include "trace/records.h"

static char folder[] = "/tmp/tb-test-traced.XXXXXX";

/* A job's folder, as tierctl makes it. The variable is set before the first chain: a process reads it once. */
static int begin(void **state)
{
    struct tb_trace_moment start = tb_trace_moment();
    struct tb_trace_job job = {.magic = TB_TRACE_MAGIC, .start_ns = start.ns, .start_ticks = start.ticks, .n_mounts = 1};
    char path[64];
    (void)state;
    job.mounts[0] = (struct tb_trace_mount){.path = "/", .type = "test", .block = 4096};
    if (!mkdtemp(folder))
        return -1;
    snprintf(path, sizeof(path), "%s/job", folder);
    int fd = open(path, O_WRONLY | O_CREAT, 0600);
    bool written = fd >= 0 && write(fd, &job, sizeof(job)) == (ssize_t)sizeof(job) && close(fd) == 0;
    return written ? setenv(TB_TRACE_VARIABLE, folder, 1) : -1;
}

/* The recorder outlives the layer, and its file is removed with the folder while it is still mapped. */
static int end(void **state)
{
    (void)state;
    return tb_remove_tree(folder, NULL) ? -1 : 0;
}

/* By the layer's own recorder, which made the record when the name was used. */
static const int64_t *counters_of(const char *path)
{
    tb_trace *t = tb_trace_of(TB_TRACE_STORAGE);
    assert_true(tb_trace_enter(t));
    int number = tb_trace_find(t, TB_TRACE_POSIX, path);
    tb_trace_leave();
    assert_true(number >= 0);
    return t->file->posix[number].record.counters;
}

/* Both stats count as POSIX_STATS, and a rename counts at its old name as source and at its new one as target. */
static void operations_are_counted_as_darshan_counts_them(void **state)
{
    char path[64], other[64];
    struct stat st;
    (void)state;
    snprintf(path, sizeof(path), "%s/file", folder);
    snprintf(other, sizeof(other), "%s/other", folder);
    struct tb_io *io = tb_io_trace_new(NULL, NULL, tb_io_libc());
    assert_string_equal(io->ops->name, "trace");
    assert_int_equal(TB_IO(io, stat, path, &st, 0), -ENOENT); /* failed: not counted */
    int fd = TB_IO(io, open, path, O_RDWR | O_CREAT, 0600);
    assert_int_equal(TB_IO(io, pwrite, fd, "abc", 3, 0), 3);
    assert_int_equal(TB_IO(io, fsync, fd, true), 0);
    assert_int_equal(TB_IO(io, stat, path, &st, 0), 0);
    assert_int_equal(TB_IO(io, fstat, fd, &st), 0);
    assert_int_equal(TB_IO(io, close, fd), 0);
    assert_int_equal(TB_IO(io, rename, path, other, 0), 0);
    const int64_t *c = counters_of(path);
    assert_int_equal(c[POSIX_OPENS], 1);
    assert_int_equal(c[POSIX_WRITES], 1);
    assert_int_equal(c[POSIX_BYTES_WRITTEN], 3);
    assert_int_equal(c[POSIX_FDSYNCS], 1);
    assert_int_equal(c[POSIX_STATS], 2);
    assert_int_equal(c[POSIX_RENAME_SOURCES], 1);
    assert_int_equal(counters_of(other)[POSIX_RENAME_TARGETS], 1);
    io->ops->free(io);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(operations_are_counted_as_darshan_counts_them)};
    return cmocka_run_group_tests(tests, begin, end);
}
