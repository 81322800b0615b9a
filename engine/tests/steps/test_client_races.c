/*
 * The slot of a client that has ended is given to another while a repair looks at it: the
 * repair frees only what is dead when it holds the lock.
 */
#include "scene.h"

#include "layer/repair.h"
#include "region/clients.h"

static uint32_t slot;

/* As a fork does: a slot in the parent's name. A start time of no process makes the process seem to have ended. */
static void take_dead_slot(struct scene *s)
{
    slot = tb_client_take_slot(s->x.engine, s->x.engine->region.n_clients);
    assert_true(slot != TB_NONE);
    s->x.engine->region.clients[slot].start_time = 1;
}

/* Another repair frees the slot, and the same parent forks again. */
static void repair_and_fork_again(struct scene *s)
{
    s->x.engine->region.clients[slot].pid = 0;
    assert_int_equal(tb_client_take_slot(s->x.engine, s->x.engine->region.n_clients), slot);
}

static void taken_again_by_the_same_parent(void **state)
{
    struct scene *s = *state;
    take_dead_slot(s);
    meet(s, "slot looks dead", repair_and_fork_again);
    assert_int_equal(tb_repair(s->x.engine), 0);
    assert_int_equal(s->x.engine->region.clients[slot].pid, getpid());
    s->x.engine->region.clients[slot].pid = 0;
}

/* What is dead is repaired as before. */
static void dead_and_not_taken(void **state)
{
    struct scene *s = *state;
    take_dead_slot(s);
    assert_int_equal(tb_repair(s->x.engine), 1);
    assert_int_equal(s->x.engine->region.clients[slot].pid, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        scene_test(taken_again_by_the_same_parent),
        scene_test(dead_and_not_taken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
