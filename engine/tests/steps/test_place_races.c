/* New files that wait for their names, and get them while a call is between its look at the name and its use. */
#include "scene.h"

#include <errno.h>
#include <sys/statfs.h>

static int setup(void **state)
{
    scene_prepare(state);
    ((struct scene *)*state)->x.config.deferred = true;
    scene_start(*state);
    return 0;
}

#define place_test(f) cmocka_unit_test_setup_teardown(f, setup, scene_teardown)

static void write_name(struct scene *s, const char *name, const char *bytes)
{
    int fd = make(s, name);
    assert_int_equal(TB_IO(s->x.io, pwrite, fd, bytes, strlen(bytes), 0), strlen(bytes));
    close_file(s, fd);
}

static bool is_on_pfs(struct scene *s, const char *name)
{
    return access(fixture_path(&s->x, name), F_OK) == 0;
}

/* As the background flush of a daemon: what was closed gets its name. */
static void give_names(struct scene *s)
{
    assert_true(tb_engine_flush(s->x.engine, -1) >= 0);
}

typedef int call(struct scene *s, const char *path);

static int do_unlink(struct scene *s, const char *path)
{
    return TB_IO(s->x.io, unlink, path, 0);
}

static const char *beside(struct scene *s)
{
    static char path[512];
    snprintf(path, sizeof(path), "%s/h", s->x.pfs);
    return path;
}

static int do_rename(struct scene *s, const char *path)
{
    return TB_IO(s->x.io, rename, path, beside(s), 0);
}

static int do_link(struct scene *s, const char *path)
{
    return TB_IO(s->x.io, link, path, beside(s));
}

static int do_stat(struct scene *s, const char *path)
{
    struct stat st;
    int rc = TB_IO(s->x.io, stat, path, &st, 0);
    assert_true(rc || st.st_size == 5);
    return rc;
}

static int do_lstat(struct scene *s, const char *path)
{
    struct stat st;
    return TB_IO(s->x.io, stat, path, &st, AT_SYMLINK_NOFOLLOW);
}

static int do_statx(struct scene *s, const char *path)
{
    struct statx st;
    return TB_IO(s->x.io, statx, path, 0, STATX_BASIC_STATS, &st);
}

static int do_statfs(struct scene *s, const char *path)
{
    struct statfs st;
    return TB_IO(s->x.io, statfs, path, &st);
}

static int do_access(struct scene *s, const char *path)
{
    return TB_IO(s->x.io, access, path, R_OK, 0);
}

static int do_chmod(struct scene *s, const char *path)
{
    return TB_IO(s->x.io, chmod, path, 0640, 0);
}

static int do_chown(struct scene *s, const char *path)
{
    return TB_IO(s->x.io, chown, path, getuid(), getgid(), 0);
}

static int do_utimens(struct scene *s, const char *path)
{
    return TB_IO(s->x.io, utimens, path, NULL, 0);
}

static int do_truncate(struct scene *s, const char *path)
{
    return TB_IO(s->x.io, truncate, path, 3);
}

static int do_list(struct scene *s, const char *path)
{
    return (int)TB_IO(s->x.io, listxattr, path, NULL, 0, 0);
}

static int do_open(struct scene *s, const char *path)
{
    int fd = TB_IO(s->x.io, open, path, O_RDWR, 0);
    return fd < 0 ? fd : TB_IO(s->x.io, close, fd);
}

static int do_make(struct scene *s, const char *path)
{
    int fd = TB_IO(s->x.io, open, path, O_RDWR | O_CREAT, 0600);
    return fd < 0 ? fd : TB_IO(s->x.io, close, fd);
}

static int do_mkdir(struct scene *s, const char *path)
{
    return TB_IO(s->x.io, mkdir, path, 0700);
}

static int do_mknod(struct scene *s, const char *path)
{
    return TB_IO(s->x.io, mknod, path, S_IFIFO | 0600, 0);
}

static int do_symlink(struct scene *s, const char *path)
{
    return TB_IO(s->x.io, symlink, "f", path);
}

static int do_link_over(struct scene *s, const char *path)
{
    char f[512];
    snprintf(f, sizeof(f), "%s/f", s->x.pfs);
    return TB_IO(s->x.io, link, f, path);
}

static int do_readlink(struct scene *s, const char *path)
{
    char text[100];
    return (int)TB_IO(s->x.io, readlink, path, text, sizeof(text));
}

/* Each sees the file in the hidden directory, and finds it by its name all the same. */
static void named_between_look_and_use(void **state)
{
    struct scene *s = *state;
    const struct {
        const char *name;
        call *does;
        int answer;
    } calls[] = {
        {"unlink", do_unlink, 0},
        {"rename", do_rename, 0},
        {"link", do_link, 0},
        {"stat", do_stat, 0},
        {"lstat", do_lstat, 0},
        {"statx", do_statx, 0},
        {"statfs", do_statfs, 0},
        {"access", do_access, 0},
        {"chmod", do_chmod, 0},
        {"chown", do_chown, 0},
        {"utimens", do_utimens, 0},
        {"truncate", do_truncate, 0},
        {"listxattr", do_list, 0},
        {"open", do_open, 0},
        {"open to make", do_make, 0},
        {"mkdir", do_mkdir, -EEXIST},
        {"mknod", do_mknod, -EEXIST},
        {"symlink", do_symlink, -EEXIST},
        {"link over", do_link_over, -EEXIST},
        {"readlink", do_readlink, -EINVAL},
    };
    for (size_t i = 0; i < sizeof(calls) / sizeof(*calls); i++) {
        write_name(s, "g", "bytes");
        if (calls[i].does == do_link_over)
            give_names(s), unlink_name(s, "g"), write_name(s, "g", "bytes"); /* "f" has its name, and "g" waits */
        assert_false(is_on_pfs(s, "g"));
        meet(s, "place waits", give_names);
        int rc = calls[i].does(s, fixture_path(&s->x, "g"));
        if (rc != calls[i].answer)
            fail_msg("%s: %d, not %d", calls[i].name, rc, calls[i].answer);
        all_met();
        assert_int_equal(is_on_pfs(s, "g"), calls[i].does != do_unlink && calls[i].does != do_rename);
        if (is_on_pfs(s, "h"))
            unlink_name(s, "h");
        if (is_on_pfs(s, "g"))
            unlink_name(s, "g");
    }
}

/* The call has found the record, and waits for the claim that the flush has. */
static void named_before_the_claim(void **state)
{
    struct scene *s = *state;
    write_name(s, "g", "bytes");
    meet(s, "claim to name", give_names);
    unlink_name(s, "g");
    assert_false(is_on_pfs(s, "g"));
}

static void remove_and_make(struct scene *s)
{
    give_names(s);
    unlink_name(s, "g");
    write_name(s, "g", "other");
}

/* The name is another new file's when it is looked at again: there was a moment without it, and no call looks for ever. */
static void named_removed_and_made_again(void **state)
{
    struct scene *s = *state;
    write_name(s, "g", "bytes");
    for (int i = 0; i < 3; i++)
        meet(s, "place waits", remove_and_make);
    assert_int_equal(TB_IO(s->x.io, access, fixture_path(&s->x, "g"), R_OK, 0), 0);
    forget_meetings();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        place_test(named_between_look_and_use),
        place_test(named_before_the_claim),
        place_test(named_removed_and_made_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
