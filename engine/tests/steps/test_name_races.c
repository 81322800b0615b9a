/* Others give, take and replace the name that one unlinks or renames. */
#include "scene.h"

static void replace_file(struct scene *s)
{
    unlink_name(s, "f");
    s->other = make(s, "f");
}

/* Who unlinks had looked the name up when another made it another file's. */
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
    assert_int_equal(s->x.io->ops->link(s->x.io, fixture_path(&s->x, "f"), g), 0);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        scene_test(unlinked_while_replaced),
        scene_test(both_names_unlinked),
        scene_test(renamed_over_while_replaced),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
