/*
 * A client that appends to a log and cuts it is killed at every step between the
 * engine's stores.  What another one reads then, before any repair,
 * are the records that were acknowledged and at most the first bytes of the one
 * under way; a cut happened or did not.  What the other one appends follows that.
 */
#include "fixture.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "base/kill_point.h"
#include "instance/invariants.h"
#include "instance/drain.h"
#include "layer/repair.h"

#define LONGEST (4u << 20)
#define MARK 50u
#define ROUNDS 300u /* kills at most, spread over all steps */

enum kind { APPEND, CUT };
struct operation {
    enum kind kind;
    uint32_t length;
};

/* Across chunks, past what the tiers take, in new buffers and in those that records refer to. */
static const struct operation script[] = {
    {APPEND, 200}, {APPEND, 3000}, {APPEND, 60000}, {APPEND, 200},    {CUT, 3200},   {APPEND, 1300000}, {APPEND, 900}, {CUT, 200},
    {APPEND, 100}, {CUT, 0},       {APPEND, 70000}, {APPEND, 900000}, {APPEND, 300}, {CUT, 70000},      {APPEND, 500},
};
#define OPERATIONS ((int)(sizeof(script) / sizeof(script[0])))

static struct shared {
    _Atomic int done;
    _Atomic uint32_t steps, kill_at;
    uint32_t spilled; /* the first step at which bytes had gone to the PFS, past the log's end */
} *shared;

static bool is_victim;
static const char *kill_name; /* or at the first step of this name */
static unsigned char bytes[LONGEST], found[LONGEST];

void tb_step(const char *name)
{
    if (!is_victim)
        return;
    shared->steps++;
    if (!shared->spilled && strcmp(name, "spilled") == 0)
        shared->spilled = shared->steps;
    if (shared->steps == shared->kill_at || (kill_name && strcmp(name, kill_name) == 0))
        raise(SIGKILL);
}

/* Never 0, and of no two operations in a row alike. */
static void make_record(unsigned char *to, int number, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        to[i] = (unsigned char)(1 + (number * 37 + (int)(i / 7)) % 255);
}

/* The log after the first `n` operations. */
static uint32_t expected(int n)
{
    uint32_t size = 0;
    for (int i = 0; i < n; i++) {
        if (script[i].kind == APPEND)
            make_record(bytes + size, i, script[i].length);
        size = script[i].kind == CUT ? script[i].length : size + script[i].length;
    }
    return size;
}

static int run_script(struct tb_io *io, const char *path)
{
    static unsigned char record[LONGEST];
    int fd = TB_IO(io, open, path, O_RDWR | O_CREAT | O_APPEND, 0600), rc = fd < 0;
    for (int i = 0; i < OPERATIONS && !rc; i++, shared->done = i) {
        make_record(record, i, script[i].length);
        rc = script[i].kind == CUT ? TB_IO(io, ftruncate, fd, script[i].length) != 0
                                   : TB_IO(io, write, fd, record, script[i].length) != (ssize_t)script[i].length;
        if (!rc && i % 4 == 2)
            rc = TB_IO(io, fsync, fd, false) != 0;
    }
    return rc;
}

static bool run_victim(struct fixture *x, uint32_t kill_at)
{
    int status;
    shared->done = 0;
    shared->steps = shared->spilled = 0;
    shared->kill_at = kill_at;
    pid_t pid = fork();
    if (pid == 0) {
        tb_engine *e;
        if (tb_engine_attach(x->name, tb_io_libc(), &e))
            _exit(2);
        is_victim = true;
        _exit(run_script(tb_engine_route(e, x->pfs, NULL), fixture_path(x, "log")));
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (WIFEXITED(status))
        assert_int_equal(status, 0);
    return WIFSIGNALED(status);
}

/* What was acknowledged, and at most a part of what was under way. */
static void check_log(uint32_t size, const char *when)
{
    uint32_t before = expected(shared->done), after = before;
    bool as_before = size == before && memcmp(found, bytes, before) == 0;
    if (shared->done < OPERATIONS)
        after = expected(shared->done + 1);
    bool appends = after > before && size >= before && size <= after;
    if (!as_before && !((appends || size == after) && memcmp(found, bytes, size) == 0))
        fail_msg("killed at step %u, in operation %d, %s: %u bytes, not %u or %u, or others than were written", shared->kill_at,
                 shared->done, when, size, before, after);
}

static uint32_t read_log(struct tb_io *io, int fd)
{
    struct stat st;
    assert_int_equal(TB_IO(io, fstat, fd, &st), 0);
    ssize_t n = TB_IO(io, pread, fd, found, sizeof(found), 0);
    assert_int_equal(n, st.st_size);
    return (uint32_t)n;
}

/* The mark is the last of it, after what check_log allows. */
static void check_marked(uint32_t size, const char *when)
{
    assert_true(size >= MARK);
    for (uint32_t i = size - MARK; i < size; i++)
        if (found[i] != 'Z')
            fail_msg("killed at step %u, in operation %d, %s: byte %u of %u is %u, not the other client's", shared->kill_at, shared->done,
                     when, i, size, found[i]);
    check_log(size - MARK, when);
}

static void go_on(struct fixture *x)
{
    char mark[MARK];
    memset(mark, 'Z', sizeof(mark));
    int fd = TB_IO(x->io, open, fixture_path(x, "log"), O_RDWR | O_CREAT | O_APPEND, 0600);
    assert_true(fd >= 0);
    check_log(read_log(x->io, fd), "before any repair");
    assert_int_equal(TB_IO(x->io, write, fd, mark, MARK), MARK);
    check_marked(read_log(x->io, fd), "after another append");
    tb_repair(x->engine);
    check_marked(read_log(x->io, fd), "after repair");
    if (!tb_region_is_valid(x->engine))
        fail_msg("killed at step %u, in operation %d: the region is not valid", shared->kill_at, shared->done);
    assert_int_equal(TB_IO(x->io, close, fd), 0);
}

static void check_drained(struct fixture *x)
{
    assert_int_equal(tb_instance_drain(x->engine, 1, NULL, NULL, NULL), 0);
    int fd = open(fixture_path(x, "log"), O_RDONLY);
    ssize_t n = read(fd, found, sizeof(found));
    close(fd);
    assert_true(n >= 0);
    check_marked((uint32_t)n, "on the PFS");
}

static bool kill_at(uint32_t step)
{
    struct fixture x;
    fixture_init(&x, TB_MODE_PERSISTENT_ASYNC);
    x.config.max_files = 64;
    x.config.tiers[0].capacity = 1600u << 10;
    x.config.tiers[1].capacity = 512u << 10;
    x.config.tiers[2].capacity = 512u << 10;
    fixture_start(&x);
    bool killed = run_victim(&x, step);
    alarm(20); /* a lock that stays taken ends the test here */
    go_on(&x);
    check_drained(&x);
    alarm(0);
    fixture_stop(&x);
    return killed;
}

static void killed_at_every_step(void **state)
{
    (void)state;
    assert_false(kill_at(UINT32_MAX));
    uint32_t n = shared->steps, stride = n / ROUNDS + 1, spilled = shared->spilled;
    assert_int_equal(shared->done, OPERATIONS);
    assert_true(spilled);
    kill_at(spilled);
    for (uint32_t step = 1; step <= n; step += stride)
        kill_at(step); /* a step or two more or less are chance's */
}

static unsigned char first_byte(struct fixture *x, int fd)
{
    unsigned char byte;
    assert_int_equal(TB_IO(x->io, pread, fd, &byte, 1, 0), 1);
    return byte;
}

/* Bytes of a killed writer that were read once are not old again when what is clean goes. */
static void read_bytes_stay(void **state)
{
    struct fixture x;
    int status;
    (void)state;
    fixture_init(&x, TB_MODE_PERSISTENT_ASYNC);
    fixture_start(&x);
    int fd = TB_IO(x.io, open, fixture_path(&x, "log"), O_RDWR | O_CREAT, 0600);
    memset(bytes, '1', 3000);
    assert_int_equal(TB_IO(x.io, pwrite, fd, bytes, 3000, 0), 3000);
    assert_true(tb_engine_flush(x.engine, fd) >= 0);
    pid_t pid = fork();
    if (pid == 0) {
        tb_engine *e;
        if (tb_engine_attach(x.name, tb_io_libc(), &e))
            _exit(2);
        struct tb_io *io = tb_engine_route(e, x.pfs, NULL);
        int own = TB_IO(io, open, fixture_path(&x, "log"), O_RDWR, 0);
        memset(bytes, '2', 3000);
        kill_name = "overwritten";
        is_victim = true;
        _exit(TB_IO(io, pwrite, own, bytes, 3000, 0) < 0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
    unsigned char before = first_byte(&x, fd);
    tb_repair(x.engine);
    assert_int_equal(tb_engine_make_coherent(x.engine, fd), 0); /* drops what is clean */
    assert_int_equal(first_byte(&x, fd), before);
    assert_int_equal(TB_IO(x.io, close, fd), 0);
    fixture_stop(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(read_bytes_stay), cmocka_unit_test(killed_at_every_step)};
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
