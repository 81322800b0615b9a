/*
 * Files that lose their last name, and the journal: what no crash can show again is
 * not recovered and not missed; the bytes of a file that another program removed are kept, and reported once.
 */
#include "base/report.h"
#include "fixture.h"
#include "recovery/recover.h"

#include <errno.h>
#include <glob.h>
#include <signal.h>
#include <sys/wait.h>

#define BYTES 5000

struct outcome {
    int named;
    char first[600];
};

static void note(void *arg, const struct tb_file_report *r)
{
    struct outcome *o = arg;
    if (r->error && !o->named++)
        snprintf(o->first, sizeof(o->first), "%.400s: %s", r->path, strerror(-r->error));
}

static int recover(struct fixture *x, struct outcome *o)
{
    struct tb_error err = {""};
    *o = (struct outcome){0};
    return tb_instance_recover(&x->config, tb_io_libc(), NULL, note, o, &err);
}

static int put(struct fixture *x, int fd, char byte)
{
    char bytes[BYTES];
    memset(bytes, byte, sizeof(bytes));
    return TB_IO(x->io, pwrite, fd, bytes, BYTES, 0) == BYTES ? TB_IO(x->io, fsync, fd, false) : -EIO;
}

static int make(struct fixture *x, const char *name)
{
    int fd = TB_IO(x->io, open, fixture_path(x, name), O_RDWR | O_CREAT, 0600);
    assert_true(fd >= 0);
    return fd;
}

static int rename_to(struct fixture *x, const char *from, const char *to)
{
    char path[512];
    snprintf(path, sizeof(path), "%s", fixture_path(x, from));
    return TB_IO(x->io, rename, path, fixture_path(x, to), 0);
}

static int link_to(struct fixture *x, const char *from, const char *to)
{
    char path[512];
    snprintf(path, sizeof(path), "%s", fixture_path(x, from));
    return TB_IO(x->io, link, path, fixture_path(x, to));
}

/* A process that does it and is killed with its descriptors open, and the node with it. */
static void do_and_die(struct fixture *x, bool (*act)(struct fixture *))
{
    char region[TB_REGION_PATH_MAX];
    fixture_init(x, TB_MODE_PERSISTENT_ASYNC);
    pid_t child = fork();
    if (child == 0) {
        fixture_start(x);
        raise(act(x) ? SIGKILL : SIGABRT);
    }
    int status;
    waitpid(child, &status, 0);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    tb_region_path(x->name, region, sizeof(region));
    assert_int_equal(unlink(region), 0);
}

/* No record was there when it lost its name, so the journal has none of that. */
static bool sync_unlinked(struct fixture *x)
{
    int fd = make(x, "f");
    return !TB_IO(x->io, unlink, fixture_path(x, "f"), 0) && !put(x, fd, 'a');
}

static bool sync_replaced(struct fixture *x)
{
    int fd = make(x, "f");
    TB_IO(x->io, close, make(x, "g"));
    return !rename_to(x, "g", "f") && !put(x, fd, 'a');
}

static bool sync_between(struct fixture *x)
{
    int fd = make(x, "f");
    return !put(x, fd, 'a') && !TB_IO(x->io, unlink, fixture_path(x, "f"), 0) && !put(x, fd, 'b');
}

static void what_has_no_name_is_not_missed(void **state)
{
    (void)state;
    static bool (*const acts[])(struct fixture *) = {sync_unlinked, sync_replaced, sync_between};
    for (size_t i = 0; i < sizeof(acts) / sizeof(acts[0]); i++) {
        struct fixture x;
        struct outcome o;
        do_and_die(&x, acts[i]);
        int rc = recover(&x, &o);
        if (rc != 1 || o.named)
            fail_msg("way %zu: recovery says %d; %s", i, rc, o.first);
        fixture_stop(&x);
    }
}

/* The name that the record had is gone, another is there: the promise is the PFS's. */
static bool sync_other_name(struct fixture *x)
{
    int fd = make(x, "f");
    return !put(x, fd, 'b') && !link_to(x, "f", "g") && !TB_IO(x->io, unlink, fixture_path(x, "f"), 0) && !put(x, fd, 'a');
}

static void one_of_two_names_is_gone(void **state)
{
    (void)state;
    struct fixture x;
    struct outcome o;
    char found[BYTES] = "";
    do_and_die(&x, sync_other_name);
    assert_int_equal(recover(&x, &o), 1);
    int g = open(fixture_path(&x, "g"), O_RDONLY);
    assert_true(g >= 0 && read(g, found, BYTES) == BYTES && found[0] == 'a' && found[BYTES - 1] == 'a');
    close(g);
    fixture_stop(&x);
}

static bool sync_and_die(struct fixture *x)
{
    return !put(x, make(x, "f"), 'a');
}

static void expect_kept(struct fixture *x, char byte)
{
    char pattern[600], found[BYTES + 1] = "";
    glob_t files;
    snprintf(pattern, sizeof(pattern), "%s/nvme/tierbench.lost.%u/%s.*.f", x->root, (unsigned)getuid(), x->name);
    assert_int_equal(glob(pattern, 0, NULL, &files), 0);
    assert_int_equal(files.gl_pathc, 1);
    int fd = open(files.gl_pathv[0], O_RDONLY);
    assert_true(fd >= 0 && read(fd, found, sizeof(found)) == BYTES && found[0] == byte && found[BYTES - 1] == byte);
    close(fd);
    globfree(&files);
}

enum outside { REMOVED, REPLACED, DIRECTORY, FIFO, WAYS };

/* What a program that does not go through the engine does to the file. */
static void change_outside(struct fixture *x, enum outside way)
{
    char other[512];
    snprintf(other, sizeof(other), "%s", fixture_path(x, "other"));
    const char *f = fixture_path(x, "f");
    if (way == REPLACED) {
        close(open(other, O_RDWR | O_CREAT, 0600));
        assert_int_equal(rename(other, f), 0);
        return;
    }
    assert_int_equal(unlink(f), 0);
    if (way == DIRECTORY)
        assert_int_equal(mkdir(f, 0700), 0);
    if (way == FIFO)
        assert_int_equal(mkfifo(f, 0600), 0);
}

/* Said once with the place, and then there is nothing left to recover. */
static void expect_kept_once(struct fixture *x)
{
    struct outcome o;
    int rc = recover(x, &o);
    if (rc != -ESTALE || o.named != 1 || !strstr(o.first, "/pfs/f"))
        fail_msg("recovery says %d and names %d: %s", rc, o.named, o.first);
    expect_kept(x, 'a');
    rc = recover(x, &o);
    if (rc != 0 || o.named)
        fail_msg("the second recovery says %d; %s", rc, o.first);
}

static void what_went_outside_is_kept_once(void **state)
{
    (void)state;
    for (int way = 0; way < WAYS; way++) {
        struct fixture x;
        do_and_die(&x, sync_and_die);
        change_outside(&x, (enum outside)way);
        expect_kept_once(&x);
        fixture_stop(&x);
    }
}

/* The processes are dead, the region is there. */
static void what_went_outside_is_kept_with_the_region(void **state)
{
    (void)state;
    for (int way = 0; way < WAYS; way++) {
        struct fixture x;
        int status;
        fixture_init(&x, TB_MODE_PERSISTENT_ASYNC);
        pid_t child = fork();
        if (child == 0) {
            fixture_start(&x);
            raise(put(&x, make(&x, "f"), 'a') ? SIGABRT : SIGKILL);
        }
        assert_true(waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        change_outside(&x, (enum outside)way);
        expect_kept_once(&x);
        fixture_stop(&x);
    }
}

/* Before the PFS is mounted everything seems to be gone: nothing is done, and the next recovery finds all. */
static void nothing_is_lost_before_the_pfs_is_there(void **state)
{
    (void)state;
    struct fixture x;
    struct outcome o;
    char away[600];
    do_and_die(&x, sync_and_die);
    snprintf(away, sizeof(away), "%s.away", x.pfs);
    assert_true(rename(x.pfs, away) == 0 && mkdir(x.pfs, 0700) == 0);
    assert_int_equal(recover(&x, &o), -ENOENT);
    assert_true(rmdir(x.pfs) == 0 && rename(away, x.pfs) == 0);
    assert_int_equal(recover(&x, &o), 1);
    fixture_stop(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_has_no_name_is_not_missed),          cmocka_unit_test(one_of_two_names_is_gone),
        cmocka_unit_test(what_went_outside_is_kept_once),          cmocka_unit_test(what_went_outside_is_kept_with_the_region),
        cmocka_unit_test(nothing_is_lost_before_the_pfs_is_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
