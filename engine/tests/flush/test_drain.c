/*
 * A drain takes what was dirty when it began and ends, whatever programs write in
 * between. A process that waits for a file's claim gets it before a long flush is over.
 * The PFS below lets a program act at each write; an alarm ends what never ends.
 */
#include "fixture.h"

#include <errno.h>
#include <pthread.h>
#include <time.h>

#include "file/claim.h"
#include "file/file.h"
#include "flush/flush.h"
#include "flush/program.h"
#include "instance/drain.h"
#include "recovery/recover.h"
#include "io/io_layer.h"
#include "layer/descriptions.h"

#define BLOCK 4096u
#define BLOCKS 64u
#define PIECE 65536u

static struct {
    struct tb_io io;
    struct tb_io_ops ops;
    char path[300];
    void (*act)(off_t offset);
    void (*act_at_sync)(void);
    _Atomic int n_writes;
    off_t told;     /* up to here it was told that bytes will be synced */
    int told_error; /* what it says to that, */
    int sync_error; /* and to the sync */
} pfs;

static bool is_on_pfs(int fd)
{
    char link[64], path[600] = "";
    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    return readlink(link, path, sizeof(path) - 1) > 0 && strncmp(path, pfs.path, strlen(pfs.path)) == 0;
}

static ssize_t pfs_pwrite(struct tb_io *io, int fd, const void *buf, size_t n, off_t offset)
{
    ssize_t w = TB_IO(io->next, pwrite, fd, buf, n, offset);
    if (!is_on_pfs(fd))
        return w;
    pfs.n_writes++;
    if (pfs.act)
        pfs.act(offset);
    return w;
}

/* One thread tells it, of one stretch after the other. */
static int pfs_will_sync(struct tb_io *io, int fd, off_t offset, size_t n)
{
    if (!is_on_pfs(fd))
        return TB_IO(io->next, will_sync, fd, offset, n);
    assert_int_equal(offset, pfs.told);
    pfs.told += (off_t)n;
    return pfs.told_error ? pfs.told_error : TB_IO(io->next, will_sync, fd, offset, n);
}

static int pfs_fsync(struct tb_io *io, int fd, bool data_only)
{
    if (pfs.act_at_sync && is_on_pfs(fd))
        pfs.act_at_sync();
    return is_on_pfs(fd) && pfs.sync_error ? pfs.sync_error : TB_IO(io->next, fsync, fd, data_only);
}

static struct fixture x;
static int fd;

static void start(uint64_t ram, uint32_t units)
{
    static const struct tb_io_ops ops = {.name = "pfs", .pwrite = pfs_pwrite, .will_sync = pfs_will_sync, .fsync = pfs_fsync};
    alarm(60);
    fixture_init(&x, TB_MODE_PERSISTENT_ASYNC);
    x.config.organizer.enabled = false;
    x.config.tiers[0].capacity = ram;
    x.config.tiers[1].capacity = 16u << 20; /* every fsync finds room in the tier */
    for (int i = 0; i < 2; i++) {
        x.config.tiers[i].n_slabs = 0;
        fixture_slab(&x.config.tiers[i], units, 1);
    }
    tb_io_layer_init(&pfs.io, &pfs.ops, &ops, tb_io_libc());
    snprintf(pfs.path, sizeof(pfs.path), "%s", x.pfs);
    pfs.n_writes = pfs.told_error = pfs.sync_error = 0;
    pfs.told = 0;
    pfs.act = NULL;
    pfs.act_at_sync = NULL;
    x.base = &pfs.io;
    fixture_start(&x);
    fd = TB_IO(x.io, open, fixture_path(&x, "f"), O_RDWR | O_CREAT, 0600);
    assert_true(fd >= 0);
}

static void stop(void)
{
    pfs.act = NULL;
    assert_int_equal(TB_IO(x.io, close, fd), 0);
    fixture_stop(&x);
    alarm(0);
}

static void put(char what, size_t n, off_t at)
{
    static char bytes[1 << 20];
    memset(bytes, what, n);
    assert_int_equal(TB_IO(x.io, pwrite, fd, bytes, n, at), n);
}

static void expect_on_pfs(char what, size_t n, off_t at)
{
    char bytes[PIECE];
    int own = open(fixture_path(&x, "f"), O_RDONLY);
    assert_int_equal(pread(own, bytes, n, at), n);
    close(own);
    for (size_t i = 0; i < n; i++)
        if (bytes[i] != what)
            fail_msg("byte %zu on the PFS is %d, not '%c'", (size_t)at + i, bytes[i], what);
}

/* Every other block, so that each is a write of its own. */
static off_t place(unsigned i)
{
    return (off_t)(i % BLOCKS) * 2 * BLOCK;
}

/* What the flush will come to next moves to another tier. */
static void write_the_next(off_t offset)
{
    put('2', BLOCK, place((unsigned)(offset / (2 * BLOCK)) + 1));
    assert_int_equal(TB_IO(x.io, fsync, fd, false), 0);
}

static void ends_while_a_program_writes_and_fsyncs(void **state)
{
    (void)state;
    start(4u << 20, 1);
    for (unsigned i = 0; i < BLOCKS; i++)
        put('1', BLOCK, place(i));
    pfs.act = write_the_next;
    assert_int_equal(tb_instance_drain(x.engine, 1, NULL, NULL, NULL), 0);
    assert_in_range(pfs.n_writes, BLOCKS, 2 * BLOCKS); /* each once, and once more at most */
    expect_on_pfs('1', BLOCK, 0);
    for (unsigned i = 1; i < BLOCKS; i++)
        expect_on_pfs('2', BLOCK, place(i));
    pfs.act = NULL;
    assert_int_equal(tb_instance_drain(x.engine, 1, NULL, NULL, NULL), 0);
    expect_on_pfs('2', BLOCK, 0);
    stop();
}

/* Two dirty intervals a buffer, so that it has a fragment; a record refers to both. */
static void put_fragments(char what, unsigned buffer)
{
    put(what, 2 * BLOCK, (off_t)buffer * PIECE);
    put(what, 2 * BLOCK, (off_t)buffer * PIECE + 8 * BLOCK);
}

static void write_fragment_again(off_t offset)
{
    put('2', 100, offset + 7);
    assert_int_equal(TB_IO(x.io, fsync, fd, false), 0);
}

/* A fragment that changes between its copy and its cleaning, at each write of the flush. */
static void ends_while_fragments_change(void **state)
{
    (void)state;
    start(4u << 20, 16);
    for (unsigned i = 0; i < 8; i++)
        put_fragments('1', i);
    assert_int_equal(TB_IO(x.io, fsync, fd, false), 0);
    pfs.act = write_fragment_again;
    assert_int_equal(tb_instance_drain(x.engine, 1, NULL, NULL, NULL), 0);
    assert_in_range(pfs.n_writes, 16, 64);
    expect_on_pfs('1', 7, 0);
    expect_on_pfs(0, BLOCK, 4 * BLOCK);
    stop();
}

static void write_fragment_unsynced(off_t offset)
{
    put('3', 100, offset + 7);
}

/* The records of '1' are void when the flush has '2' on the PFS, although the buffers changed again since. */
static void replays_nothing_older_than_the_flush(void **state)
{
    (void)state;
    struct tb_error err = {""};
    char bytes[BLOCK];
    start(4u << 20, 16);
    for (unsigned i = 0; i < 8; i++)
        put_fragments('1', i);
    assert_int_equal(TB_IO(x.io, fsync, fd, false), 0);
    for (unsigned i = 0; i < 8; i++)
        put_fragments('2', i);
    pfs.act = write_fragment_unsynced;
    assert_int_equal(tb_flush_file(x.engine, tb_open_of(x.engine, fd)->file, -1, true).error, 0);
    pfs.act = NULL;
    fixture_lose_region(&x);
    assert_int_equal(tb_instance_recover(&x.config, tb_io_libc(), NULL, NULL, NULL, &err), 1);
    int own = open(fixture_path(&x, "f"), O_RDONLY);
    for (unsigned i = 0; i < 8; i++)
        for (unsigned k = 0; k < 2; k++) {
            assert_int_equal(pread(own, bytes, BLOCK, (off_t)(i * PIECE + k * 8 * BLOCK)), BLOCK);
            assert_null(memchr(bytes, '1', BLOCK));
            assert_non_null(memchr(bytes, '2', BLOCK));
        }
    close(own);
    fixture_stop(&x);
    alarm(0);
}

static _Atomic bool claimed;
static pthread_t claimer;

static void *claim(void *unused)
{
    (void)unused;
    uint32_t file = tb_open_of(x.engine, fd)->file;
    assert_true(tb_file_claim(x.engine, file));
    claimed = true;
    tb_file_unclaim(x.engine, file);
    return NULL;
}

static int writes_until_claimed;

/* The file system is so slow that the process that wants the claim waits for it by now. */
static void let_it_be_wanted(void)
{
    while (!claimed && !tb_file_claim_is_wanted(x.engine, tb_open_of(x.engine, fd)->file))
        nanosleep(&(struct timespec){0, 100000}, NULL);
}

static void begin_to_claim(off_t offset)
{
    if (offset == 0)
        assert_int_equal(pthread_create(&claimer, NULL, claim, NULL), 0);
    let_it_be_wanted();
    writes_until_claimed += !claimed;
}

static void gives_way_to_who_waits_for_the_claim(void **state)
{
    (void)state;
    start(128u << 20, 16);
    for (unsigned i = 0; i < 48; i++)
        put('1', 1u << 20, (off_t)i << 20);
    pfs.act = begin_to_claim;
    struct tb_flush_result r = tb_flush_file(x.engine, tb_open_of(x.engine, fd)->file, -1, false);
    assert_int_equal(pthread_join(claimer, NULL), 0);
    assert_int_equal(r.error, 0);
    assert_int_equal(r.bytes, 48u << 20);
    assert_in_range(writes_until_claimed, 1, 47); /* after 16 or 32 on a machine that isn't busy */
    assert_int_equal(x.engine->region.files[tb_open_of(x.engine, fd)->file].n_dirty, 0);
    expect_on_pfs('1', PIECE, (off_t)47 << 20);
    stop();
}

/* The name goes while the flush has given the claim up: what is left has no file. */
static void *unlink_file(void *unused)
{
    assert_int_equal(TB_IO(x.io, unlink, fixture_path(&x, "f"), 0), 0);
    return claim(unused);
}

static void begin_to_unlink(off_t offset)
{
    if (offset == 0)
        assert_int_equal(pthread_create(&claimer, NULL, unlink_file, NULL), 0);
    let_it_be_wanted();
}

static void leaves_a_file_that_was_unlinked_meanwhile(void **state)
{
    (void)state;
    start(128u << 20, 16);
    for (unsigned i = 0; i < 48; i++)
        put('1', 1u << 20, (off_t)i << 20);
    pfs.act = begin_to_unlink;
    claimed = false;
    struct tb_flush_result r = tb_flush_file(x.engine, tb_open_of(x.engine, fd)->file, -1, false);
    assert_int_equal(pthread_join(claimer, NULL), 0);
    assert_int_equal(r.error, 0);
    assert_in_range(r.bytes >> 20, 1, 47);
    stop();
}

static void put_mib(unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        put('1', 1u << 20, (off_t)i << 20);
}

static void tells_the_device_to_begin_where_a_sync_follows(void **state)
{
    (void)state;
    start(64u << 20, 16);
    uint32_t file = tb_open_of(x.engine, fd)->file;
    put_mib(20);
    assert_int_equal(tb_flush_file(x.engine, file, -1, false).error, 0);
    assert_int_equal(pfs.told, 0); /* it may wait: perhaps more comes */
    put_mib(20);
    assert_int_equal(tb_flush_file(x.engine, file, -1, true).error, 0);
    assert_int_equal(pfs.told, 16u << 20); /* the rest begins with the sync */
    stop();
}

/* What the device says to a hint is no outcome, and what it says to the sync is. */
static void only_the_sync_tells_errors(void **state)
{
    (void)state;
    start(64u << 20, 16);
    put_mib(20);
    pfs.told_error = -ENOSPC;
    pfs.sync_error = -EIO;
    assert_int_equal(tb_instance_drain(x.engine, 1, NULL, NULL, NULL), -EIO);
    assert_int_equal(x.engine->region.files[tb_open_of(x.engine, fd)->file].n_dirty, 20 * 16);
    pfs.told = pfs.sync_error = 0;
    assert_int_equal(tb_instance_drain(x.engine, 1, NULL, NULL, NULL), 0);
    assert_int_equal(pfs.told, 16u << 20);
    assert_int_equal(x.engine->region.files[tb_open_of(x.engine, fd)->file].n_dirty, 0);
    expect_on_pfs('1', PIECE, (off_t)19 << 20);
    tb_file_take_error(x.engine, tb_open_of(x.engine, fd)->file);
    stop();
}

static _Atomic int n_syncs;
static _Atomic bool copies_alone;

/* The device is so slow that the drain has the other file written by now. */
static void let_the_other_be_written(void)
{
    n_syncs++;
    while (pfs.n_writes < 2)
        nanosleep(&(struct timespec){0, 100000}, NULL);
}

/* The first write takes so long that another thread would come with the second one, if it might copy, too. */
static void expect_one_copying(off_t offset)
{
    (void)offset;
    if (pfs.n_writes != 1)
        return;
    nanosleep(&(struct timespec){0, 100000000}, NULL);
    copies_alone = pfs.n_writes == 1;
}

/* With one thread, that is to say: one copies at a time, however many wait for the device. */
static void copies_a_file_while_another_is_synced(void **state)
{
    (void)state;
    start(4u << 20, 16);
    put('1', PIECE, 0);
    int other = TB_IO(x.io, open, fixture_path(&x, "g"), O_RDWR | O_CREAT, 0600);
    assert_int_equal(TB_IO(x.io, pwrite, other, "2", 1, 0), 1);
    pfs.act = expect_one_copying;
    pfs.act_at_sync = let_the_other_be_written;
    n_syncs = 0;
    copies_alone = false;
    assert_int_equal(tb_instance_drain(x.engine, 1, NULL, NULL, NULL), 0);
    assert_int_equal(n_syncs, 2);
    assert_true(copies_alone);
    expect_on_pfs('1', PIECE, 0);
    assert_int_equal(TB_IO(x.io, close, other), 0);
    stop();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ends_while_a_program_writes_and_fsyncs),
        cmocka_unit_test(ends_while_fragments_change),
        cmocka_unit_test(replays_nothing_older_than_the_flush),
        cmocka_unit_test(gives_way_to_who_waits_for_the_claim),
        cmocka_unit_test(leaves_a_file_that_was_unlinked_meanwhile),
        cmocka_unit_test(tells_the_device_to_begin_where_a_sync_follows),
        cmocka_unit_test(only_the_sync_tells_errors),
        cmocka_unit_test(copies_a_file_while_another_is_synced),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
