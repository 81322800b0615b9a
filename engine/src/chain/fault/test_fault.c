/* The fault layer, the chain that holds it, and the layers' pass-through, on real files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "chain/chain.h"
#include "chain/fault/fault.h"
#include "chain/fault/fault_parse.h"
#include "chain/model/device_clock.h"

static char folder[] = "/tmp/tierbench-fault-XXXXXX";

/* Two names at a time: rename and link need both. */
static const char *in_folder(const char *name)
{
    static char path[2][128];
    static int turn;
    char *out = path[turn++ % 2];
    snprintf(out, sizeof(path[0]), "%s/%s", folder, name);
    return out;
}

/*
 * The chain of a process with `text` as its TB_FAULT; its model costs nothing. The variable is gone again before another chain
 * is made.
 */
static struct tb_io *chain_with(const char *text)
{
    static const struct tb_device device;
    static struct tb_device_clock clock;
    setenv("TB_FAULT", text, 1);
    struct tb_io *io = tb_chain_new(&device, &clock, tb_io_libc());
    unsetenv("TB_FAULT");
    assert_non_null(io);
    return io;
}

/* Through the chain, so an open may be hit as well. */
static int open_file(struct tb_io *io, const char *name)
{
    int fd = TB_IO(io, open, in_folder(name), O_CREAT | O_RDWR, 0600);
    assert_true(fd >= 0);
    return fd;
}

/* `after` and `count` are of pwrite alone: a write and the close pass, and do not count. */
static void only_the_chosen_operations_fail(void **state)
{
    struct tb_io *io = chain_with("op=pwrite,errno=ENOSPC,after=2,count=2");
    int fd = open_file(io, "a");
    static const int expected[] = {1, 1, -ENOSPC, -ENOSPC, 1};
    (void)state;
    for (int i = 0; i < 5; i++)
        assert_int_equal(TB_IO(io, pwrite, fd, "x", 1, i), expected[i]);
    assert_int_equal(TB_IO(io, write, fd, "x", 1), 1);
    assert_int_equal(TB_IO(io, close, fd), 0);
    tb_chain_free(io, tb_io_libc());
}

/* What was moved is what the file has: 3 of 8 bytes twice, one after the other. A transfer of less than the limit is whole. */
static void transfers_are_cut_short(void **state)
{
    struct tb_io *io = chain_with("op=any,short=3,count=0");
    int fd = open_file(io, "short");
    char buf[16];
    (void)state;
    assert_int_equal(TB_IO(io, write, fd, "abcdefgh", 8), 3);
    assert_int_equal(TB_IO(io, pwrite, fd, "abcdefgh", 8, 3), 3);
    assert_int_equal(TB_IO(io, lseek, fd, 0, SEEK_SET), 0);
    assert_int_equal(TB_IO(io, read, fd, buf, 2), 2);
    assert_int_equal(TB_IO(io, pread, fd, buf, 16, 2), 3);
    assert_memory_equal(buf, "cab", 3);
    TB_IO(io, close, fd);
    tb_chain_free(io, tb_io_libc());
}

/*
 * A name matches by its beginning, so bad.d is hit, too. A descriptor has the name that its file has now, and a close that
 * fails has closed.
 */
static void faults_keep_to_their_path(void **state)
{
    char text[200];
    snprintf(text, sizeof(text), "op=any,errno=EIO,count=0,path=%s/bad", folder);
    struct tb_io *io = chain_with(text);
    int good = open_file(io, "good");
    struct stat st;
    (void)state;
    assert_int_equal(TB_IO(io, open, in_folder("bad"), O_CREAT | O_RDWR, 0600), -EIO);
    assert_int_equal(TB_IO(io, stat, in_folder("bad"), &st, 0), -EIO);
    assert_int_equal(TB_IO(io, mkdir, in_folder("bad.d"), 0700), -EIO);
    assert_int_equal(access(in_folder("bad.d"), F_OK), -1);
    assert_int_equal(TB_IO(io, fsync, good, true), 0);
    assert_int_equal(rename(in_folder("good"), in_folder("bad2")), 0);
    assert_int_equal(TB_IO(io, fsync, good, true), -EIO); /* it has another name now */
    assert_int_equal(TB_IO(io, close, good), -EIO);
    assert_int_equal(fcntl(good, F_GETFD), -1); /* closed all the same */
    tb_chain_free(io, tb_io_libc());
}

/* One byte in the file: the write before the second fsync was done. The child did not come to its exit. */
static void a_signal_strikes_at_the_operation(void **state)
{
    int status;
    (void)state;
    pid_t child = fork();
    if (child == 0) {
        struct tb_io *io = chain_with("op=fsync,signal=9,after=1");
        int fd = TB_IO(io, open, in_folder("k"), O_CREAT | O_RDWR, 0600);
        TB_IO(io, fsync, fd, false);
        TB_IO(io, pwrite, fd, "1", 1, 0);
        TB_IO(io, fsync, fd, false);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    struct stat st;
    assert_int_equal(stat(in_folder("k"), &st), 0);
    assert_int_equal(st.st_size, 1);
}

static void *write_one(void *arg)
{
    struct tb_io *io = arg;
    int fd = TB_IO(io, open, in_folder("k"), O_CREAT | O_TRUNC | O_RDWR, 0600);
    TB_IO(io, pwrite, fd, "1", 1, 0);
    return NULL;
}

/* Of a process whose other thread waits, as that of a drain does. */
static void a_stopped_thread_has_not_done_it(void **state)
{
    (void)state;
    for (int i = 0; i < 20; i++) {
        int status;
        struct stat st;
        pid_t child = fork();
        if (child == 0) {
            pthread_t thread;
            pthread_create(&thread, NULL, write_one, chain_with("op=pwrite,signal=19"));
            pthread_join(thread, NULL);
            _exit(0);
        }
        assert_int_equal(waitpid(child, &status, WUNTRACED), child);
        assert_true(WIFSTOPPED(status));
        assert_int_equal(stat(in_folder("k"), &st), 0);
        assert_int_equal(st.st_size, 0);
        kill(child, SIGCONT);
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(stat(in_folder("k"), &st), 0);
        assert_int_equal(st.st_size, 1);
    }
}

/* Operations reach the bottom through both layers, and errors come back. */
static void what_is_not_hit_passes(void **state)
{
    struct tb_io *io = chain_with("op=pwrite,errno=EIO,after=1000");
    struct stat st;
    char buf[8] = "";
    (void)state;
    int fd = open_file(io, "p");
    assert_int_equal(TB_IO(io, write, fd, "hello", 5), 5);
    assert_int_equal(TB_IO(io, lseek, fd, 0, SEEK_CUR), 5);
    int copy = dup(fd);
    assert_int_equal(TB_IO(io, dup, fd, copy), 0);
    assert_int_equal(TB_IO(io, ftruncate, copy, 4), 0);
    assert_int_equal(TB_IO(io, fstat, fd, &st), 0);
    assert_int_equal(st.st_size, 4);
    assert_int_equal(TB_IO(io, truncate, in_folder("p"), 3), 0);
    assert_int_equal(TB_IO(io, pread, fd, buf, 8, 0), 3);
    assert_string_equal(buf, "hel");
    assert_int_equal(TB_IO(io, close, copy), 0);
    assert_int_equal(TB_IO(io, close, fd), 0);
    assert_int_equal(TB_IO(io, close, fd), -EBADF);
    assert_int_equal(TB_IO(io, mkdir, in_folder("d"), 0700), 0);
    assert_int_equal(TB_IO(io, mkdir, in_folder("d"), 0700), -EEXIST);
    assert_int_equal(TB_IO(io, unlink, in_folder("d"), AT_REMOVEDIR), 0);
    assert_int_equal(TB_IO(io, link, in_folder("p"), in_folder("q")), 0);
    assert_int_equal(TB_IO(io, rename, in_folder("p"), in_folder("q"), RENAME_NOREPLACE), -EEXIST);
    assert_int_equal(TB_IO(io, rename, in_folder("p"), in_folder("r"), 0), 0);
    assert_int_equal(TB_IO(io, stat, in_folder("r"), &st, 0), 0);
    assert_int_equal(TB_IO(io, unlink, in_folder("r"), 0), 0);
    assert_int_equal(TB_IO(io, stat, in_folder("r"), &st, AT_SYMLINK_NOFOLLOW), -ENOENT);
    tb_chain_free(io, tb_io_libc());
}

/* Each operation on a name or on a directory, once hit and once passed on to real files. */
static int do_name(struct tb_io *io, const char *op)
{
    const struct timespec times[2] = {{.tv_nsec = UTIME_NOW}, {.tv_nsec = UTIME_NOW}};
    const char *made = in_folder("made"), *link = in_folder("link");
    char text[PATH_MAX];
    struct statx x;
    struct dirent *entry;
    DIR *directory = NULL;
    long limit;
    int rc = -ENOSYS;
    if (strcmp(op, "symlink") == 0)
        return TB_IO(io, symlink, "made", link);
    if (strcmp(op, "readlink") == 0) {
        rc = (int)TB_IO(io, readlink, link, text, sizeof(text));
        return rc == 4 ? 0 : rc;
    }
    if (strcmp(op, "mknod") == 0)
        return TB_IO(io, mknod, made, S_IFIFO | 0600, 0);
    if (strcmp(op, "realpath") == 0)
        return TB_IO(io, realpath, link, text);
    if (strcmp(op, "access") == 0)
        return TB_IO(io, access, made, W_OK, AT_EACCESS);
    if (strcmp(op, "chmod") == 0)
        return TB_IO(io, chmod, made, 0640, 0);
    if (strcmp(op, "chown") == 0)
        return TB_IO(io, chown, link, getuid(), getgid(), AT_SYMLINK_NOFOLLOW);
    if (strcmp(op, "utimens") == 0)
        return TB_IO(io, utimens, link, times, AT_SYMLINK_NOFOLLOW);
    if (strcmp(op, "statx") == 0)
        return TB_IO(io, statx, link, AT_SYMLINK_NOFOLLOW, STATX_BASIC_STATS, &x);
    if (strcmp(op, "pathconf") == 0)
        return TB_IO(io, pathconf, made, _PC_NAME_MAX, &limit);
    rc = TB_IO(io, opendir, folder, &directory);
    if (rc == 0 && strcmp(op, "readdir") == 0)
        while ((rc = TB_IO(io, readdir, directory, &entry)) == 0 && entry != NULL)
            ;
    int closed = directory != NULL ? TB_IO(io, closedir, directory) : 0;
    return rc != 0 ? rc : closed;
}

/*
 * An error that no operation here gives by itself, so it can only be the fault's. The second round is without it, as count
 * is 1.
 */
static void every_operation_on_names_can_be_hit(void **state)
{
    static const char *const ops[] = {"mknod",   "symlink", "readlink", "realpath", "access",  "chmod",   "chown",
                                      "utimens", "statx",   "pathconf", "opendir",  "readdir", "closedir"};
    char text[64];
    (void)state;
    for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
        snprintf(text, sizeof(text), "op=%s,errno=EDQUOT", ops[i]);
        struct tb_io *io = chain_with(text);
        if (do_name(io, ops[i]) != -EDQUOT)
            fail_msg("%s was not hit", ops[i]);
        int rc = do_name(io, ops[i]);
        if (rc != 0)
            fail_msg("%s: %s", ops[i], strerror(-rc));
        tb_chain_free(io, tb_io_libc());
    }
    unlink(in_folder("link"));
    unlink(in_folder("made"));
}

/* A chain without a layer is its base: what is not asked for costs no call. */
static void no_fault_is_no_layer(void **state)
{
    (void)state;
    unsetenv("TB_FAULT");
    assert_ptr_equal(tb_chain_new(NULL, NULL, tb_io_libc()), tb_io_libc());
    tb_chain_free(tb_io_libc(), tb_io_libc());
}

/*
 * Each lacks or has too much of one thing. A chain is refused like the text, so that no program runs without the fault that
 * a test meant.
 */
static void nonsense_is_refused(void **state)
{
    static const char *const nonsense[] = {
        "op=pwrite",
        "errno=EIO",
        "op=pwrit,errno=EIO",
        "op=read,errno=EWHAT",
        "op=read,errno=EIO,short=1",
        "op=read,after=-1,errno=EIO",
        "op=read,errno=EIO,count=many",
        "op=read,errno=EIO,path=rel",
        "op=read,errno=EIO,",
        "op",
        "op=read,errno=EIO,colour=red",
    };
    struct tb_fault fault;
    (void)state;
    for (size_t i = 0; i < sizeof(nonsense) / sizeof(nonsense[0]); i++) {
        if (tb_fault_parse(nonsense[i], &fault) != -EINVAL)
            fail_msg("\"%s\" was accepted", nonsense[i]);
        setenv("TB_FAULT", nonsense[i], 1);
        assert_null(tb_chain_new(NULL, NULL, tb_io_libc()));
        assert_int_equal(errno, EINVAL);
    }
    unsetenv("TB_FAULT");
    assert_int_equal(tb_fault_parse("op=read,errno=EIO,path=/a,b=c", &fault), 0);
    assert_string_equal(fault.path, "/a,b=c");
    assert_int_equal(fault.value, EIO);
}

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) == NULL;
}

/* What a test left in the folder makes rmdir fail, and with it the group: a fault that was said to prevent a file did not. */
static int remove_folder(void **state)
{
    static const char *const names[] = {"a", "short", "bad2", "k", "q"};
    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        unlink(in_folder(names[i]));
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_the_chosen_operations_fail),
        cmocka_unit_test(transfers_are_cut_short),
        cmocka_unit_test(faults_keep_to_their_path),
        cmocka_unit_test(a_signal_strikes_at_the_operation),
        cmocka_unit_test(a_stopped_thread_has_not_done_it),
        cmocka_unit_test(what_is_not_hit_passes),
        cmocka_unit_test(every_operation_on_names_can_be_hit),
        cmocka_unit_test(no_fault_is_no_layer),
        cmocka_unit_test(nonsense_is_refused),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
