/*
 * Recovery: what an fsync promised is on the PFS after the region is lost, or
 * after its processes are killed; damage is named and never flushed.
 */
#include "fixture.h"

#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#define BYTES 300000

static void fill(unsigned char *bytes, size_t n, unsigned seed)
{
    for (size_t i = 0; i < n; i++)
        bytes[i] = (unsigned char)((i * 31 + seed * 7919 + (i >> 9)) & 0xff);
}

/* A process that writes `kept`, fsyncs, writes `after` over its start without fsync, and is killed. */
static void write_and_die(struct fixture *x, unsigned kept, unsigned after)
{
    pid_t child = fork();
    if (child == 0) {
        static unsigned char bytes[BYTES];
        tb_engine_atfork_child(x->engine);
        int fd = x->io->ops->open(x->io, fixture_path(x, "f"), O_RDWR | O_CREAT, 0600);
        fill(bytes, BYTES, kept);
        bool ok = fd >= 0 && x->io->ops->pwrite(x->io, fd, bytes, BYTES, 0) == BYTES && x->io->ops->fsync(x->io, fd, false) == 0;
        fill(bytes, BYTES, after);
        ok = ok && x->io->ops->pwrite(x->io, fd, bytes, 5000, 100) == 5000;
        raise(ok ? SIGKILL : SIGABRT);
    }
    int status;
    waitpid(child, &status, 0);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

static void read_pfs(struct fixture *x, unsigned char *bytes)
{
    int fd = open(fixture_path(x, "f"), O_RDONLY);
    assert_true(fd >= 0);
    memset(bytes, 0, BYTES);
    assert_true(pread(fd, bytes, BYTES, 0) >= 0);
    close(fd);
}

struct seen {
    int bad;
};

static void note(void *arg, const struct tb_file_report *r)
{
    ((struct seen *)arg)->bad += r->error == -EBADMSG;
}

static void journal_replays_what_was_fsynced(void **state)
{
    (void)state;
    static unsigned char expected[BYTES], found[BYTES];
    struct fixture x;
    struct seen seen = {0};
    struct tb_error err = {""};
    fixture_init(&x, TB_MODE_PERSISTENT_ASYNC);
    fixture_start(&x);
    write_and_die(&x, 1, 2);
    read_pfs(&x, found);
    fill(expected, BYTES, 1);
    assert_memory_not_equal(found, expected, BYTES); /* it was buffered: the test means something */
    fixture_lose_region(&x);
    assert_int_equal(tb_instance_recover(&x.config, tb_io_libc(), NULL, note, &seen, &err), 1);
    read_pfs(&x, found);
    assert_memory_equal(found, expected, BYTES);
    assert_int_equal(seen.bad, 0);
    assert_int_equal(tb_instance_recover(&x.config, tb_io_libc(), NULL, note, &seen, &err), 0); /* nothing is left */
    fixture_stop(&x);
}

static void surviving_region_keeps_unsynced_writes(void **state)
{
    (void)state;
    static unsigned char expected[BYTES], newer[BYTES], found[BYTES];
    struct fixture x;
    struct seen seen = {0};
    struct tb_error err = {""};
    fixture_init(&x, TB_MODE_PERSISTENT_ASYNC);
    fixture_start(&x);
    write_and_die(&x, 3, 4);
    tb_engine_detach(x.engine);
    x.engine = NULL;
    assert_int_equal(tb_instance_recover(&x.config, tb_io_libc(), NULL, note, &seen, &err), 1);
    fill(expected, BYTES, 3);
    fill(newer, BYTES, 4);
    memcpy(expected + 100, newer, 5000);
    read_pfs(&x, found);
    assert_memory_equal(found, expected, BYTES);
    fixture_stop(&x);
}

static void flip(const char *directory, const char *file, off_t at)
{
    char command[700];
    snprintf(command, sizeof(command), "f=$(ls -d %s/tierbench.*/%s) && printf '\\377' | dd of=\"$f\" bs=1 seek=%ld conv=notrunc status=none",
             directory, file, (long)at);
    assert_int_equal(system(command), 0);
}

/* One byte of the journal's first WRITE record, or of the bytes it stands on, is another. */
static void damage_is_named_and_not_flushed(void **state)
{
    (void)state;
    static const struct {
        const char *file;
        off_t at;
    } damage[] = {{"journal", 512 + 40}, {"slab-2", 7}, {"slab-3", 7}};
    for (size_t i = 0; i < sizeof(damage) / sizeof(damage[0]); i++) {
        static unsigned char expected[BYTES], found[BYTES];
        struct fixture x;
        struct seen seen = {0};
        struct tb_error err = {""};
        char nvme[300];
        fixture_init(&x, TB_MODE_PERSISTENT_ASYNC);
        fixture_start(&x);
        write_and_die(&x, 5, 6);
        fixture_lose_region(&x);
        snprintf(nvme, sizeof(nvme), "%s/nvme", x.root);
        flip(nvme, damage[i].file, damage[i].at);
        assert_int_equal(tb_instance_recover(&x.config, tb_io_libc(), NULL, note, &seen, &err), -EBADMSG);
        assert_true(seen.bad > 0);
        fill(expected, BYTES, 5);
        read_pfs(&x, found);
        for (size_t k = 0; k < BYTES; k++)
            assert_true(found[k] == expected[k] || found[k] == 0); /* right, or not there: never wrong */
        fixture_stop(&x);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(journal_replays_what_was_fsynced),
        cmocka_unit_test(surviving_region_keeps_unsynced_writes),
        cmocka_unit_test(damage_is_named_and_not_flushed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
