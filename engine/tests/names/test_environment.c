/* What a client's environment makes of its paths: variables, paths, and which prefix serves them. */
#include <errno.h>

#include "fixture.h"
#include "namespace/environment.h"
#include "namespace/route.h"
#include "region/directories.h"

static const char *const variables[] = {"ADAPTER_MODE",       "ADAPTER_MODE_INFO", "HERMES_ASYNC_FLUSH", "HERMES_WRITE_ONLY",
                                        "HERMES_STOP_DAEMON", "HERMES_CLIENT",     "HERMES_PAGE_SIZE",   "TIERBENCH_MODE"};

static void clear(void)
{
    for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++)
        unsetenv(variables[i]);
}

/* "NAME=VALUE NAME=VALUE" */
static void set(const char *words)
{
    char copy[512], *rest = copy;
    clear();
    snprintf(copy, sizeof(copy), "%s", words);
    for (char *word; (word = strsep(&rest, " "));) {
        char *equals = strchr(word, '=');
        if (!equals)
            continue;
        *equals = 0;
        setenv(word, equals + 1, 1);
    }
}

static int start(void **state, bool hermes)
{
    struct fixture *x = calloc(1, sizeof(*x));
    clear();
    fixture_init(x, TB_MODE_PERSISTENT_ASYNC);
    x->config.by_environment = hermes;
    x->config.flush.policy = TB_FLUSH_ON_CLOSE;
    x->config.fsync = TB_FSYNC_PFS;
    fixture_start(x);
    *state = x;
    return 0;
}

static int start_hermes(void **state)
{
    return start(state, true);
}
static int start_plain(void **state)
{
    return start(state, false);
}

static int stop(void **state)
{
    clear();
    fixture_stop(*state);
    free(*state);
    return 0;
}

static tb_engine *client(const struct fixture *x, const char *words)
{
    tb_engine *e;
    set(words);
    int rc = tb_engine_attach(x->name, tb_io_libc(), &e);
    if (rc)
        fail_msg("%s: %d %s", words, rc, tb_engine_refusal());
    return e;
}

#define NOT_MANAGED (-1)

static int mode_of(tb_engine *e, const char *path)
{
    enum tb_mode mode;
    return tb_engine_route(e, path, &mode) ? (int)mode : NOT_MANAGED;
}

static void modes_and_lists_are_hermes(void **state)
{
    enum { ASYNC = TB_MODE_PERSISTENT_ASYNC, SYNC = TB_MODE_PERSISTENT_SYNC, SCRATCH = TB_MODE_SCRATCH, BYPASS = TB_MODE_BYPASS };
    static const struct {
        const char *words, *path;
        int mode;
    } cases[] = {
        {"", "/no/such/out", ASYNC},
        {"ADAPTER_MODE=DEFAULT", "/no/such/out", ASYNC},
        {"ADAPTER_MODE=DEFAULT", "/usr/lib/x", NOT_MANAGED},
        {"ADAPTER_MODE=DEFAULT", "/usrs/x", ASYNC},
        {"ADAPTER_MODE=DEFAULT ADAPTER_MODE_INFO=/no/a,/no/b", "/no/b/f", ASYNC},
        {"ADAPTER_MODE=DEFAULT ADAPTER_MODE_INFO=/no/a,/no/b", "/no/c", NOT_MANAGED},
        {"ADAPTER_MODE=DEFAULT ADAPTER_MODE_INFO=/var/data", "/var/data/f", ASYNC},
        {"ADAPTER_MODE=SCRATCH", "/no/such/out", SCRATCH},
        {"ADAPTER_MODE=SCRATCH HERMES_WRITE_ONLY=1 HERMES_CLIENT=1", "/no/such/out", SCRATCH},
        {"ADAPTER_MODE=SCRATCH", "/dev/shm/new", NOT_MANAGED},
        {"ADAPTER_MODE=SCRATCH", "/etc/passwd", NOT_MANAGED},
        {"ADAPTER_MODE=SCRATCH", "/tmp", NOT_MANAGED}, /* it is there */
        {"ADAPTER_MODE=SCRATCH ADAPTER_MODE_INFO=/no/a/", "/no/a/f", SCRATCH},
        {"ADAPTER_MODE=SCRATCH ADAPTER_MODE_INFO=/no/a", "/no/ab", ASYNC},
        {"ADAPTER_MODE=BYPASS", "/no/such/out", NOT_MANAGED},
        {"ADAPTER_MODE=BYPASS ADAPTER_MODE_INFO=/no/a", "/no/a/f", NOT_MANAGED},
        {"ADAPTER_MODE=BYPASS ADAPTER_MODE_INFO=/no/a", "/no/b", ASYNC},
        {"ADAPTER_MODE=WORKFLOW", "/no/b", ASYNC},
        {"ADAPTER_MODE=SCRATCH TIERBENCH_MODE=persistent-sync", "/no/b", SYNC},
        {"ADAPTER_MODE=DEFAULT TIERBENCH_MODE=bypass", "/no/b", BYPASS},
        {"ADAPTER_MODE=DEFAULT TIERBENCH_MODE=bypass", "/usr/b", NOT_MANAGED},
    };
    const struct fixture *x = *state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        tb_engine *e = client(x, cases[i].words);
        if (mode_of(e, cases[i].path) != cases[i].mode)
            fail_msg("%s: %s has mode %d, not %d", cases[i].words, cases[i].path, mode_of(e, cases[i].path), cases[i].mode);
        tb_engine_detach(e);
    }
}

static void the_engines_own_files_are_nobodys(void **state)
{
    const struct fixture *x = *state;
    char path[TB_PATH_MAX + 300];
    tb_engine *e = client(x, "ADAPTER_MODE=DEFAULT");
    tb_tier_directory(&x->config.tiers[1], x->engine->header->host, x->name, path, sizeof(path));
    strcat(path, "/slab-0");
    assert_int_equal(mode_of(e, path), NOT_MANAGED);
    assert_int_equal(mode_of(e, x->config.file), NOT_MANAGED);
    assert_int_equal(mode_of(e, fixture_path(x, "f")), TB_MODE_PERSISTENT_ASYNC);
    tb_engine_detach(e);
}

static void bad_values_are_named(void **state)
{
    static const struct {
        const char *words, *says[3];
    } cases[] = {
        {"ADAPTER_MODE=scratch", {"ADAPTER_MODE", "scratch", "SCRATCH"}},
        {"HERMES_WRITE_ONLY=yes", {"HERMES_WRITE_ONLY", "yes", "0, 1"}},
        {"HERMES_ASYNC_FLUSH=2", {"HERMES_ASYNC_FLUSH", "2", "0, 1"}},
        {"HERMES_STOP_DAEMON=no", {"HERMES_STOP_DAEMON", "no", "0, 1"}},
        {"HERMES_PAGE_SIZE=1m", {"HERMES_PAGE_SIZE", "1m", "bytes"}},
        {"HERMES_PAGE_SIZE=0", {"HERMES_PAGE_SIZE", "0", "bytes"}},
        {"ADAPTER_MODE_INFO=/a,/b,/c,/d,/e,/f,/g,/h,/i,/j,/k,/l,/m,/n,/o,/p", {"ADAPTER_MODE_INFO", "/p", "15 paths"}},
        {"TIERBENCH_MODE=fast", {"TIERBENCH_MODE", "fast", "scratch"}},
    };
    const struct fixture *x = *state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        tb_engine *e;
        set(cases[i].words);
        assert_int_equal(tb_engine_attach(x->name, tb_io_libc(), &e), -EINVAL);
        for (int k = 0; k < 3; k++)
            if (!strstr(tb_engine_refusal(), cases[i].says[k]))
                fail_msg("%s: %s does not say %s", cases[i].words, tb_engine_refusal(), cases[i].says[k]);
    }
}

static void write_file(struct tb_io *io, const char *path, const char *bytes)
{
    int fd = TB_IO(io, open, path, O_CREAT | O_TRUNC | O_WRONLY, 0600);
    assert_true(fd >= 0);
    assert_int_equal(TB_IO(io, write, fd, bytes, strlen(bytes)), (ssize_t)strlen(bytes));
    assert_int_equal(TB_IO(io, close, fd), 0);
}

/* By the outside: what a program without the adapter finds. */
static const char *outside(const char *path)
{
    static char text[64];
    memset(text, 0, sizeof(text));
    int fd = open(path, O_RDONLY);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
    if (fd >= 0)
        close(fd);
    return n < 0 ? NULL : text;
}

static void scratch_is_what_is_new(void **state)
{
    const struct fixture *x = *state;
    char old[512], new[512], moved[512];
    struct stat st;
    snprintf(old, sizeof(old), "%s", fixture_path(x, "old"));
    snprintf(new, sizeof(new), "%s", fixture_path(x, "new"));
    snprintf(moved, sizeof(moved), "%s", fixture_path(x, "moved"));
    write_file(tb_io_libc(), old, "input");
    tb_engine *e = client(x, "ADAPTER_MODE=SCRATCH"), *other = client(x, "ADAPTER_MODE=SCRATCH ADAPTER_MODE_INFO=/no");
    assert_int_equal(mode_of(e, old), NOT_MANAGED);
    assert_int_equal(mode_of(e, new), TB_MODE_SCRATCH);
    struct tb_io *io = &e->any.io; /* the names below are of both kinds */
    write_file(tb_engine_route(e, new, NULL), new, "scratch");
    assert_null(outside(new));
    assert_int_equal(mode_of(e, new), TB_MODE_SCRATCH);
    assert_int_equal(TB_IO(io, stat, new, &st, 0), 0);
    assert_int_equal(TB_IO(io, rename, new, moved, 0), 0); /* scratch stays scratch */
    assert_null(outside(moved));
    assert_int_equal(TB_IO(io, rename, old, new, 0), 0); /* and what is the file system's stays there */
    assert_string_equal(outside(new), "input");
    assert_int_equal(TB_IO(io, rename, moved, new, 0), 0); /* scratch comes before it */
    assert_string_equal(outside(new), "input");
    assert_int_equal(TB_IO(io, stat, new, &st, 0), 0);
    assert_int_equal(st.st_size, 7);
    assert_int_equal(TB_IO(io, unlink, new, 0), 0);
    assert_string_equal(outside(new), "input");
    assert_int_equal(mode_of(other, new), TB_MODE_PERSISTENT_ASYNC);
    tb_engine_detach(other);
    tb_engine_detach(e);
}

static void closes_flush_as_asked(void **state)
{
    const struct fixture *x = *state;
    const char *path = fixture_path(x, "f");
    tb_engine *e = client(x, "ADAPTER_MODE=DEFAULT");
    write_file(tb_engine_route(e, path, NULL), path, "default");
    assert_string_equal(outside(path), "default");
    tb_engine_detach(e);
    e = client(x, "ADAPTER_MODE=WORKFLOW");
    write_file(tb_engine_route(e, path, NULL), path, "workflow");
    assert_string_equal(outside(path), "");
    tb_engine *past = client(x, "ADAPTER_MODE=BYPASS"); /* reads past the buffers: they are flushed first */
    assert_string_equal(outside(path), "workflow");
    tb_engine_detach(past);
    tb_engine_detach(e);
}

static void the_daemon_may_end_when_asked_and_alone(void **state)
{
    const struct fixture *x = *state;
    tb_engine *a = client(x, "HERMES_STOP_DAEMON=0"), *b;
    x->engine->header->daemon.pid = getpid(); /* so that this process counts as the daemon, and a child as the client */
    assert_false(tb_instance_is_idle(x->engine));
    b = client(x, "");
    assert_true(tb_instance_is_idle(x->engine));
    tb_engine_detach(a);
    tb_engine_detach(b);
    tb_instance_retire(x->engine, true);
    assert_int_equal(tb_engine_attach(x->name, tb_io_libc(), &a), -EINPROGRESS);
}

static void a_mode_of_ones_own(void **state)
{
    const struct fixture *x = *state;
    const char *path = fixture_path(x, "f");
    tb_engine *e = client(x, "TIERBENCH_MODE=scratch");
    write_file(tb_engine_route(e, path, NULL), path, "scratch");
    assert_null(outside(path));
    tb_engine_detach(e);
    e = client(x, "TIERBENCH_MODE=persistent-sync");
    struct tb_io *io = tb_engine_route(e, path, NULL), *lazy = tb_engine_route(x->engine, path, NULL);
    int first = TB_IO(lazy, open, path, O_CREAT | O_RDWR, 0600), fd = TB_IO(io, open, path, O_RDWR, 0600);
    assert_true(first >= 0 && fd >= 0);
    assert_int_equal(TB_IO(io, write, fd, "sync", 4), 4);
    assert_string_equal(outside(path), "sync"); /* although the file was opened write-back before */
    TB_IO(io, close, fd);
    TB_IO(lazy, close, first);
    tb_engine_detach(e);
    e = client(x, "ADAPTER_MODE=nonsense"); /* means nothing where the configuration has the modes */
    assert_int_equal(mode_of(e, path), TB_MODE_PERSISTENT_ASYNC);
    tb_engine_detach(e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(modes_and_lists_are_hermes, start_hermes, stop),
        cmocka_unit_test_setup_teardown(the_engines_own_files_are_nobodys, start_hermes, stop),
        cmocka_unit_test_setup_teardown(bad_values_are_named, start_hermes, stop),
        cmocka_unit_test_setup_teardown(scratch_is_what_is_new, start_hermes, stop),
        cmocka_unit_test_setup_teardown(closes_flush_as_asked, start_hermes, stop),
        cmocka_unit_test_setup_teardown(the_daemon_may_end_when_asked_and_alone, start_hermes, stop),
        cmocka_unit_test_setup_teardown(a_mode_of_ones_own, start_plain, stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
