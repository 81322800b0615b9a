/* Others give, take and replace the name that one unlinks or renames. */
#include "scene.h"

#include "layer/repair.h"

static void replace_file(struct scene *s)
{
    unlink_name(s, "f");
    s->other = make(s, "f");
}

/* A process that unlinks had looked the name up when another made it another file's. */
static void unlinked_while_replaced(void **state)
{
    struct scene *s = *state;
    meet(s, "claim to name", replace_file);
    unlink_name(s, "f");
    assert_true(is_unlinked(s, s->other));
    close_file(s, s->other);
}

static void unlink_other(struct scene *s)
{
    unlink_name(s, "g");
}

/* Both had seen two names. */
static void both_names_unlinked(void **state)
{
    struct scene *s = *state;
    char g[512];
    snprintf(g, sizeof(g), "%s", fixture_path(&s->x, "g"));
    assert_int_equal(TB_IO(s->x.io, link, fixture_path(&s->x, "f"), g), 0);
    meet(s, "claim to name", unlink_other);
    unlink_name(s, "f");
    assert_true(is_unlinked(s, s->fd));
}

static void rename_over(struct scene *s)
{
    s->other = make(s, "g");
    rename_name(s, "g", "f");
}

/* Two atomic saves of one name: the one that is second replaces what the first one put there. */
static void renamed_over_while_replaced(void **state)
{
    struct scene *s = *state;
    int last = make(s, "h");
    meet(s, "claim to name", rename_over);
    rename_name(s, "h", "f");
    assert_true(is_unlinked(s, s->other));
    close_file(s, s->other);
    close_file(s, last);
}

static void rename_and_die(struct scene *s)
{
    meet(s, "rename", die);
    rename_name(s, "f", "g");
}

static void say_and_wait(struct scene *s)
{
    sem_post(&s->waits);
    sem_wait(&s->goes_on);
}

/* The second rename takes the place in the table that the first one freed, if the first one may free it. */
static void rename_twice(struct scene *s)
{
    rename_name(s, "h", "i");
    meet(s, "renamed", say_and_wait);
    rename_name(s, "i", "h");
}

static void begin_to_rename(struct scene *s)
{
    begin_beside(s, rename_twice);
    sem_wait(&s->waits);
}

/* Two clients meet what a killed one was about. One finishes it, and the entry is not another rename's until then. */
static void intent_of_killed_is_finished_once(void **state)
{
    struct scene *s = *state;
    int other = make(s, "h");
    by_killed_client(s, rename_and_die);
    meet(s, "intent taken over", begin_to_rename);
    assert_int_equal(tb_repair(s->x.engine), 1);
    sem_post(&s->goes_on);
    end_beside(s);
    rename_name(s, "f", "g");
    rename_name(s, "h", "f");
    close_file(s, other);
}

static void cut_by_name_and_die(struct scene *s)
{
    close_file(s, s->fd);
    meet(s, "length told", die);
    TB_IO(s->x.io, truncate, fixture_path(&s->x, "f"), 100);
}

/* The cut waits to be finished. A rename before that leaves it so, and the last close finds nothing that cannot be. */
static void renamed_while_a_killed_client_cut(void **state)
{
    struct scene *s = *state;
    put(s, '1', 4096, 0);
    by_killed_client(s, cut_by_name_and_die);
    rename_name(s, "f", "g");
    close_file(s, s->fd);
    s->fd = make(s, "g");
    tb_repair(s->x.engine);
    expect_size(s, 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        scene_test(unlinked_while_replaced),           scene_test(both_names_unlinked),
        scene_test(renamed_over_while_replaced),       scene_test(intent_of_killed_is_finished_once),
        scene_test(renamed_while_a_killed_client_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
