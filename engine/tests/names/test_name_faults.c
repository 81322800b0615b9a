/*
 * Names on a file system that fails: each operation on a name fails once, at every place of
 * a run. The errno reaches the program, what it does again succeeds, and nothing is lost.
 */
#include "fixture.h"

#include <errno.h>
#include <limits.h>

#include "base/clock.h"
#include "base/report.h"
#include "instance/drain.h"
#include "io/io_layer.h"
#include "namespace/deferred.h"
#include "namespace/intent.h"
#include "recovery/recover.h"

static struct {
    const char *op; /* NULL: any operation on a name */
    int error;      /* 0: nothing fails */
    int after, seen;
    const char *struck; /* the operation that failed */
} fault;

static bool strike(const char *op)
{
    static const char *const bytes = " read write pread pwrite lseek fsync fstat dup close ";
    char name[24];
    snprintf(name, sizeof(name), " %s ", op);
    if (!fault.error || fault.struck || (fault.op ? strcmp(op, fault.op) != 0 : strstr(bytes, name) != NULL))
        return false;
    if (fault.seen++ < fault.after)
        return false;
    fault.struck = op;
    return true;
}

/* As the kernel does it: what is closed is closed, also when the close fails. */
static bool ends(const char *op)
{
    return strcmp(op, "close") == 0 || strcmp(op, "closedir") == 0;
}

#define HIT(type, op, parameters, ...)                                     \
    static type hit_##op parameters                                        \
    {                                                                      \
        bool struck = strike(#op);                                         \
        type rc = !struck || ends(#op) ? TB_NEXT(io, op, __VA_ARGS__) : 0; \
        return struck ? (type) - fault.error : rc;                         \
    }
TB_IO_OPERATIONS(HIT)
#define OWN(type, op, parameters, ...) .op = hit_##op,
static const struct tb_io_ops hit_ops = {.name = "hit", TB_IO_OPERATIONS(OWN)};
static struct tb_io hit_base = {.ops = &hit_ops};

static void begin(struct fixture *x, enum tb_mode mode, bool deferred)
{
    memset(&fault, 0, sizeof(fault));
    hit_base.next = tb_io_libc();
    fixture_init(x, mode);
    x->config.deferred = deferred;
    x->base = &hit_base;
}

static struct tb_io *at(struct fixture *x, const char *name, char *path)
{
    snprintf(path, 512, "%s/%s", x->pfs, name);
    return tb_engine_route(x->engine, path, NULL);
}

static int put(struct fixture *x, const char *name, const char *bytes)
{
    char path[512];
    struct tb_io *io = at(x, name, path);
    int fd = TB_IO(io, open, path, O_CREAT | O_RDWR, 0600);
    if (fd < 0)
        return fd;
    ssize_t n = TB_IO(io, pwrite, fd, bytes, strlen(bytes), 0);
    int rc = TB_IO(io, fsync, fd, false);
    int closed = TB_IO(io, close, fd);
    return n < 0 ? (int)n : rc ? rc : closed;
}

static int move(struct fixture *x, const char *from, const char *to)
{
    char a[512], b[512];
    struct tb_io *io = at(x, from, a);
    at(x, to, b);
    at(x, from, a); /* the one that is operated on is routed last */
    return TB_IO(io, rename, a, b, 0);
}

static int make_directory(struct fixture *x, const char *name)
{
    char path[512];
    struct tb_io *io = at(x, name, path);
    return TB_IO(io, mkdir, path, 0700);
}

static int remove_name(struct fixture *x, const char *name, int flags)
{
    char path[512];
    struct tb_io *io = at(x, name, path);
    return TB_IO(io, unlink, path, flags);
}

static bool has(struct fixture *x, const char *name)
{
    char path[512];
    struct stat st;
    struct tb_io *io = at(x, name, path);
    int rc = TB_IO(io, stat, path, &st, 0);
    rc = rc == -fault.error ? TB_IO(io, stat, path, &st, 0) : rc;
    assert_true(rc == 0 || rc == -ENOENT);
    return rc == 0;
}

/* A step fails with the errno that was injected, or not at all; done again it must succeed. */
#define STEP(call)                                                                                                   \
    do {                                                                                                             \
        const char *struck_ = fault.struck;                                                                          \
        int rc_ = (call);                                                                                            \
        if (rc_ && (rc_ != -fault.error || struck_))                                                                 \
            fail_msg("%s after %s failed at call %d: %s", #call, fault.struck, fault.after, strerror(-rc_));         \
        if (rc_)                                                                                                     \
            rc_ = (call);                                                                                            \
        if (rc_)                                                                                                     \
            fail_msg("%s, again, after %s failed at call %d: %s", #call, fault.struck, fault.after, strerror(-rc_)); \
    } while (0)

/* A rename may have been done before what follows it failed. */
static int move_once(struct fixture *x, const char *from, const char *to)
{
    return fault.struck && !has(x, from) && has(x, to) ? 0 : move(x, from, to);
}

static int make_once(struct fixture *x, const char *name)
{
    int rc = make_directory(x, name);
    return rc == -EEXIST && fault.struck ? 0 : rc;
}

static void assert_bytes(const char *path, const char *bytes)
{
    char found[32] = "";
    int fd = open(path, O_RDONLY);
    if (fd < 0 || read(fd, found, sizeof(found) - 1) < 0 || strcmp(found, bytes) != 0)
        fail_msg("%s has \"%s\", not \"%s\", after %s failed at call %d", path, found, bytes, fault.struck, fault.after);
    close(fd);
}

static int keeps(struct fixture *x, const char *name)
{
    int rc = remove_name(x, name, AT_REMOVEDIR);
    return rc == -ENOTEMPTY ? 0 : rc ? rc : -ENOMSG; /* never removed */
}

/* The first place past the last call: nothing was struck. */
static bool deferred_run(int error, int after)
{
    struct fixture x;
    begin(&x, TB_MODE_PERSISTENT_ASYNC, true);
    fixture_start(&x);
    fault.after = after;
    fault.error = error;
    STEP(make_once(&x, "d"));
    STEP(put(&x, "d/f", "first"));
    STEP(make_once(&x, "d/below"));
    STEP(put(&x, "d/below/b", "below"));
    STEP(move_once(&x, "d", "e"));
    STEP(put(&x, "e/h", "second"));
    STEP(put(&x, "e/below/c", "again"));
    STEP(keeps(&x, "e/below"));
    STEP(move_once(&x, "e/f", "g"));
    bool struck = fault.struck;
    fault.error = 0;
    int rc = tb_instance_drain(x.engine, 1, NULL, NULL, NULL);
    if (rc)
        fail_msg("drain after %s failed at call %d: %s", fault.struck, after, strerror(-rc));
    assert_bytes(fixture_path(&x, "g"), "first");
    assert_bytes(fixture_path(&x, "e/h"), "second");
    assert_bytes(fixture_path(&x, "e/below/b"), "below");
    assert_bytes(fixture_path(&x, "e/below/c"), "again");
    fixture_stop(&x);
    return struck;
}

static void deferred_names_survive_a_failure_anywhere(void **state)
{
    (void)state;
    for (int after = 0; deferred_run(EIO, after); after++)
        ;
    for (int after = 0; deferred_run(ENOSPC, after); after++)
        ;
}

static void fill(const char *path, const char *bytes)
{
    int fd = open(path, O_CREAT | O_WRONLY, 0600);
    assert_true(fd >= 0 && write(fd, bytes, strlen(bytes)) == (ssize_t)strlen(bytes));
    close(fd);
}

static int see(struct fixture *x, const char *name)
{
    char path[512];
    struct stat st;
    struct tb_io *io = at(x, name, path);
    return TB_IO(io, stat, path, &st, 0);
}

static int see_bytes(struct fixture *x, const char *name, const char *bytes)
{
    char path[512], found[32] = "";
    struct tb_io *io = at(x, name, path);
    int fd = TB_IO(io, open, path, O_RDONLY, 0);
    if (fd < 0)
        return fd;
    ssize_t n = TB_IO(io, pread, fd, found, sizeof(found) - 1, 0);
    TB_IO(io, close, fd);
    return n < 0 ? (int)n : strcmp(found, bytes) == 0 ? 0 : -EBADMSG;
}

static int remove_once(struct fixture *x, const char *name)
{
    int rc = remove_name(x, name, 0);
    return rc == -ENOENT && fault.struck ? 0 : rc;
}

static bool shadow_run(int error, int after)
{
    struct fixture x;
    begin(&x, TB_MODE_SCRATCH, false);
    assert_int_equal(mkdir(fixture_path(&x, "d"), 0700), 0);
    assert_int_equal(mkdir(fixture_path(&x, "d/below"), 0700), 0);
    fill(fixture_path(&x, "d/a"), "bytes");
    fill(fixture_path(&x, "d/b"), "other");
    fill(fixture_path(&x, "d/below/c"), "deep");
    assert_int_equal(symlink("a", fixture_path(&x, "d/link")), 0);
    assert_int_equal(mkfifo(fixture_path(&x, "d/pipe"), 0600), 0);
    fixture_start(&x);
    fault.after = after;
    fault.error = error;
    STEP(see(&x, "d/a"));
    STEP(put(&x, "d/a", "B"));
    STEP(see(&x, "d/pipe"));
    STEP(see_bytes(&x, "d/link", "Bytes"));
    STEP(move_once(&x, "d", "e"));
    STEP(see_bytes(&x, "e/below/c", "deep"));
    STEP(make_once(&x, "e/new"));
    STEP(put(&x, "e/new/n", "new"));
    STEP(remove_once(&x, "e/b"));
    bool struck = fault.struck;
    fault.error = 0;
    assert_int_equal(see_bytes(&x, "e/a", "Bytes"), 0);
    assert_int_equal(see_bytes(&x, "e/link", "Bytes"), 0);
    assert_int_equal(see_bytes(&x, "e/new/n", "new"), 0);
    assert_int_equal(see(&x, "e/b"), -ENOENT);
    assert_int_equal(see(&x, "d"), -ENOENT);
    assert_bytes(fixture_path(&x, "d/a"), "bytes"); /* and the PFS never changes */
    fixture_stop(&x);
    return struck;
}

static void a_shadow_survives_a_failure_anywhere(void **state)
{
    (void)state;
    for (int after = 0; shadow_run(EIO, after); after++)
        ;
    for (int after = 0; shadow_run(ENOSPC, after); after++)
        ;
}

static int recover(struct fixture *x)
{
    struct tb_error err = {""};
    return tb_instance_recover(&x->config, &hit_base, NULL, NULL, NULL, &err);
}

/* EINVAL: a file system that cannot rename without replacing. */
static bool recovery_run(int error, const char *op, int after)
{
    struct fixture x;
    begin(&x, TB_MODE_PERSISTENT_ASYNC, true);
    fixture_start(&x);
    assert_int_equal(make_directory(&x, "d"), 0);
    assert_int_equal(put(&x, "f", "first"), 0);
    assert_int_equal(put(&x, "d/g", "second"), 0);
    fixture_lose_region(&x);
    fault.op = op;
    fault.after = after;
    fault.error = error;
    int rc = recover(&x);
    bool struck = fault.struck;
    fault.error = 0;
    if (rc < 0 && (rc != -error || !struck))
        fail_msg("recovery: %s", strerror(-rc));
    assert_true(recover(&x) >= 0); /* what a failure left is cleared by the next one */
    assert_bytes(fixture_path(&x, "f"), "first");
    assert_bytes(fixture_path(&x, "d/g"), "second");
    assert_int_equal(recover(&x), 0);
    tb_remove_tree(x.root, NULL);
    return struck;
}

static void recovery_survives_a_failure_anywhere(void **state)
{
    (void)state;
    for (int after = 0; recovery_run(EIO, NULL, after); after++)
        ;
    for (int after = 0; recovery_run(ENOSPC, NULL, after); after++)
        ;
    assert_true(recovery_run(EINVAL, "rename", 0));
}

/* What a program asks for, and the operation that fails in it. */
static int list_waiting(struct fixture *x)
{
    char *names = tb_engine_waiting(x->engine, x->pfs);
    int rc = names ? 0 : -errno;
    free(names);
    return rc;
}

static int make_second(struct fixture *x)
{
    return put(x, "d/f", "bytes");
}

static int rename_below(struct fixture *x)
{
    return move(x, "d", "e");
}

static void each_failure_reaches_the_program(void **state)
{
    static const struct {
        const char *op;
        int (*act)(struct fixture *x);
    } cases[] = {
        {"statx", make_second},    {"stat", make_second},      {"realpath", make_second},  {"mkdir", make_second},
        {"symlink", make_second},  {"chown", make_second},     {"chmod", make_second},     {"opendir", list_waiting},
        {"readdir", list_waiting}, {"closedir", list_waiting}, {"statx", list_waiting},    {"opendir", rename_below},
        {"readdir", rename_below}, {"realpath", rename_below}, {"readlink", rename_below},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct fixture x;
        begin(&x, TB_MODE_PERSISTENT_ASYNC, true);
        fixture_start(&x);
        assert_int_equal(make_directory(&x, "d"), 0);
        assert_int_equal(put(&x, "f", "bytes"), 0);
        fault.op = cases[i].op;
        fault.error = EDQUOT;
        int rc = cases[i].act(&x);
        if (rc != -EDQUOT || !fault.struck)
            fail_msg("%s in case %zu: %s", cases[i].op, i, rc ? strerror(-rc) : "no error");
        fault.error = 0;
        assert_true(has(&x, "d") && !has(&x, "e")); /* what failed is not done */
        fixture_stop(&x);
    }
}

/* What needs nothing but a place: programs see their own names, on the PFS and in a shadow. */
static void the_engines_own_table_is_whole(void **state)
{
    const struct timespec times[2] = {{.tv_sec = 1}, {.tv_sec = 2}};
    char path[512], link[512], text[PATH_MAX];
    struct dirent *entry;
    struct statx sx;
    struct stat st;
    DIR *directory;
    (void)state;
    for (int scratch = 0; scratch < 2; scratch++) {
        struct fixture x;
        int n = 0, rc;
        begin(&x, scratch ? TB_MODE_SCRATCH : TB_MODE_PERSISTENT_ASYNC, false);
        assert_int_equal(mkdir(fixture_path(&x, "d"), 0700), 0);
        fill(fixture_path(&x, "d/f"), "bytes");
        fixture_start(&x);
        struct tb_io *io = at(&x, "d/f", path);
        assert_int_equal(TB_IO(io, access, path, R_OK, AT_EACCESS), 0);
        assert_int_equal(TB_IO(io, chmod, path, 0640, 0), 0);
        assert_int_equal(TB_IO(io, chown, path, getuid(), getgid(), AT_SYMLINK_NOFOLLOW), 0);
        assert_int_equal(TB_IO(io, utimens, path, times, AT_SYMLINK_NOFOLLOW), 0);
        assert_int_equal(TB_IO(io, statx, path, 0, STATX_BASIC_STATS, &sx), 0);
        assert_true((sx.stx_mode & 07777) == 0640 && sx.stx_mtime.tv_sec == 2);
        io = at(&x, "link", link);
        assert_int_equal(TB_IO(io, symlink, path, link), 0);
        assert_int_equal(TB_IO(io, readlink, link, text, sizeof(text)), strlen(path));
        assert_memory_equal(text, path, strlen(path));
        assert_int_equal(TB_IO(io, readlink, link, text, 3), 3);
        assert_int_equal(TB_IO(io, realpath, link, text), 0);
        assert_string_equal(text, path);
        io = at(&x, "d/pipe", path);
        assert_int_equal(TB_IO(io, mknod, path, S_IFIFO | 0600, 0), 0);
        io = at(&x, "d", path);
        assert_int_equal(TB_IO(io, opendir, path, &directory), 0);
        while ((rc = TB_IO(io, readdir, directory, &entry)) == 0 && entry)
            n += entry->d_name[0] != '.';
        assert_int_equal(rc, 0);
        assert_int_equal(n, 2);
        assert_int_equal(TB_IO(io, closedir, directory), 0);
        assert_int_equal(lstat(fixture_path(&x, "link"), &st), scratch ? -1 : 0); /* a shadow leaves the PFS as it is */
        fixture_stop(&x);
    }
}

/* The hidden directory's part of it, its text and permissions: all of it is asked of the PFS, at 1 ms each. */
static void a_model_charges_what_a_deferred_name_costs(void **state)
{
    struct fixture x;
    (void)state;
    begin(&x, TB_MODE_PERSISTENT_ASYNC, true);
    x.config.pfs.modelled = true;
    x.config.pfs.model = (struct tb_device){.metadata_time = 1e-3, .open_time = 1e-3, .channels = 1};
    fixture_start(&x);
    assert_int_equal(make_directory(&x, "d"), 0);
    fault.after = INT_MAX;
    fault.error = EIO; /* counts calls, and hits none */
    uint64_t before = tb_now_ns();
    assert_int_equal(put(&x, "d/f", "bytes"), 0);
    assert_true(fault.seen >= 10);
    assert_true(x.engine->header->clocks.pfs.metadata_free_at - before >= 10 * UINT64_C(1000000));
    fixture_stop(&x);
}

/* Both directories of an exchange take their deferred names along. */
static void an_exchange_takes_deferred_names_along(void **state)
{
    struct fixture x;
    char a[512], b[512];
    (void)state;
    begin(&x, TB_MODE_PERSISTENT_ASYNC, true);
    fixture_start(&x);
    assert_int_equal(make_directory(&x, "a"), 0);
    assert_int_equal(make_directory(&x, "b"), 0);
    assert_int_equal(put(&x, "a/f", "of a"), 0);
    assert_int_equal(put(&x, "b/g", "of b"), 0);
    at(&x, "b", b);
    struct tb_io *io = at(&x, "a", a);
    assert_int_equal(TB_IO(io, rename, a, b, RENAME_EXCHANGE), 0);
    assert_int_equal(tb_instance_drain(x.engine, 1, NULL, NULL, NULL), 0);
    assert_bytes(fixture_path(&x, "b/f"), "of a");
    assert_bytes(fixture_path(&x, "a/g"), "of b");
    fixture_stop(&x);
}

/* Killed after the texts of its deferred names said where the directory will be, before the rename or after it. */
static void kill_in_a_rename(bool renamed)
{
    struct fixture x;
    char from[512], to[512];
    begin(&x, TB_MODE_PERSISTENT_ASYNC, true);
    fixture_start(&x);
    assert_int_equal(make_directory(&x, "d"), 0);
    assert_int_equal(put(&x, "d/f", "bytes"), 0);
    at(&x, "d", from);
    at(&x, "e", to);
    assert_non_null(tb_intent_rename(x.engine, TB_NONE, TB_NONE, from, to));
    assert_int_equal(tb_waiting_rename(x.engine, from, to, false), 0);
    if (renamed)
        assert_int_equal(rename(from, to), 0);
    tb_intents_finish(x.engine, x.engine->slot);
    assert_int_equal(tb_instance_drain(x.engine, 1, NULL, NULL, NULL), 0);
    assert_bytes(fixture_path(&x, renamed ? "e/f" : "d/f"), "bytes");
    fixture_stop(&x);
}

static void a_kill_in_a_rename_takes_deferred_names_along(void **state)
{
    (void)state;
    kill_in_a_rename(true);
    kill_in_a_rename(false);
}

/* Killed in an exchange of two directories: repair sees by the files which way round they are. */
static void kill_in_an_exchange(bool deferred, bool exchanged)
{
    struct fixture x;
    char a[512], b[512];
    begin(&x, TB_MODE_PERSISTENT_ASYNC, deferred);
    x.config.fsync = TB_FSYNC_TIER;
    fixture_start(&x);
    assert_int_equal(make_directory(&x, "a"), 0);
    assert_int_equal(make_directory(&x, "b"), 0);
    assert_int_equal(put(&x, "a/f", "of a"), 0);
    assert_int_equal(put(&x, "b/f", "of b"), 0);
    at(&x, "a", a);
    at(&x, "b", b);
    assert_non_null(tb_intent_exchange(x.engine, a, b));
    assert_int_equal(tb_waiting_rename(x.engine, a, b, true), 0);
    if (exchanged)
        assert_int_equal(renameat2(AT_FDCWD, a, AT_FDCWD, b, RENAME_EXCHANGE), 0);
    tb_intents_finish(x.engine, x.engine->slot);
    assert_int_equal(tb_instance_drain(x.engine, 1, NULL, NULL, NULL), 0);
    assert_bytes(fixture_path(&x, exchanged ? "b/f" : "a/f"), "of a");
    assert_bytes(fixture_path(&x, exchanged ? "a/f" : "b/f"), "of b");
    fixture_stop(&x);
}

static void a_kill_in_an_exchange_loses_no_name(void **state)
{
    (void)state;
    for (int k = 0; k < 4; k++)
        kill_in_an_exchange(k & 1, k & 2);
}

/* The text of a directory's deferred names cannot be written, or its own rename fails: neither is done. */
static void a_rename_that_fails_is_not_done(void **state)
{
    static const struct {
        const char *op;
        int after;
    } cases[] = {{"symlink", 0}, {"rename", 0}, {"rename", 1}};
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct fixture x;
        begin(&x, TB_MODE_PERSISTENT_ASYNC, true);
        fixture_start(&x);
        assert_int_equal(make_directory(&x, "d"), 0);
        assert_int_equal(put(&x, "d/f", "bytes"), 0);
        fault.op = cases[i].op;
        fault.after = cases[i].after;
        fault.error = EDQUOT;
        assert_int_equal(move(&x, "d", "e"), -EDQUOT);
        fault.error = 0;
        assert_true(has(&x, "d") && !has(&x, "e"));
        assert_int_equal(tb_instance_drain(x.engine, 1, NULL, NULL, NULL), 0);
        assert_bytes(fixture_path(&x, "d/f"), "bytes");
        fixture_stop(&x);
    }
}

/* A file and a directory change places, with a file in it. */
static void an_exchange_of_a_file_and_a_directory(void **state)
{
    struct fixture x;
    char a[512], b[512];
    (void)state;
    begin(&x, TB_MODE_PERSISTENT_ASYNC, false);
    fixture_start(&x);
    assert_int_equal(make_directory(&x, "d"), 0);
    assert_int_equal(put(&x, "d/f", "in it"), 0);
    assert_int_equal(put(&x, "g", "the file"), 0);
    struct tb_io *io = at(&x, "d", b);
    at(&x, "g", a);
    assert_int_equal(TB_IO(io, rename, a, b, RENAME_EXCHANGE), 0);
    assert_int_equal(tb_instance_drain(x.engine, 1, NULL, NULL, NULL), 0);
    assert_bytes(fixture_path(&x, "g/f"), "in it");
    assert_bytes(fixture_path(&x, "d"), "the file");
    fixture_stop(&x);
}

/* Without room for the new name nothing is renamed; the bytes stay where they belong. */
static void a_rename_without_room_for_the_name(void **state)
{
    struct fixture x;
    (void)state;
    begin(&x, TB_MODE_PERSISTENT_ASYNC, false);
    fixture_start(&x);
    assert_int_equal(make_directory(&x, "d"), 0);
    assert_int_equal(make_directory(&x, "new"), 0);
    assert_int_equal(put(&x, "f", "bytes"), 0);
    assert_int_equal(put(&x, "d/g", "below"), 0);
    uint32_t free_names = x.engine->header->names.free;
    x.engine->header->names.free = TB_NONE;
    assert_int_equal(move(&x, "f", "new/f"), -ENFILE);
    assert_int_equal(move(&x, "d", "new/d"), -ENFILE);
    assert_true(has(&x, "f") && has(&x, "d/g") && !has(&x, "new/f") && !has(&x, "new/d"));
    x.engine->header->names.free = free_names;
    assert_int_equal(tb_instance_drain(x.engine, 1, NULL, NULL, NULL), 0);
    assert_bytes(fixture_path(&x, "f"), "bytes");
    assert_bytes(fixture_path(&x, "d/g"), "below");
    assert_int_equal(move(&x, "f", "new/f"), 0);
    assert_int_equal(move(&x, "d", "new/d"), 0);
    fixture_stop(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_failure_reaches_the_program),       cmocka_unit_test(deferred_names_survive_a_failure_anywhere),
        cmocka_unit_test(a_shadow_survives_a_failure_anywhere),   cmocka_unit_test(recovery_survives_a_failure_anywhere),
        cmocka_unit_test(the_engines_own_table_is_whole),         cmocka_unit_test(a_model_charges_what_a_deferred_name_costs),
        cmocka_unit_test(an_exchange_takes_deferred_names_along), cmocka_unit_test(a_kill_in_a_rename_takes_deferred_names_along),
        cmocka_unit_test(a_kill_in_an_exchange_loses_no_name),    cmocka_unit_test(an_exchange_of_a_file_and_a_directory),
        cmocka_unit_test(a_rename_without_room_for_the_name),     cmocka_unit_test(a_rename_that_fails_is_not_done),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
