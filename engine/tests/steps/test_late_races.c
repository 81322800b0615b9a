/* An open whose file is asked for when it is used first, while a name goes, a signal's handler uses it, or its process is killed. */
#include "scene.h"

#include "layer/descriptions.h"
#include "layer/repair.h"
#include "region/counters.h"

static void write_name(struct scene *s, const char *name, const char *bytes)
{
    int fd = make(s, name);
    assert_int_equal(TB_IO(s->x.io, pwrite, fd, bytes, strlen(bytes), 0), strlen(bytes));
    close_file(s, fd);
}

static int open_late(struct scene *s, struct tb_io *io, const char *name)
{
    int fd = -1;
    const struct tb_client *c = &s->x.engine->region.clients[s->x.engine->slot];
    for (int i = 0; i < 100 && !(uint32_t)c->late; i++) { /* after one that was used some are not */
        if (fd >= 0)
            assert_int_equal(TB_IO(io, close, fd), 0);
        fd = TB_IO(io, open, fixture_path(&s->x, name), O_RDWR, 0);
        assert_true(fd >= 0);
    }
    return fd;
}

static void expect_text(struct scene *s, int fd, const char *text)
{
    char got[20] = "";
    assert_int_equal(TB_IO(s->x.io, pread, fd, got, sizeof(got) - 1, 0), strlen(text));
    assert_string_equal(got, text);
}

static uint32_t n_open(struct scene *s, int fd)
{
    const struct tb_open *o = tb_open_of(s->x.engine, fd);
    assert_non_null(o);
    return s->x.engine->region.files[o->file].n_open;
}

static void open_other(struct scene *s)
{
    s->other = open_late(s, s->x.io, "g");
}

/* Who takes the name has looked for late opens already: so the open must not be late, and keeps the bytes. */
static void opened_while_its_name_goes(void **state)
{
    struct scene *s = *state;
    tb_engine *other;
    write_name(s, "g", "bytes");
    assert_int_equal(tb_engine_attach(s->x.name, tb_io_libc(), &other), 0);
    meet(s, "unlink", open_other);
    assert_int_equal(TB_IO(tb_engine_route(other, s->x.pfs, NULL), unlink, fixture_path(&s->x, "g"), 0), 0);
    expect_text(s, s->other, "bytes");
    close_file(s, s->other);
    tb_engine_detach(other);
}

static void read_other(struct scene *s)
{
    expect_text(s, s->other, "bytes");
}

/* The handler must not wait for the thread that it interrupts, and the file counts one open. */
static void used_by_a_handler_while_learned(void **state)
{
    struct scene *s = *state;
    write_name(s, "g", "bytes");
    open_other(s);
    meet(s, "late open knows its file", read_other);
    expect_text(s, s->other, "bytes");
    assert_int_equal(n_open(s, s->other), 1);
    close_file(s, s->other);
    open_other(s); /* of a description of its own */
    expect_text(s, s->other, "bytes");
    close_file(s, s->other);
}

/* Another thread's open makes this one known. */
static void learned_for_another_open(void **state)
{
    struct scene *s = *state;
    write_name(s, "g", "bytes");
    write_name(s, "h", "others");
    open_other(s);
    meet(s, "late open knows its file", read_other);
    int h = TB_IO(s->x.io, open, fixture_path(&s->x, "h"), O_RDWR, 0);
    assert_true(h >= 0);
    expect_text(s, h, "others");
    expect_text(s, s->other, "bytes");
    assert_int_equal(n_open(s, s->other), 1);
    close_file(s, h);
    close_file(s, s->other);
}

static void read_late(struct scene *s)
{
    char byte;
    meet(s, "late open knows its file", die);
    TB_IO(s->x.io, pread, open_late(s, s->x.io, "g"), &byte, 1, 0);
}

static void its_process_is_killed(void **state)
{
    struct scene *s = *state;
    write_name(s, "g", "bytes");
    by_killed_client(s, read_late);
    assert_int_equal(tb_repair(s->x.engine), 1);
    open_other(s);
    expect_text(s, s->other, "bytes");
    close_file(s, s->other);
}

static void unlink_late(struct scene *s)
{
    meet(s, "unlink", die);
    unlink_name(s, "g");
}

/* A client is killed while it removes a name. */
static void opens_are_late_after_a_repair(void **state)
{
    struct scene *s = *state;
    write_name(s, "g", "bytes");
    by_killed_client(s, unlink_late);
    assert_int_not_equal(tb_changes_begun(s->x.engine->header), tb_changes_ended(s->x.engine->header));
    assert_int_equal(tb_repair(s->x.engine), 1);
    assert_int_equal(tb_changes_begun(s->x.engine->header), tb_changes_ended(s->x.engine->header));
    open_other(s);
    assert_true(s->x.engine->region.clients[s->x.engine->slot].late != 0);
    close_file(s, s->other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        scene_test(opened_while_its_name_goes), scene_test(used_by_a_handler_while_learned), scene_test(learned_for_another_open),
        scene_test(its_process_is_killed),      scene_test(opens_are_late_after_a_repair),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
