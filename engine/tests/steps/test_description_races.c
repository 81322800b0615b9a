/* A description is closed and opened again while other threads look at it: a look at its earlier life ends no later one. */
#include "scene.h"

#include <sys/single_threaded.h>

#include "layer/descriptions.h"

/* As for a client that was killed: the last slot has none. */
static void repair_descriptions(struct scene *s)
{
    tb_opens_forget_client(s->x.engine, s->x.engine->region.n_clients - 1, false);
}

/* A second repair ends the description, and a program gets it for another file. */
static void end_and_use_again(struct scene *s)
{
    repair_descriptions(s);
    s->other = make(s, "h");
}

static void look_and_be_late(struct scene *s)
{
    meet(s, "description without holder", end_and_use_again);
    repair_descriptions(s);
}

/* Neither the repair that saw no holder nor the program that let go of it may close the file that is in it now. */
static void opened_again_while_repaired(void **state)
{
    struct scene *s = *state;
    int first = make(s, "g");
    const struct tb_open *description = tb_open_of(s->x.engine, first);
    meet(s, "description let go", look_and_be_late);
    close_file(s, first);
    assert_ptr_equal(tb_open_of(s->x.engine, s->other), description);
    assert_true(tb_open_is_whole(s->x.engine, description));
    close_file(s, s->other);
}

/* A repair ends it before the program that let go of it can. The program's descriptor is closed all the same. */
static void ended_by_a_repair(void **state)
{
    struct scene *s = *state;
    int fd = make(s, "g");
    meet(s, "description let go", repair_descriptions);
    close_file(s, fd);
    assert_int_equal(fcntl(fd, F_GETFD), -1);
}

/* With one thread: the end is taken first, so a repair in between finds nothing to end. */
static void closed_by_one_thread_while_repaired(void **state)
{
    struct scene *s = *state;
    int fd = make(s, "g");
    const struct tb_open *description = tb_open_of(s->x.engine, fd);
    __libc_single_threaded = true;
    meet(s, "description end taken", end_and_use_again);
    close_file(s, fd);
    __libc_single_threaded = false;
    assert_ptr_not_equal(tb_open_of(s->x.engine, s->other), description);
    assert_true(tb_open_is_whole(s->x.engine, tb_open_of(s->x.engine, s->other)));
    assert_int_equal(description->magic, 0);
    close_file(s, s->other);
}

int main(void)
{
    __libc_single_threaded = false; /* as in a program with threads, of which others come in between */
    const struct CMUnitTest tests[] = {
        scene_test(opened_again_while_repaired),
        scene_test(ended_by_a_repair),
        scene_test(closed_by_one_thread_while_repaired),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
