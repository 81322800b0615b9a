/* New files that wait for their names, and get them while a call is between its look at the name and its use. */
#include "scene.h"

#include <errno.h>
#include <sys/statfs.h>

#include "file/file.h"
#include "flush/program.h"
#include "flush/flush.h"
#include "instance/drain.h"
#include "layer/descriptions.h"
#include "namespace/deferred.h"

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

static const struct tb_file *record_of(struct scene *s, int fd)
{
    return &s->x.engine->region.files[tb_open_of(s->x.engine, fd)->file];
}

static void expect_record(struct scene *s, int fd, const char *path)
{
    char name[TB_PATH_MAX];
    tb_file_path(s->x.engine, record_of(s, fd), name, sizeof(name));
    assert_string_equal(name, path);
    assert_false(record_of(s, fd)->flags & TB_FILE_WAITING);
}

static int open_now(struct scene *s, const char *name, int flags)
{
    int fd = TB_IO(s->x.io, open, fixture_path(&s->x, name), O_RDWR | flags, 0600);
    assert_true(fd >= 0);
    tb_engine_know(s->x.engine, fd);
    return fd;
}

/* The record that knew of it is gone, so the open makes one: with the name that the file has. */
static void named_while_it_is_opened(void **state)
{
    struct scene *s = *state;
    close_file(s, make(s, "g"));
    meet(s, "file opened", give_names);
    int fd = open_now(s, "g", 0);
    assert_true(is_on_pfs(s, "g"));
    expect_record(s, fd, fixture_path(&s->x, "g"));
    close_file(s, fd);
}

/* A drain meets a file of which no record knows yet, and gives it its name. */
static void drain_names(struct scene *s)
{
    assert_int_equal(tb_waiting_finish(s->x.engine, NULL, NULL), 0);
}

static void named_before_its_record(void **state)
{
    struct scene *s = *state;
    meet(s, "file opened", drain_names);
    int fd = open_now(s, "g", O_CREAT);
    assert_true(is_on_pfs(s, "g"));
    assert_int_equal(TB_IO(s->x.io, pwrite, fd, "bytes", 5, 0), 5);
    uint32_t file = tb_open_of(s->x.engine, fd)->file;
    close_file(s, fd);
    assert_int_equal(tb_flush_file(s->x.engine, file, -1, false).error, 0);
    assert_int_equal(tb_instance_drain(s->x.engine, 2, NULL, NULL, NULL), 0);
    fd = open(fixture_path(&s->x, "g"), O_RDONLY);
    expect(s, fd, by_kernel, 'b', 1, 0);
    close(fd);
}

static void remove_it(struct scene *s)
{
    unlink_name(s, "g");
}

/* Another call removes a file of which no record knows yet. Nothing is left that a drain could not put anywhere. */
static void removed_before_its_record(void **state)
{
    struct scene *s = *state;
    uint32_t n = s->x.engine->header->files.n;
    meet(s, "file opened", remove_it);
    int fd = open_now(s, "g", O_CREAT | O_EXCL);
    assert_int_equal(TB_IO(s->x.io, pwrite, fd, "bytes", 5, 0), 5);
    expect(s, fd, by_engine, 'b', 1, 0);
    close_file(s, fd);
    assert_int_equal(tb_instance_drain(s->x.engine, 2, NULL, NULL, NULL), 0);
    assert_int_equal(s->x.engine->header->files.n, n);
}

/* Another program removes what waits. Its record goes where it has no bytes. Bytes stay, and are said not to be flushed. */
static void removed_by_another_program(void **state)
{
    struct scene *s = *state;
    char place[PATH_MAX];
    uint32_t n = s->x.engine->header->files.n;
    for (int i = 0; i < 2; i++) {
        int fd = make(s, "g");
        uint32_t file = tb_open_of(s->x.engine, fd)->file;
        struct tb_file *f = &s->x.engine->region.files[file];
        tb_file_path(s->x.engine, f, place, sizeof(place));
        assert_int_equal(TB_IO(s->x.io, pwrite, fd, "bytes", i ? 5 : 0, 0), i ? 5 : 0);
        close_file(s, fd);
        assert_int_equal(unlink(place), 0);
        assert_int_equal(tb_instance_drain(s->x.engine, 2, NULL, NULL, NULL), i ? -ENOENT : 0);
        assert_int_equal(s->x.engine->header->files.n, n + (uint32_t)i);
        assert_true(!i || (f->n_dirty == 1 && !(f->flags & TB_FILE_WAITING))); /* so what ends the instance keeps its bytes apart */
    }
    fixture_lose_region(&s->x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        place_test(named_between_look_and_use), place_test(named_before_the_claim),  place_test(named_removed_and_made_again),
        place_test(named_while_it_is_opened),   place_test(named_before_its_record), place_test(removed_before_its_record),
        place_test(removed_by_another_program),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
