/* Every call is made once, by any thread; those that wait do so side by side; where none waits no thread is woken. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "stage/copy/waiters.h"

enum { CALLERS = 3, ROUNDS = 50, CALLS = 64 };

static struct tb_waiters waiters;

static void wait_a_little(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
}

static void count(void *calls, unsigned i)
{
    atomic_fetch_add(&((atomic_int *)calls)[i], 1);
    if (i % 7 == 0)
        wait_a_little();
}

static void *call(void *failed)
{
    for (int round = 0; round < ROUNDS; round++) {
        atomic_int calls[CALLS] = {0};
        tb_waiters_do(&waiters, CALLS, count, calls);
        for (int i = 0; i < CALLS; i++)
            if (calls[i] != 1)
                *(atomic_bool *)failed = true;
    }
    return NULL;
}

static void test_each_call_is_made_once(void **state)
{
    pthread_t caller[CALLERS];
    atomic_bool failed = false;
    (void)state;
    tb_waiters_begin(&waiters);
    for (int i = 0; i < CALLERS; i++)
        assert_int_equal(pthread_create(&caller[i], NULL, call, &failed), 0);
    for (int i = 0; i < CALLERS; i++)
        pthread_join(caller[i], NULL);
    tb_waiters_do(&waiters, 0, count, NULL);
    tb_waiters_end(&waiters);
    assert_false(failed);
}

/* The first waits, so that others are woken; the rest come back when all are in it, or after a time that no machine needs for that. */
static void meet(void *inside, unsigned i)
{
    if (i > 0)
        atomic_fetch_add((atomic_uint *)inside, 1);
    wait_a_little();
    for (int n = 0; i > 0 && *(atomic_uint *)inside < TB_WAITERS + 1 && n < 4000; n++)
        wait_a_little();
}

static void test_calls_that_wait_do_so_side_by_side(void **state)
{
    atomic_uint inside = 0;
    time_t start = time(NULL);
    (void)state;
    tb_waiters_begin(&waiters);
    assert_int_equal(waiters.n, TB_WAITERS);
    nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL); /* they have nothing to do by now, and have to be woken */
    assert_true(tb_waiters_do(&waiters, TB_WAITERS + 2, meet, &inside));
    tb_waiters_end(&waiters);
    assert_int_equal(inside, TB_WAITERS + 1);
    assert_true(time(NULL) - start < 10); /* else they came one after another */
}

static int wake_ups;

int __wrap_pthread_cond_signal(pthread_cond_t *cond);
int __real_pthread_cond_signal(pthread_cond_t *cond);

int __wrap_pthread_cond_signal(pthread_cond_t *cond)
{
    wake_ups++;
    return __real_pthread_cond_signal(cond);
}

static void do_nothing(void *arg, unsigned i)
{
    (void)arg;
    (void)i;
}

/* Another program may take the processor for so long that a call looks as if it waited: so in one of many tries. */
static void test_calls_that_do_not_wait_wake_no_thread(void **state)
{
    bool quiet = false;
    (void)state;
    tb_waiters_begin(&waiters);
    for (int round = 0; round < 1000 && !quiet; round++) {
        wake_ups = 0;
        tb_waiters_do(&waiters, CALLS, do_nothing, NULL);
        quiet = wake_ups == 0;
    }
    tb_waiters_end(&waiters);
    assert_true(quiet);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_call_is_made_once),
        cmocka_unit_test(test_calls_that_wait_do_so_side_by_side),
        cmocka_unit_test(test_calls_that_do_not_wait_wake_no_thread),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
