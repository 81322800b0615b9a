/* A file that was opened by a name with symbolic links is flushed, whatever becomes of the links. */
#include "fixture.h"

#include <errno.h>

#include "file/file.h"
#include "instance/drain.h"
#include "io/io_layer.h"

static struct fixture x;
static int fd;

static void start(const char *prefix)
{
    char path[300];
    fixture_init(&x, TB_MODE_PERSISTENT_ASYNC);
    x.config.flush.policy = TB_FLUSH_ON_CLOSE;
    if (prefix) {
        snprintf(path, sizeof(path), "%s/%s", x.root, prefix);
        assert_int_equal(symlink(x.pfs, path), 0);
        snprintf(x.pfs, sizeof(x.pfs), "%s", path);
        snprintf(x.config.pfs.path, sizeof(x.config.pfs.path), "%s", path);
        snprintf(x.config.prefixes[0].prefix, sizeof(x.config.prefixes[0].prefix), "%s", path);
    }
    fixture_start(&x);
    assert_int_equal(mkdir(fixture_path(&x, "one"), 0700), 0);
    assert_int_equal(mkdir(fixture_path(&x, "two"), 0700), 0);
    assert_int_equal(symlink("one", fixture_path(&x, "current")), 0);
}

static void write_by(const char *name, const char *text)
{
    fd = TB_IO(x.io, open, fixture_path(&x, name), O_RDWR | O_CREAT, 0600);
    assert_true(fd >= 0);
    assert_int_equal(TB_IO(x.io, pwrite, fd, text, strlen(text), 0), strlen(text));
}

static void move(const char *from, const char *to)
{
    char path[512];
    strcpy(path, fixture_path(&x, from));
    assert_int_equal(TB_IO(x.io, rename, path, fixture_path(&x, to), 0), 0);
}

static void lead(const char *link, const char *to)
{
    assert_int_equal(TB_IO(x.io, unlink, fixture_path(&x, link), 0), 0);
    assert_int_equal(symlink(to, fixture_path(&x, link)), 0);
}

/* After the drain the file system itself has the bytes there. */
static void stop_with(const char *name, const char *text)
{
    char bytes[32] = "";
    assert_int_equal(tb_instance_drain(x.engine, 1, NULL, NULL, NULL), 0);
    int there = open(fixture_path(&x, name), O_RDONLY);
    assert_true(there >= 0);
    assert_int_equal(read(there, bytes, sizeof(bytes)), strlen(text));
    assert_string_equal(bytes, text);
    close(there);
    TB_IO(x.io, close, fd);
    fixture_stop(&x);
}

static void test_a_link_that_goes(void **state)
{
    (void)state;
    start(NULL);
    assert_int_equal(symlink("new", fixture_path(&x, "link")), 0);
    write_by("link", "bytes");
    assert_int_equal(TB_IO(x.io, unlink, fixture_path(&x, "link"), 0), 0);
    stop_with("new", "bytes");
}

static void test_a_link_that_leads_elsewhere(void **state)
{
    (void)state;
    start(NULL);
    write_by("current/log", "bytes");
    lead("current", "two");
    stop_with("one/log", "bytes");
}

/* Another program changes it, without the tiers. */
static void test_a_link_that_was_led_elsewhere(void **state)
{
    (void)state;
    start(NULL);
    write_by("current/log", "bytes");
    assert_int_equal(unlink(fixture_path(&x, "current")), 0);
    stop_with("one/log", "bytes");
}

static void test_the_directory_of_a_link_is_renamed(void **state)
{
    (void)state;
    start(NULL);
    write_by("current/log", "bytes");
    move("one", "old");
    stop_with("old/log", "bytes");
}

static void test_a_name_by_a_link_is_given(void **state)
{
    (void)state;
    start(NULL);
    write_by("file", "bytes");
    move("file", "current/file");
    lead("current", "two");
    stop_with("one/file", "bytes");
}

static void test_a_directory_is_renamed_by_links(void **state)
{
    (void)state;
    start(NULL);
    assert_int_equal(mkdir(fixture_path(&x, "one/sub"), 0700), 0);
    write_by("one/sub/file", "bytes");
    move("current/sub", "current/other");
    lead("current", "two");
    stop_with("one/other/file", "bytes");
}

/* The names that are remembered begin with the prefix as it is configured. */
static void test_the_prefix_is_a_link(void **state)
{
    char name[TB_PATH_MAX];
    (void)state;
    start("link");
    write_by("current/log", "bytes");
    struct tb_file *f = NULL;
    for (uint32_t i = 0; i < x.engine->region.n_file_buckets; i++)
        f = x.engine->region.files[i].magic ? &x.engine->region.files[i] : f;
    assert_non_null(f);
    tb_file_path(x.engine, f, name, sizeof(name));
    assert_string_equal(name, fixture_path(&x, "one/log"));
    lead("current", "two");
    stop_with("one/log", "bytes");
}

/* It leads out of the prefix: recovery would not take a name from there. */
static void test_a_link_out_of_the_prefix(void **state)
{
    char outside[300];
    (void)state;
    start(NULL);
    snprintf(outside, sizeof(outside), "%s/outside", x.root);
    assert_int_equal(symlink(outside, fixture_path(&x, "link")), 0);
    write_by("link", "bytes");
    stop_with("link", "bytes");
}

/* Systems without openat2 say of no name that it goes through no links. */
static int old_open(struct tb_io *io, const char *path, int flags, mode_t mode)
{
    return flags & TB_IO_NO_LINKS ? -ELOOP : TB_IO(io->next, open, path, flags, mode);
}

static void test_a_system_that_cannot_tell(void **state)
{
    static const struct tb_io_ops ops = {.name = "old", .open = old_open};
    struct tb_io_ops filled;
    struct tb_io old;
    (void)state;
    tb_io_layer_init(&old, &filled, &ops, tb_io_libc());
    fixture_init(&x, TB_MODE_PERSISTENT_ASYNC);
    x.base = &old;
    fixture_start(&x);
    assert_int_equal(symlink("new", fixture_path(&x, "link")), 0);
    write_by("link", "bytes");
    assert_int_equal(TB_IO(x.io, unlink, fixture_path(&x, "link"), 0), 0);
    stop_with("new", "bytes");
}

/* What a dangling link leads to is made at once, and waits for no name. */
static void test_names_are_deferred(void **state)
{
    (void)state;
    fixture_init(&x, TB_MODE_PERSISTENT_ASYNC);
    x.config.deferred = true;
    fixture_start(&x);
    assert_int_equal(symlink("new", fixture_path(&x, "link")), 0);
    write_by("link", "bytes");
    assert_int_equal(TB_IO(x.io, unlink, fixture_path(&x, "link"), 0), 0);
    stop_with("new", "bytes");
}

/* The replaced file waits: after it has got its name, the new name is one without links, too. */
static void test_a_deferred_name_by_a_link_is_replaced(void **state)
{
    (void)state;
    fixture_init(&x, TB_MODE_PERSISTENT_ASYNC);
    x.config.deferred = true;
    fixture_start(&x);
    assert_int_equal(mkdir(fixture_path(&x, "one"), 0700), 0);
    assert_int_equal(mkdir(fixture_path(&x, "two"), 0700), 0);
    assert_int_equal(symlink("one", fixture_path(&x, "current")), 0);
    write_by("one/file", "old");
    TB_IO(x.io, close, fd);
    write_by("file", "bytes");
    move("file", "current/file");
    lead("current", "two");
    stop_with("one/file", "bytes");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_link_that_goes),
        cmocka_unit_test(test_a_link_that_leads_elsewhere),
        cmocka_unit_test(test_a_link_that_was_led_elsewhere),
        cmocka_unit_test(test_the_directory_of_a_link_is_renamed),
        cmocka_unit_test(test_a_name_by_a_link_is_given),
        cmocka_unit_test(test_a_directory_is_renamed_by_links),
        cmocka_unit_test(test_the_prefix_is_a_link),
        cmocka_unit_test(test_a_link_out_of_the_prefix),
        cmocka_unit_test(test_a_system_that_cannot_tell),
        cmocka_unit_test(test_names_are_deferred),
        cmocka_unit_test(test_a_deferred_name_by_a_link_is_replaced),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
