/*
 * What a process that ended left behind is looked for among all buffers where it was in a call, or told none of its calls; and is
 * not where it said that no call is under way.
 */
#include "fixture.h"

#include <pthread.h>
#include <sys/wait.h>

#include "buffer/slab.h"
#include "instance/invariants.h"
#include "layer/repair.h"

typedef void act(tb_engine *e);

/* It takes a buffer and never gives it back. */
static void leave_a_buffer(tb_engine *e)
{
    assert_non_null(tb_slab_take(e, 0, 0));
}

static void tell_nothing(tb_engine *e)
{
    leave_a_buffer(e);
}

static void end_in_a_call(tb_engine *e)
{
    tb_engine_tells_calls(e);
    tb_engine_call_begins(e);
    leave_a_buffer(e);
}

static void end_after_a_call(tb_engine *e)
{
    tb_engine_tells_calls(e);
    tb_engine_call_begins(e);
    tb_engine_call_ends(e);
    leave_a_buffer(e);
}

static void *begin_a_call(void *e)
{
    tb_engine_call_begins(e);
    leave_a_buffer(e);
    return NULL;
}

static void end_while_a_thread_is_in_a_call(tb_engine *e)
{
    pthread_t thread;
    tb_engine_tells_calls(e);
    assert_int_equal(pthread_create(&thread, NULL, begin_a_call, e), 0);
    pthread_join(thread, NULL);
}

/* How many buffers are missing after a child did that, ended, and was repaired. */
static uint32_t missing_after(struct fixture *x, act *act)
{
    uint32_t before = tb_slab_n_free(x->engine, 0);
    tb_engine_atfork_prepare(x->engine);
    pid_t child = fork();
    if (child == 0) {
        tb_engine_atfork_child(x->engine);
        act(x->engine);
        _exit(0);
    }
    tb_engine_atfork_parent(x->engine);
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_int_equal(tb_repair(x->engine), 1);
    return before - tb_slab_n_free(x->engine, 0);
}

static void buffers_are_looked_for_where_some_may_be_lost(void **state)
{
    struct fixture x;
    (void)state;
    fixture_init(&x, TB_MODE_PERSISTENT_ASYNC);
    fixture_start(&x);
    assert_int_equal(missing_after(&x, tell_nothing), 0);
    assert_int_equal(missing_after(&x, end_in_a_call), 0);
    assert_int_equal(missing_after(&x, end_while_a_thread_is_in_a_call), 0);
    assert_int_equal(missing_after(&x, end_after_a_call), 1);
    assert_int_equal(missing_after(&x, tell_nothing), (uint32_t)-1); /* it finds the other one, too */
    assert_true(tb_region_is_valid(x.engine));
    fixture_stop(&x);
}

static void leave_the_call_and_a_buffer(tb_engine *e)
{
    tb_engine_call_ends(e);
    leave_a_buffer(e);
}

/* A child of a process that tells its calls is in the one in which it was forked, until it ends that. */
static void a_child_tells_as_its_parent(void **state)
{
    struct fixture x;
    (void)state;
    fixture_init(&x, TB_MODE_PERSISTENT_ASYNC);
    fixture_start(&x);
    tb_engine_tells_calls(x.engine);
    tb_engine_call_begins(x.engine);
    assert_int_equal(missing_after(&x, leave_a_buffer), 0);
    assert_int_equal(missing_after(&x, leave_the_call_and_a_buffer), 1);
    assert_int_equal(missing_after(&x, leave_a_buffer), (uint32_t)-1);
    tb_engine_call_ends(x.engine);
    assert_int_equal(x.engine->region.clients[x.engine->slot].calls_first, 0);
    fixture_stop(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(buffers_are_looked_for_where_some_may_be_lost),
        cmocka_unit_test(a_child_tells_as_its_parent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
