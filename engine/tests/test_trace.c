/* The recorder of a trace: what it counts, whenever it counts; its memory; its clocks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/remove_tree.h"
#include "trace/clock.h"
#include "trace/id.h"
#include "trace/records.h"
#include "trace/settle.h"

static char folder[] = "/tmp/tb-test-trace.XXXXXX";
static struct tb_trace_job job;
static tb_trace *trace;

static int begin(void **state)
{
    char path[64];
    (void)state;
    assert_non_null(mkdtemp(folder));
    struct tb_trace_moment start = tb_trace_moment();
    usleep(20000);
    job = (struct tb_trace_job){.magic = TB_TRACE_MAGIC, .start_ns = start.ns, .start_ticks = start.ticks};
    job.seconds_a_tick = tb_trace_seconds_a_tick(start, tb_trace_moment());
    job.n_mounts = 1;
    job.mounts[0] = (struct tb_trace_mount){.path = "/", .type = "test", .block = 4096};
    snprintf(path, sizeof(path), "%s/job", folder);
    int fd = open(path, O_WRONLY | O_CREAT, 0600);
    assert_true(fd >= 0 && write(fd, &job, sizeof(job)) == (ssize_t)sizeof(job) && close(fd) == 0);
    assert_int_equal(setenv(TB_TRACE_VARIABLE, folder, 1), 0);
    trace = tb_trace_of(TB_TRACE_APPLICATION);
    return trace ? 0 : -1;
}

static int end(void **state)
{
    (void)state;
    return tb_remove_tree(folder, NULL) ? -1 : 0;
}

static double second = 1;
static struct tb_trace_time lasts(double seconds)
{
    struct tb_trace_time t = {second, second + seconds};
    second = t.end + 0.001;
    return t;
}

static struct tb_trace_posix *record_of(int fd)
{
    int number = tb_trace_of_fd(trace, fd);
    assert_true(number >= 0);
    return &trace->file->posix[number];
}

static void file(int fd, const char *name)
{
    tb_trace_open(trace, fd, name, 0644, lasts(0.1));
}

static void moves(int fd, enum tb_trace_access access, int64_t offset, size_t n)
{
    tb_trace_transfer(trace, fd, access, offset, NULL, n, lasts(0.01));
}

static void sizes_fall_where_darshan_has_them(void **state)
{
    static const int64_t last[] = {100, 1 << 10, 10 << 10, 100 << 10, 1 << 20, 4 << 20, 10 << 20, 100 << 20, 1 << 30};
    int64_t bins[10] = {0};
    (void)state;
    for (int i = 0; i < 9; i++) {
        tb_trace_count_size(bins, last[i], 1);
        tb_trace_count_size(bins, last[i] + 1, 2);
    }
    assert_int_equal(bins[0], 1);
    for (int i = 1; i < 9; i++)
        assert_int_equal(bins[i], 3);
    assert_int_equal(bins[9], 2);
}

static void the_first_values_are_told_apart(void **state)
{
    static struct tb_trace_common c;
    (void)state;
    for (int round = 0; round < 3; round++)
        for (int64_t i = 0; i < 40; i++)
            tb_trace_count_common(&c, i * i * 4096, 1);
    assert_int_equal(c.n, TB_TRACE_COMMON);
    for (int64_t i = 0; i < TB_TRACE_COMMON; i++) {
        assert_int_equal(c.value[1 + i], i * i * 4096);
        assert_int_equal(c.count[1 + i], 3);
    }
    assert_int_equal(c.count[0], 3 * 8);
}

static void walk(int fd, bool settle)
{
    uint64_t random = 88172645463325252u;
    for (int i = 0; i < 5000; i++) {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        moves(fd, random & 1 ? TB_TRACE_READ : TB_TRACE_WRITE, (int64_t)(random >> 40), (size_t)(random % 7) * 1000);
        if (i % 500 == 499)
            tb_trace_sync(trace, fd, true, lasts(0.02));
        if (i % 900 == 899)
            tb_trace_open(trace, fd, "/walk", 0644, lasts(0.1));
        if (settle)
            tb_trace_settle(trace->file, record_of(fd));
    }
    tb_trace_settle(trace->file, record_of(fd));
}

static void it_does_not_matter_when_transfers_are_counted(void **state)
{
    struct tb_posix_record late;
    double from = second;
    (void)state;
    file(10, "/walk");
    walk(10, false);
    struct tb_trace_posix *p = record_of(10);
    late = p->record;
    assert_int_equal(late.counters[POSIX_READS] + late.counters[POSIX_WRITES], 5000);
    struct tb_trace_slot slot = p->slot;
    uint32_t unsettled[2] = {p->unsettled[0], p->unsettled[1]};
    memset(p, 0, sizeof(*p));
    p->slot = slot; /* the same file once more, at the same times */
    memcpy(p->unsettled, unsettled, sizeof(unsettled));
    p->record.id = late.id;
    p->record.counters[POSIX_MEM_ALIGNMENT] = 8;
    p->record.counters[POSIX_FILE_ALIGNMENT] = 4096;
    second = from;
    file(10, "/walk");
    walk(10, true);
    assert_memory_equal(&late, &p->record, sizeof(late));
}

static void places_are_counted_as_darshan_does(void **state)
{
    (void)state;
    file(11, "/places");
    struct tb_trace_posix *p = record_of(11);
    int64_t *c = p->record.counters;
    moves(11, TB_TRACE_WRITE, 0, 100);
    moves(11, TB_TRACE_WRITE, TB_TRACE_HERE, 100); /* consecutive */
    moves(11, TB_TRACE_WRITE, 4096, 100);          /* a stride of 3896 */
    moves(11, TB_TRACE_WRITE, 0, 100);             /* back */
    tb_trace_open(trace, 12, "/places", 0, lasts(0.1));
    moves(11, TB_TRACE_WRITE, TB_TRACE_HERE, 100); /* an open sets the offset to 0, and the last byte */
    tb_trace_settle(trace->file, p);
    assert_int_equal(c[POSIX_WRITES], 5);
    assert_int_equal(c[POSIX_CONSEC_WRITES], 1);
    assert_int_equal(c[POSIX_SEQ_WRITES], 2);
    assert_int_equal(c[POSIX_FILE_NOT_ALIGNED], 1);
    assert_int_equal(c[POSIX_MAX_BYTE_WRITTEN], 4195);
    assert_int_equal(p->strides.value[2], 3896);
}

#define THREADS 4
#define CALLS 2000

static void *move_many(void *arg)
{
    (void)arg;
    for (int i = 0; i < CALLS; i++) {
        tb_trace_transfer(trace, 13, TB_TRACE_WRITE, i * 512, NULL, 512, (struct tb_trace_time){i, i + 0.5});
        if (i % 100 == 0)
            tb_trace_sync(trace, 13, false, (struct tb_trace_time){i, i + 0.5});
    }
    return NULL;
}

static void threads_lose_nothing(void **state)
{
    pthread_t threads[THREADS];
    (void)state;
    file(13, "/threads");
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, move_many, NULL), 0);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    struct tb_trace_posix *p = record_of(13);
    tb_trace_settle(trace->file, p);
    assert_int_equal(p->record.counters[POSIX_WRITES], THREADS * CALLS);
    assert_int_equal(p->record.counters[POSIX_BYTES_WRITTEN], THREADS * CALLS * 512);
    assert_int_equal(p->record.counters[POSIX_FSYNCS], THREADS * CALLS / 100);
}

/* Last: it takes all the room there is. */
static void what_does_not_fit_is_counted_all_the_same(void **state)
{
    enum { N = TB_TRACE_SEGMENTS / sizeof(struct tb_dxt_segment) + 1000 };
    (void)state;
    file(14, "/full");
    for (int64_t i = 0; i < N; i++)
        moves(14, TB_TRACE_READ, i, 1);
    struct tb_trace_posix *p = record_of(14);
    tb_trace_settle(trace->file, p);
    assert_int_equal(p->record.counters[POSIX_READS], N);
    assert_int_equal(p->record.counters[POSIX_CONSEC_READS], N - 1);
    assert_true(trace->file->dropped_segments[TB_TRACE_POSIX] >= 1000);
    assert_true(trace->file->segments_used <= TB_TRACE_SEGMENTS);
    char name[32];
    for (int i = 0; i < (int)TB_TRACE_FILES + 10; i++) {
        snprintf(name, sizeof(name), "/many%d", i);
        file(15, name);
    }
    assert_int_equal(trace->file->n[TB_TRACE_POSIX], TB_TRACE_FILES);
    assert_true(trace->file->dropped[TB_TRACE_POSIX] >= 10);
}

static void names_have_darshans_ids(void **state)
{
    (void)state;
    assert_true(tb_trace_id("<STDOUT>") == 15920181672442173319u);
    assert_true(tb_trace_id("<STDERR>") == 7238257241479193519u);
}

static void the_clock_is_believed_while_it_keeps_time(void **state)
{
    (void)state;
    assert_true(tb_trace_clocks_agree(&job));
    assert_true(fabs(tb_trace_now() - tb_trace_now_by_kernel()) < 0.005);
    if (!(job.seconds_a_tick > 0))
        return; /* no such counter here */
    struct tb_trace_job fast = job;
    fast.seconds_a_tick *= 2;
    assert_false(tb_trace_clocks_agree(&fast));
    tb_trace_clock_begin(&fast);
    assert_true(tb_trace_clock.seconds_a_tick == 0);
    assert_true(fabs(tb_trace_now() - tb_trace_now_by_kernel()) < 0.005);
    tb_trace_clock_begin(&job);
    assert_true(tb_trace_clock.seconds_a_tick == job.seconds_a_tick);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_fall_where_darshan_has_them),
        cmocka_unit_test(the_first_values_are_told_apart),
        cmocka_unit_test(it_does_not_matter_when_transfers_are_counted),
        cmocka_unit_test(places_are_counted_as_darshan_does),
        cmocka_unit_test(threads_lose_nothing),
        cmocka_unit_test(names_have_darshans_ids),
        cmocka_unit_test(the_clock_is_believed_while_it_keeps_time),
        cmocka_unit_test(what_does_not_fit_is_counted_all_the_same),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
