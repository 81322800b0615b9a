/* The tree of names against plain strings: any length of path and part, directories renamed under files, nothing left. */
#include <errno.h>

#include "fixture.h"

#include "file/name_tree.h"

#define FILES 200

/* Without the directory that this client keeps. */
static uint32_t n_free_names(tb_engine *e)
{
    uint32_t n = 0;
    tb_names_forget_client(e, e->slot);
    for (uint32_t i = e->header->names.free; i != TB_NONE; i = e->region.names[i].next)
        n++;
    return n;
}

static uint32_t next_random(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

/* A few letters, lengths around every limit of a piece. */
static void append_part(char *path, uint32_t *seed)
{
    static const size_t lengths[] = {1, 2, 40, 41, 42, 49, 50, 51, 90, 91, 92, 99, 100, 101, 150, 255};
    size_t n = strlen(path), length = lengths[next_random(seed) % 16];
    path[n++] = '/';
    memset(path + n, 'a' + (int)(next_random(seed) % 3), length);
    path[n + length] = 0;
}

static void assert_path(tb_engine *e, const struct tb_file *f, const char *expected)
{
    char path[TB_PATH_MAX];
    assert_int_equal(tb_names_path(e, f, path, sizeof(path)), strlen(expected));
    assert_string_equal(path, expected);
}

static void any_path(void **state)
{
    (void)state;
    static struct tb_file files[FILES];
    static char paths[FILES][TB_PATH_MAX];
    struct fixture x;
    uint32_t seed = 4242;
    fixture_init(&x, TB_MODE_PERSISTENT_ASYNC);
    fixture_start(&x);
    uint32_t before = n_free_names(x.engine);
    for (int i = 0; i < FILES; i++) {
        paths[i][0] = 0;
        for (uint32_t n = 1 + next_random(&seed) % 3; n; n--)
            append_part(paths[i], &seed);
        assert_int_equal(tb_names_set(x.engine, &files[i], paths[i]), 0);
    }
    for (int i = 0; i < FILES; i++)
        assert_path(x.engine, &files[i], paths[i]);
    assert_true(n_free_names(x.engine) < before);
    for (int i = 0; i < FILES; i++)
        tb_names_clear(x.engine, &files[i]);
    assert_int_equal(n_free_names(x.engine), before);
    fixture_stop(&x);
}

static void directory_renamed(void **state)
{
    (void)state;
    struct tb_file f = {0}, g = {0}, other = {0};
    struct fixture x;
    char long_name[120], path[TB_PATH_MAX];
    fixture_init(&x, TB_MODE_PERSISTENT_ASYNC);
    fixture_start(&x);
    tb_engine *e = x.engine;
    uint32_t before = n_free_names(e);
    memset(long_name, 'n', sizeof(long_name) - 1);
    long_name[sizeof(long_name) - 1] = 0;
    tb_names_set(e, &f, "/pfs/run/deep/file");
    tb_names_set(e, &g, "/pfs/run/g");
    tb_names_set(e, &other, "/pfs/runner/g");
    snprintf(path, sizeof(path), "/pfs/%s", long_name);
    assert_int_equal(tb_names_rename_directory(e, "/pfs/run", path), 0);
    snprintf(path, sizeof(path), "/pfs/%s/deep/file", long_name);
    assert_path(e, &f, path);
    snprintf(path, sizeof(path), "/pfs/%s/g", long_name);
    assert_path(e, &g, path);
    assert_path(e, &other, "/pfs/runner/g");
    snprintf(path, sizeof(path), "/pfs/%s", long_name);
    assert_int_equal(tb_names_rename_directory(e, path, "/x"), 0);
    assert_path(e, &f, "/x/deep/file");
    assert_int_equal(tb_names_rename_directory(e, "/pfs/nobody", "/y"), 0);
    tb_names_clear(e, &f);
    tb_names_clear(e, &g);
    tb_names_clear(e, &other);
    assert_int_equal(n_free_names(e), before);
    fixture_stop(&x);
}

static void no_such_path(void **state)
{
    (void)state;
    struct tb_file f = {0};
    struct fixture x;
    static char path[TB_PATH_MAX + 2];
    fixture_init(&x, TB_MODE_PERSISTENT_ASYNC);
    fixture_start(&x);
    uint32_t before = n_free_names(x.engine);
    memset(path, 'x', TB_PATH_MAX);
    path[0] = '/';
    assert_int_equal(tb_names_set(x.engine, &f, path), -ENAMETOOLONG);
    assert_int_equal(tb_names_set(x.engine, &f, "relative/file"), -ENAMETOOLONG);
    assert_int_equal(tb_names_set(x.engine, &f, "/pfs/"), -EINVAL);
    assert_int_equal(n_free_names(x.engine), before);
    fixture_stop(&x);
}

static void full_table(void **state)
{
    (void)state;
    static struct tb_file files[4096];
    struct fixture x;
    char path[64];
    int n = 0, rc = 0;
    fixture_init(&x, TB_MODE_PERSISTENT_ASYNC);
    fixture_start(&x);
    uint32_t before = n_free_names(x.engine);
    for (; !rc && n < 4096; n++) {
        snprintf(path, sizeof(path), "/d%d/e/f", n);
        rc = tb_names_set(x.engine, &files[n], path);
    }
    assert_int_equal(rc, -ENFILE);
    assert_int_equal(n_free_names(x.engine), before % 2); /* two nodes a file; a half-made path is taken back */
    for (int i = 0; i < n - 1; i++)
        tb_names_clear(x.engine, &files[i]);
    assert_int_equal(n_free_names(x.engine), before);
    fixture_stop(&x);
}

/* The directory of the last new name stays in the tree after its file; a path that was renamed since leads to another. */
static void directory_kept(void **state)
{
    (void)state;
    struct tb_file f = {0}, g = {0};
    struct fixture x;
    fixture_init(&x, TB_MODE_PERSISTENT_ASYNC);
    fixture_start(&x);
    tb_engine *e = x.engine;
    uint32_t before = n_free_names(e);
    assert_int_equal(tb_names_set(e, &f, "/pfs/run/f"), 0);
    tb_names_clear(e, &f);
    uint32_t kept = e->header->names.free;
    assert_int_equal(tb_names_set(e, &f, "/pfs/run/f"), 0);
    assert_int_equal(e->header->names.free, kept); /* no node was made for it */
    assert_int_equal(tb_names_rename_directory(e, "/pfs/run", "/pfs/walk"), 0);
    assert_int_equal(tb_names_set(e, &g, "/pfs/run/g"), 0); /* another directory, made since */
    assert_path(e, &f, "/pfs/walk/f");
    assert_path(e, &g, "/pfs/run/g");
    assert_true(tb_names_are_whole(e));
    tb_names_clear(e, &f);
    tb_names_clear(e, &g);
    assert_true(e->region.clients[e->slot].directory);
    assert_int_equal(n_free_names(e), before);
    fixture_stop(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_path),   cmocka_unit_test(directory_renamed), cmocka_unit_test(no_such_path),
        cmocka_unit_test(full_table), cmocka_unit_test(directory_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
