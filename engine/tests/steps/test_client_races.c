/*
 * What others do while a repair is at work: the slot of a client that has ended is given to
 * another, and a fragment goes from the list to a buffer that is not published, or back. The
 * repair frees only what is dead and unused when it holds the locks.
 */
#include "scene.h"

#include "buffer/heat.h"
#include "buffer/interval.h"
#include "buffer/slab.h"
#include "buffer/swap.h"
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

static void repair(struct scene *s)
{
    assert_int_equal(tb_repair(s->x.engine), 1);
}

/* Each once: one that is there twice would be two buffers'. */
static uint32_t free_fragments(const tb_engine *e)
{
    size_t per = e->header->layout.fragment_bytes / sizeof(struct tb_interval);
    uint32_t n = 0;
    for (uint32_t i = e->header->fragments.free; i != TB_NONE && n <= e->header->layout.n_fragments; n++)
        memcpy(&i, &e->region.fragments[i * per], sizeof(i));
    return n;
}

static void add(struct scene *s, struct tb_buffer *b, uint32_t block)
{
    assert_int_equal(tb_interval_add(s->x.engine, b, block * 4096, (block + 1) * 4096, true), 0);
}

/* A move fills its new buffers without a lock of theirs. */
static void fragments_are_exchanged_beside(void **state)
{
    struct scene *s = *state;
    tb_engine *e = s->x.engine;
    struct tb_buffer *b = tb_tier_take(e, 0, 65536, TB_HEAT_ANY);
    assert_int_equal(tb_buffer_size(e, b), 65536);
    add(s, b, 0);
    take_dead_slot(s);
    meet_beside(s, "splitting", repair);
    add(s, b, 2);
    end_beside(s);
    assert_true(b->fragment != TB_NONE);
    assert_int_equal(free_fragments(e), e->header->layout.n_fragments - 1);
    take_dead_slot(s);
    meet_beside(s, "give fragment", repair);
    add(s, b, 1);
    end_beside(s);
    assert_true(b->fragment == TB_NONE);
    assert_int_equal(free_fragments(e), e->header->layout.n_fragments);
    tb_buffer_discard(e, b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        scene_test(taken_again_by_the_same_parent),
        scene_test(dead_and_not_taken),
        scene_test(fragments_are_exchanged_beside),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
