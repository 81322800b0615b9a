/*
 * Late opens: descriptors of which the engine does not know the file until they are used. Names may change before that, and other
 * clients may write: it must make no difference to what the descriptors read and where they write.
 */
#include "fixture.h"

#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>

#include "file/file.h"
#include "instance/invariants.h"
#include "io/identity.h"
#include "layer/descriptions.h"
#include "layer/repair.h"

struct client {
    tb_engine *engine;
    struct tb_io *io;
};

struct late {
    struct fixture x;
    struct client own, other;
};

static struct client attach(struct fixture *x)
{
    struct client c;
    assert_int_equal(tb_engine_attach(x->name, tb_io_libc(), &c.engine), 0);
    c.io = tb_engine_route(c.engine, x->pfs, NULL);
    return c;
}

static int begin(void **state, enum tb_mode mode)
{
    struct late *l = calloc(1, sizeof(*l));
    assert_non_null(l);
    fixture_init(&l->x, mode);
    fixture_start(&l->x);
    l->own = (struct client){l->x.engine, l->x.io};
    l->other = attach(&l->x);
    *state = l;
    return 0;
}

static int begin_async(void **state)
{
    return begin(state, TB_MODE_PERSISTENT_ASYNC);
}

static int begin_scratch(void **state)
{
    return begin(state, TB_MODE_SCRATCH);
}

static int end(void **state)
{
    struct late *l = *state;
    tb_engine_detach(l->other.engine);
    assert_true(tb_region_is_valid(l->x.engine));
    fixture_stop(&l->x);
    free(l);
    return 0;
}

static int open_by(struct late *l, const struct client *c, const char *name, int flags)
{
    int fd = TB_IO(c->io, open, fixture_path(&l->x, name), flags, 0600);
    assert_true(fd >= 0);
    return fd;
}

/* The client has a late open. */
static bool is_late(const struct client *c)
{
    return (uint32_t)c->engine->region.clients[c->engine->slot].late != 0;
}

static void close_by(const struct client *c, int fd)
{
    assert_int_equal(TB_IO(c->io, close, fd), 0);
}

static int open_late(struct late *l, const struct client *c, const char *name, int flags)
{
    int fd = open_by(l, c, name, flags);
    for (int i = 0; i < 100 && !is_late(c); i++) { /* after one that was used some are not */
        close_by(c, fd);
        fd = open_by(l, c, name, flags);
    }
    assert_true(is_late(c));
    return fd;
}

static void put(const struct client *c, int fd, const char *bytes, off_t at)
{
    assert_int_equal(TB_IO(c->io, pwrite, fd, bytes, strlen(bytes), at), strlen(bytes));
}

static void make(struct late *l, const char *name, const char *bytes)
{
    int fd = open_by(l, &l->own, name, O_RDWR | O_CREAT);
    put(&l->own, fd, bytes, 0);
    close_by(&l->own, fd);
}

static void expect(const struct client *c, int fd, const char *bytes)
{
    char got[100] = "";
    ssize_t n = TB_IO(c->io, pread, fd, got, sizeof(got) - 1, 0);
    assert_int_equal(n, strlen(bytes));
    assert_string_equal(got, bytes);
}

static void unlink_by(struct late *l, const struct client *c, const char *name)
{
    assert_int_equal(TB_IO(c->io, unlink, fixture_path(&l->x, name), 0), 0);
}

static void rename_by_own(struct late *l, const char *from, const char *to)
{
    char path[512];
    snprintf(path, sizeof(path), "%s", fixture_path(&l->x, from));
    assert_int_equal(TB_IO(l->own.io, rename, path, fixture_path(&l->x, to), 0), 0);
}

static void link_by_own(struct late *l, const char *from, const char *to)
{
    char path[512];
    snprintf(path, sizeof(path), "%s", fixture_path(&l->x, from));
    assert_int_equal(TB_IO(l->own.io, link, path, fixture_path(&l->x, to)), 0);
}

static bool is_scratch(const struct late *l)
{
    return l->x.config.prefixes[0].mode == TB_MODE_SCRATCH;
}

static uint32_t n_free_opens(const tb_engine *e)
{
    uint32_t n = 0;
    for (uint32_t i = (uint32_t)e->header->opens.free; i != TB_NONE; i = e->region.opens[i].next_free)
        n++;
    return n;
}

static void an_open_without_use_takes_nothing(void **state)
{
    struct late *l = *state;
    close_by(&l->own, open_late(l, &l->own, "f", O_RDWR | O_CREAT));
    uint32_t files = l->own.engine->header->files.n, opens = n_free_opens(l->own.engine);
    for (int i = 0; i < 100; i++) {
        close_by(&l->own, open_late(l, &l->own, "f", O_RDWR));
        assert_false(is_late(&l->own));
    }
    assert_int_equal(l->own.engine->header->files.n, files);
    assert_int_equal(n_free_opens(l->own.engine), opens);
}

static void a_second_open_makes_the_first_known(void **state)
{
    struct late *l = *state;
    make(l, "f", "first");
    make(l, "g", "second");
    int f = open_late(l, &l->other, "f", O_RDONLY), g = open_late(l, &l->other, "g", O_RDONLY);
    unlink_by(l, &l->own, "f");
    expect(&l->other, g, "second");
    expect(&l->other, f, "first");
    close_by(&l->other, f);
    close_by(&l->other, g);
}

static void reads_what_was_there_before_its_name_went(void **state)
{
    struct late *l = *state;
    make(l, "f", "bytes");
    int fd = open_late(l, &l->other, "f", O_RDONLY);
    unlink_by(l, &l->own, "f");
    expect(&l->other, fd, "bytes");
    close_by(&l->other, fd);
}

static void reads_what_its_writer_wrote_after_its_name_went(void **state)
{
    struct late *l = *state;
    int writer = open_by(l, &l->own, "f", O_RDWR | O_CREAT);
    put(&l->own, writer, "one ", 0);
    int fd = open_late(l, &l->other, "f", O_RDONLY);
    unlink_by(l, &l->own, "f");
    put(&l->own, writer, "two", 4);
    close_by(&l->own, writer);
    expect(&l->other, fd, "one two");
    close_by(&l->other, fd);
}

static void reads_the_file_that_was_replaced(void **state)
{
    struct late *l = *state;
    make(l, "f", "old");
    make(l, "g", "new");
    int fd = open_late(l, &l->other, "f", O_RDONLY);
    rename_by_own(l, "g", "f");
    expect(&l->other, fd, "old");
    close_by(&l->other, fd);
    fd = open_late(l, &l->other, "f", O_RDONLY);
    expect(&l->other, fd, "new");
    close_by(&l->other, fd);
}

static void its_name_is_used_again(void **state)
{
    struct late *l = *state;
    make(l, "f", "old");
    int fd = open_late(l, &l->other, "f", O_RDWR);
    unlink_by(l, &l->own, "f");
    make(l, "f", "new");
    put(&l->other, fd, "OLD", 0);
    expect(&l->other, fd, "OLD");
    int again = open_by(l, &l->own, "f", O_RDONLY);
    expect(&l->own, again, "new");
    close_by(&l->own, again);
    close_by(&l->other, fd);
}

/* Neither has a record of it when the name goes. */
static void two_share_a_file_without_a_name(void **state)
{
    struct late *l = *state;
    struct client third = attach(&l->x);
    uint32_t files = l->own.engine->header->files.n;
    close_by(&l->own, open_by(l, &l->own, "f", O_RDWR | O_CREAT));
    int writer = open_late(l, &l->own, "f", O_RDWR), reader = open_late(l, &l->other, "f", O_RDONLY);
    unlink_by(l, &third, "f");
    put(&l->own, writer, "bytes", 0);
    close_by(&l->own, writer);
    expect(&l->other, reader, "bytes");
    close_by(&l->other, reader);
    assert_int_equal(l->own.engine->header->files.n, files); /* nothing waits for a flush to a name that is gone */
    tb_engine_detach(third.engine);
}

static void writes_go_where_the_file_was_moved(void **state)
{
    struct late *l = *state;
    close_by(&l->own, open_by(l, &l->own, "f", O_RDWR | O_CREAT)); /* without a record, which would be renamed, too */
    int fd = open_late(l, &l->other, "f", O_RDWR);
    rename_by_own(l, "f", "g");
    make(l, "f", "another");
    put(&l->other, fd, "new", 0);
    close_by(&l->other, fd);
    assert_true(tb_engine_flush(l->own.engine, -1) >= 0);
    int moved = open_by(l, &l->own, "g", O_RDONLY), again = open_by(l, &l->own, "f", O_RDONLY);
    expect(&l->own, moved, "new");
    expect(&l->own, again, "another");
    for (uint32_t i = 0; i < l->own.engine->region.n_file_buckets && !is_scratch(l); i++)
        assert_int_equal(l->own.engine->region.files[i].n_dirty, 0);
    close_by(&l->own, moved);
    close_by(&l->own, again);
}

static void its_new_name_goes(void **state)
{
    struct late *l = *state;
    make(l, "f", "bytes");
    int fd = open_late(l, &l->other, "f", O_RDONLY);
    rename_by_own(l, "f", "g");
    unlink_by(l, &l->own, "g");
    expect(&l->other, fd, "bytes");
    close_by(&l->other, fd);
}

static void its_own_process_takes_its_name(void **state)
{
    struct late *l = *state;
    make(l, "f", "bytes");
    int fd = open_late(l, &l->own, "f", O_RDWR);
    unlink_by(l, &l->own, "f");
    expect(&l->own, fd, "bytes");
    put(&l->own, fd, "BYTES", 0);
    assert_int_equal(l->own.engine->header->totals.fallbacks, 0); /* a file without a name is buffered, as any */
    close_by(&l->own, fd);
}

/* The name that it was opened by goes first, then the last one, under which it was written. */
static void another_name_goes_last(void **state)
{
    struct late *l = *state;
    make(l, "f", "old");
    int fd = open_late(l, &l->other, "f", O_RDONLY);
    link_by_own(l, "f", "g");
    unlink_by(l, &l->own, "f");
    make(l, "g", "new");
    unlink_by(l, &l->own, "g");
    expect(&l->other, fd, "new");
    close_by(&l->other, fd);
}

/* A link hides which name the file has: such an open is known at once. */
static void not_by_a_link(void **state)
{
    struct late *l = *state;
    make(l, "f", "bytes");
    assert_int_equal(TB_IO(l->own.io, symlink, "f", fixture_path(&l->x, "s")), 0);
    int fd = open_by(l, &l->other, "s", O_RDONLY);
    unlink_by(l, &l->own, "f");
    expect(&l->other, fd, "bytes");
    close_by(&l->other, fd);
}

static void a_directory_has_no_record(void **state)
{
    struct late *l = *state;
    struct stat st;
    assert_int_equal(TB_IO(l->own.io, mkdir, fixture_path(&l->x, "d"), 0700), 0);
    for (int i = 0; i < 3; i++) {
        int fd = open_late(l, &l->own, "d", O_RDONLY);
        assert_int_equal(TB_IO(l->own.io, fstat, fd, &st), 0);
        assert_true(S_ISDIR(st.st_mode));
        assert_false(is_late(&l->own));
        close_by(&l->own, fd);
    }
}

static void copies_share_its_offset(void **state)
{
    struct late *l = *state;
    char got[10] = "";
    make(l, "f", "abcdef");
    int fd = open_late(l, &l->own, "f", O_RDONLY), copy = dup(fd);
    assert_int_equal(TB_IO(l->own.io, dup, fd, copy), 0);
    assert_int_equal(TB_IO(l->own.io, read, fd, got, 3), 3);
    assert_int_equal(TB_IO(l->own.io, read, copy, got + 3, 3), 3);
    assert_string_equal(got, "abcdef");
    close_by(&l->own, copy);
    close_by(&l->own, fd);
}

/* dup2 gives its number to another file. */
static void its_number_is_taken(void **state)
{
    struct late *l = *state;
    make(l, "f", "first");
    make(l, "g", "second");
    int g = open_by(l, &l->own, "g", O_RDONLY);
    expect(&l->own, g, "second");
    int f = open_late(l, &l->own, "f", O_RDONLY);
    assert_int_equal(dup2(g, f), f);
    assert_int_equal(TB_IO(l->own.io, dup, g, f), 0);
    assert_false(is_late(&l->own));
    expect(&l->own, f, "second");
    close_by(&l->own, g);
    close_by(&l->own, f);
}

static void a_child_shares_its_offset(void **state)
{
    struct late *l = *state;
    char got[10] = "";
    int status;
    make(l, "f", "abcdef");
    int fd = open_late(l, &l->own, "f", O_RDONLY), other = open_late(l, &l->own, "g", O_RDWR | O_CREAT);
    uint32_t spare = *tb_open_slot(l->own.engine, other);
    close_by(&l->own, other);
    tb_engine_atfork_prepare(l->own.engine);
    pid_t child = fork();
    if (child == 0) {
        tb_engine_atfork_child(l->own.engine);
        bool right = TB_IO(l->own.io, read, fd, got, 3) == 3 && memcmp(got, "abc", 3) == 0;
        int again = open_late(l, &l->own, "f", O_RDONLY); /* with a description of its own */
        right = right && is_late(&l->own) && *tb_open_slot(l->own.engine, again) != spare;
        right = right && TB_IO(l->own.io, read, again, got, 6) == 6 && memcmp(got, "abcdef", 6) == 0;
        _exit(right ? 0 : 1);
    }
    tb_engine_atfork_parent(l->own.engine);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(TB_IO(l->own.io, read, fd, got, 9), 3);
    assert_memory_equal(got, "def", 3);
    close_by(&l->own, fd);
}

static void a_killed_client_leaves_none(void **state)
{
    struct late *l = *state;
    int status;
    make(l, "f", "bytes");
    uint32_t opens = n_free_opens(l->own.engine);
    pid_t child = fork();
    if (child == 0) {
        struct client c = attach(&l->x);
        open_late(l, &c, "f", O_RDWR);
        raise(SIGKILL);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(n_free_opens(l->own.engine), opens - 1);
    assert_int_equal(tb_repair(l->own.engine), 1);
    assert_int_equal(n_free_opens(l->own.engine), opens);
    for (uint32_t i = 0; i < l->own.engine->region.n_clients; i++)
        assert_true(!l->own.engine->region.clients[i].late);
}

/* Bytes of files that no late open is of go with their name, and no PFS sees them. */
static void other_names_go_without_a_flush(void **state)
{
    struct late *l = *state;
    close_by(&l->own, open_by(l, &l->own, "f", O_RDWR | O_CREAT));
    int fd = open_late(l, &l->other, "f", O_RDONLY);
    uint64_t written = l->own.engine->header->totals.pfs_written;
    make(l, "g", "bytes");
    unlink_by(l, &l->own, "g");
    assert_int_equal(l->own.engine->header->totals.pfs_written, written);
    assert_true(is_late(&l->other));
    close_by(&l->other, fd);
}

#define THREADS 4
#define ROUNDS 500

/* Each file has its number in it before it gets one of two names. */
static void *meet(void *arg)
{
    struct late *l = arg;
    static _Atomic unsigned serial;
    unsigned seed = ++serial;
    char own[32], path[512], *names[] = {"f", "g"};
    for (int i = 0; i < ROUNDS; i++) {
        struct stat st;
        uint64_t number = 0;
        const char *name = names[rand_r(&seed) % 2];
        snprintf(own, sizeof(own), "t%u", ++serial);
        int fd = TB_IO(l->own.io, open, fixture_path(&l->x, own), O_RDWR | O_CREAT | O_EXCL, 0600);
        assert_true(fd >= 0 && TB_IO(l->own.io, fstat, fd, &st) == 0);
        assert_int_equal(TB_IO(l->own.io, pwrite, fd, &st.st_ino, sizeof(st.st_ino), 0), sizeof(st.st_ino));
        close_by(&l->own, fd);
        snprintf(path, sizeof(path), "%s", fixture_path(&l->x, own));
        assert_int_equal(TB_IO(l->own.io, rename, path, fixture_path(&l->x, name), 0), 0);
        if (rand_r(&seed) % 3 == 0)
            TB_IO(l->own.io, unlink, fixture_path(&l->x, name), 0);
        fd = TB_IO(l->own.io, open, fixture_path(&l->x, names[rand_r(&seed) % 2]), O_RDONLY, 0);
        if (fd < 0)
            continue;
        if (rand_r(&seed) % 2) {
            assert_int_equal(TB_IO(l->own.io, pread, fd, &number, sizeof(number), 0), sizeof(number));
            assert_int_equal(TB_IO(l->own.io, fstat, fd, &st), 0);
            assert_int_equal(number, st.st_ino);
        }
        close_by(&l->own, fd);
    }
    return NULL;
}

static void threads_open_and_take_names(void **state)
{
    pthread_t thread[THREADS];
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, meet, *state), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
}

#define in_both(f) cmocka_unit_test_setup_teardown(f, begin_async, end), cmocka_unit_test_setup_teardown(f, begin_scratch, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        in_both(an_open_without_use_takes_nothing),
        in_both(a_second_open_makes_the_first_known),
        in_both(reads_what_was_there_before_its_name_went),
        in_both(reads_what_its_writer_wrote_after_its_name_went),
        in_both(reads_the_file_that_was_replaced),
        in_both(its_name_is_used_again),
        in_both(two_share_a_file_without_a_name),
        in_both(writes_go_where_the_file_was_moved),
        in_both(its_new_name_goes),
        in_both(its_own_process_takes_its_name),
        in_both(another_name_goes_last),
        in_both(not_by_a_link),
        in_both(a_directory_has_no_record),
        in_both(copies_share_its_offset),
        in_both(its_number_is_taken),
        in_both(a_child_shares_its_offset),
        in_both(a_killed_client_leaves_none),
        in_both(other_names_go_without_a_flush),
        in_both(threads_open_and_take_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
