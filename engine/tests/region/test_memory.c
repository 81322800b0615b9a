/* A process that gets no more memory: calls fail or take longer, and the program goes on. */
#include "fixture.h"

#include <errno.h>

#include "buffer/chunk.h"
#include "buffer/of_file.h"
#include "file/claim.h"
#include "layer/descriptions.h"
#include "layer/repair.h"
#include "region/clients.h"

#define N (256 * 1024)

static bool is_full;
static int n_refused;

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_malloc(size_t size)
{
    n_refused += is_full;
    return is_full ? NULL : __real_malloc(size);
}

void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size)
{
    n_refused += is_full;
    return is_full ? NULL : __real_calloc(n, size);
}

static void run_out(bool full)
{
    is_full = full;
    n_refused = 0;
}

/* An open file of dirty bytes in buffers of several sizes. */
static int begin(struct fixture *x, char *bytes)
{
    fixture_init(x, TB_MODE_PERSISTENT_ASYNC);
    fixture_start(x);
    int fd = TB_IO(x->io, open, fixture_path(x, "f"), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    for (int i = 0; i < N; i++)
        bytes[i] = (char)('a' + i % 23);
    assert_int_equal(TB_IO(x->io, pwrite, fd, bytes, N, 0), N);
    return fd;
}

static void expect(struct fixture *x, int fd, const char *bytes, ssize_t n)
{
    static char read[N];
    assert_int_equal(TB_IO(x->io, pread, fd, read, N, 0), n);
    assert_memory_equal(read, bytes, (size_t)n);
}

static void a_file_is_cut(void **state)
{
    static char bytes[N];
    struct fixture x;
    struct stat st;
    (void)state;
    int fd = begin(&x, bytes);
    run_out(true);
    int rc = TB_IO(x.io, ftruncate, fd, 10000);
    assert_true(n_refused > 0);
    run_out(false);
    assert_int_equal(rc, 0);
    assert_int_equal(TB_IO(x.io, fstat, fd, &st), 0);
    assert_int_equal(st.st_size, 10000);
    memset(bytes + 10000, 0, N - 10000);
    assert_int_equal(TB_IO(x.io, ftruncate, fd, N), 0);
    expect(&x, fd, bytes, N);
    TB_IO(x.io, close, fd);
    fixture_stop(&x);
}

/* Of clean and dirty buffers the clean ones go. */
static void clean_buffers_are_dropped(void **state)
{
    static char bytes[N];
    struct fixture x;
    (void)state;
    int fd = begin(&x, bytes);
    uint32_t file = tb_open_of(x.engine, fd)->file, before = x.engine->region.files[file].n_buffers;
    assert_int_equal(TB_IO(x.io, fsync, fd, false), 0);
    assert_int_equal(tb_engine_flush(x.engine, fd), 0);
    assert_int_equal(TB_IO(x.io, pwrite, fd, "X", 1, 5), 1);
    bytes[5] = 'X';
    assert_true(before > 1);
    assert_true(tb_file_claim(x.engine, file));
    run_out(true);
    tb_file_drop_clean(x.engine, file);
    assert_true(n_refused > 0);
    run_out(false);
    tb_file_unclaim(x.engine, file);
    assert_int_equal(x.engine->region.files[file].n_buffers, 1);
    expect(&x, fd, bytes, N);
    TB_IO(x.io, close, fd);
    fixture_stop(&x);
}

static void a_flush_and_an_fsync_fail(void **state)
{
    static char bytes[N];
    struct fixture x;
    (void)state;
    int fd = begin(&x, bytes);
    run_out(true);
    int flushed = tb_engine_flush(x.engine, fd), synced = TB_IO(x.io, fsync, fd, false);
    assert_true(n_refused > 0);
    run_out(false);
    assert_int_equal(flushed, -ENOMEM);
    assert_int_equal(synced, -ENOMEM);
    assert_int_equal(TB_IO(x.io, fsync, fd, false), 0);
    expect(&x, fd, bytes, N);
    TB_IO(x.io, close, fd);
    fixture_stop(&x);
}

static void a_file_is_removed(void **state)
{
    static char bytes[N];
    struct fixture x;
    (void)state;
    int fd = begin(&x, bytes);
    assert_int_equal(TB_IO(x.io, fsync, fd, false), 0);
    run_out(true);
    int rc = TB_IO(x.io, unlink, fixture_path(&x, "f"), 0);
    int closed = TB_IO(x.io, close, fd);
    assert_true(n_refused > 0);
    run_out(false);
    assert_int_equal(rc, 0);
    assert_int_equal(closed, 0);
    assert_int_equal(x.engine->header->files.n, 0);
    fixture_stop(&x);
}

/* Its slot is given to another next: a note that stayed would be that one's, and be waited for as long as it lives. */
static void the_note_of_a_killed_writer_goes(void **state)
{
    static char bytes[N];
    struct fixture x;
    (void)state;
    int fd = begin(&x, bytes);
    uint32_t slot = tb_client_take_slot(x.engine, x.engine->region.n_clients);
    assert_true(slot != TB_NONE);
    x.engine->region.clients[slot].start_time = 1; /* of no process: it has ended */
    _Atomic uint64_t *word = &x.engine->region.locks->chunk[7].writer[0];
    *word = (uint64_t)(slot + 1) << TB_CHUNK_CLIENT_SHIFT;
    run_out(true);
    assert_int_equal(tb_repair(x.engine), 1);
    assert_true(n_refused > 0);
    run_out(false);
    assert_int_equal(*word >> TB_CHUNK_CLIENT_SHIFT, 0);
    expect(&x, fd, bytes, N);
    TB_IO(x.io, close, fd);
    fixture_stop(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_is_cut),
        cmocka_unit_test(clean_buffers_are_dropped),
        cmocka_unit_test(a_flush_and_an_fsync_fail),
        cmocka_unit_test(a_file_is_removed),
        cmocka_unit_test(the_note_of_a_killed_writer_goes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
