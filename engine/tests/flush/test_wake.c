/* Files that wait for a flush call the daemon only while it sleeps, and only once. */
#include "fixture.h"

#include <linux/futex.h>
#include <sys/syscall.h>

#include "base/clock.h"
#include "flush/flush.h"
#include "flush/queue.h"
#include "instance/background.h"

long __real_syscall(long number, long a, long b, long c, long d, long e, long f);
long __wrap_syscall(long number, long a, long b, long c, long d, long e, long f);

static _Atomic uint32_t n_wakes;

long __wrap_syscall(long number, long a, long b, long c, long d, long e, long f)
{
    n_wakes += number == SYS_futex && b == FUTEX_WAKE;
    return __real_syscall(number, a, b, c, d, e, f);
}

static void start(struct fixture *x)
{
    fixture_init(x, TB_MODE_PERSISTENT_ASYNC);
    x->config.flush.policy = TB_FLUSH_ON_CLOSE;
    x->config.flush.background = true;
    fixture_start(x);
    assert_int_equal(tb_instance_become_daemon(x->engine), 0);
}

static void write_and_close(struct fixture *x, const char *name)
{
    int fd = TB_IO(x->io, open, fixture_path(x, name), O_RDWR | O_CREAT, 0600);
    assert_true(fd >= 0);
    assert_int_equal(TB_IO(x->io, pwrite, fd, "dirty", 5, 0), 5);
    assert_int_equal(TB_IO(x->io, close, fd), 0);
}

static void a_daemon_at_work_is_not_called(void **state)
{
    struct fixture x;
    (void)state;
    start(&x);
    x.engine->header->queue.asleep = false;
    n_wakes = 0;
    uint32_t event = x.engine->header->queue.event;
    write_and_close(&x, "a");
    write_and_close(&x, "b");
    assert_int_equal(x.engine->header->queue.event, event + 2);
    assert_int_equal(n_wakes, 0);
    fixture_stop(&x);
}

static void a_sleeping_daemon_is_called_once(void **state)
{
    struct fixture x;
    (void)state;
    start(&x);
    x.engine->header->queue.asleep = true;
    n_wakes = 0;
    write_and_close(&x, "a");
    write_and_close(&x, "b");
    write_and_close(&x, "c");
    assert_int_equal(n_wakes, 1);
    fixture_stop(&x);
}

/* One that looks first finds what came in between without a word of sleep: the next client need not call. */
static void a_thread_that_looks_first_sleeps_only_where_nothing_comes(void **state)
{
    struct fixture x;
    (void)state;
    start(&x);
    struct tb_queue *q = &x.engine->header->queue;
    q->asleep = false;
    tb_flush_wait(x.engine, q->event - 1, true);
    assert_false(q->asleep);
    tb_flush_wait(x.engine, q->event, true); /* nothing comes: its time runs out */
    assert_true(q->asleep);
    fixture_stop(&x);
}

/* Its flush threads say so when they sleep, and what is put in then is flushed. */
static void threads_without_work_sleep(void **state)
{
    struct fixture x;
    struct stat st = {0};
    (void)state;
    start(&x);
    assert_int_equal(tb_background_start(x.engine), 0);
    uint64_t end = tb_now_ns() + 20000000000ull;
    while (!x.engine->header->queue.asleep && tb_now_ns() < end)
        usleep(1000);
    assert_true(x.engine->header->queue.asleep);
    write_and_close(&x, "a");
    while ((stat(fixture_path(&x, "a"), &st) || st.st_size != 5) && tb_now_ns() < end)
        usleep(1000);
    assert_int_equal(st.st_size, 5);
    assert_int_equal(tb_background_stop(x.engine), 0);
    fixture_stop(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_daemon_at_work_is_not_called),
        cmocka_unit_test(a_sleeping_daemon_is_called_once),
        cmocka_unit_test(a_thread_that_looks_first_sleeps_only_where_nothing_comes),
        cmocka_unit_test(threads_without_work_sleep),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
