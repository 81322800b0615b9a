/*
 * The flush policies: when bytes go to the PFS, in how many writes, by how many
 * threads, and that no writer waits for it.  The PFS below counts writes and can
 * hold them; a test that waits for what never comes is ended by an alarm.
 */
#include "fixture.h"

#include <pthread.h>
#include <sys/wait.h>

#include "instance/background.h"
#include "io/io_layer.h"
#include "region/counters.h"

#define BLOCK 4096u

static struct {
    struct tb_io io;
    struct tb_io_ops ops;
    char path[300];
    pthread_mutex_t lock;
    pthread_cond_t change;
    bool held;
    const char *only; /* files with names that begin so are held; NULL: all */
    double latency;   /* of the profile of the instances that are started, which have four threads; 0: they have none, */
    double bandwidth; /* and its bandwidth */
    _Atomic int n_writes, n_waiting;
} pfs = {.lock = PTHREAD_MUTEX_INITIALIZER, .change = PTHREAD_COND_INITIALIZER};

static bool is_held(const char *path)
{
    return pfs.held && (!pfs.only || strncmp(strrchr(path, '/') + 1, pfs.only, strlen(pfs.only)) == 0);
}

static ssize_t pfs_pwrite(struct tb_io *io, int fd, const void *buf, size_t n, off_t offset)
{
    char link[64], path[600] = "";
    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    if (readlink(link, path, sizeof(path) - 1) > 0 && strncmp(path, pfs.path, strlen(pfs.path)) == 0) {
        pthread_mutex_lock(&pfs.lock);
        pfs.n_writes++;
        pfs.n_waiting++;
        pthread_cond_broadcast(&pfs.change);
        while (is_held(path))
            pthread_cond_wait(&pfs.change, &pfs.lock);
        pfs.n_waiting--;
        pthread_mutex_unlock(&pfs.lock);
    }
    return TB_IO(io->next, pwrite, fd, buf, n, offset);
}

static void hold_pfs(bool held)
{
    pthread_mutex_lock(&pfs.lock);
    pfs.held = held;
    pthread_cond_broadcast(&pfs.change);
    pthread_mutex_unlock(&pfs.lock);
}

static void wait_for_writers(int n)
{
    pthread_mutex_lock(&pfs.lock);
    while (pfs.n_waiting < n)
        pthread_cond_wait(&pfs.change, &pfs.lock);
    pthread_mutex_unlock(&pfs.lock);
}

static void start(struct fixture *x, enum tb_flush_policy policy, bool background)
{
    static const struct tb_io_ops ops = {.name = "pfs", .pwrite = pfs_pwrite};
    alarm(60);
    fixture_init(x, TB_MODE_PERSISTENT_ASYNC);
    x->config.flush.policy = policy;
    x->config.flush.background = background;
    x->config.fsync = pfs.latency > 0 ? TB_FSYNC_PFS : TB_FSYNC_TIER;
    x->config.organizer.enabled = false;
    x->config.pfs.profiled = pfs.latency > 0;
    x->config.pfs.profile = (struct tb_device){.write_latency = pfs.latency, .write_bandwidth = pfs.bandwidth, .channels = 16};
    x->config.flush.threads = pfs.latency > 0 ? 4 : 2;
    x->config.flush.high = 0.5;
    x->config.flush.low = 0.2;
    tb_io_layer_init(&pfs.io, &pfs.ops, &ops, tb_io_libc());
    snprintf(pfs.path, sizeof(pfs.path), "%s", x->pfs);
    pfs.n_writes = 0;
    x->base = &pfs.io;
    fixture_start(x);
    assert_int_equal(tb_instance_become_daemon(x->engine), 0);
    assert_int_equal(tb_background_start(x->engine), 0);
}

static void stop(struct fixture *x)
{
    tb_background_stop(x->engine);
    fixture_stop(x);
    alarm(0);
}

static int open_file(struct fixture *x, const char *name)
{
    int fd = TB_IO(x->io, open, fixture_path(x, name), O_RDWR | O_CREAT, 0600);
    assert_true(fd >= 0);
    return fd;
}

static void write_block(struct fixture *x, int fd, unsigned number)
{
    char bytes[BLOCK];
    memset(bytes, (int)(number % 250 + 1), sizeof(bytes));
    assert_int_equal(TB_IO(x->io, pwrite, fd, bytes, BLOCK, (off_t)number * BLOCK), BLOCK);
}

static bool has_block(struct fixture *x, const char *name, unsigned i)
{
    char bytes[BLOCK];
    int fd = open(fixture_path(x, name), O_RDONLY);
    bool there = pread(fd, bytes, BLOCK, (off_t)i * BLOCK) == BLOCK && bytes[7] == (char)(i % 250 + 1);
    close(fd);
    return there;
}

/* How many blocks of a file the PFS has. */
static unsigned blocks_on_pfs(struct fixture *x, const char *name, unsigned n)
{
    unsigned there = 0;
    for (unsigned i = 0; i < n; i++)
        there += has_block(x, name, i);
    return there;
}

static void wait_for_blocks(struct fixture *x, const char *name, unsigned n)
{
    while (blocks_on_pfs(x, name, n) < n)
        usleep(2000);
}

static void adjacent_bytes_are_one_write(void **state)
{
    (void)state;
    struct fixture x;
    start(&x, TB_FLUSH_ON_CLOSE, false);
    int fd = open_file(&x, "f");
    for (unsigned i = 0; i < 64; i++)
        write_block(&x, fd, i * 37 % 64); /* in any order */
    write_block(&x, fd, 100);             /* and one apart */
    assert_int_equal(pfs.n_writes, 0);
    assert_int_equal(TB_IO(x.io, close, fd), 0);
    assert_int_equal(pfs.n_writes, 2);
    assert_int_equal(blocks_on_pfs(&x, "f", 64), 64); /* when close returns, the PFS has them */
    stop(&x);
}

/* It held the description too; that it has ended is known to the kernel alone, until a repair. */
static void a_close_after_a_child_has_ended_flushes(void **state)
{
    (void)state;
    struct fixture x;
    start(&x, TB_FLUSH_ON_CLOSE, false);
    int fd = open_file(&x, "f");
    write_block(&x, fd, 0);
    tb_engine_atfork_prepare(x.engine);
    pid_t child = fork();
    if (child == 0) {
        tb_engine_atfork_child(x.engine);
        _exit(0);
    }
    tb_engine_atfork_parent(x.engine);
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_int_equal(TB_IO(x.io, close, fd), 0);
    assert_int_equal(blocks_on_pfs(&x, "f", 1), 1);
    stop(&x);
}

static void background_close_does_not_wait_and_threads_work_side_by_side(void **state)
{
    (void)state;
    struct fixture x;
    start(&x, TB_FLUSH_ON_CLOSE, true);
    hold_pfs(true);
    int a = open_file(&x, "a"), b = open_file(&x, "b");
    write_block(&x, a, 0);
    write_block(&x, b, 0);
    assert_int_equal(TB_IO(x.io, close, a), 0);
    assert_int_equal(TB_IO(x.io, close, b), 0);
    wait_for_writers(2); /* both files at once: two threads */
    assert_int_equal(blocks_on_pfs(&x, "a", 1), 0);
    hold_pfs(false);
    wait_for_blocks(&x, "a", 1);
    wait_for_blocks(&x, "b", 1);
    stop(&x);
}

static void a_stuck_flush_holds_up_no_writer(void **state)
{
    (void)state;
    struct fixture x;
    start(&x, TB_FLUSH_ON_CLOSE, true);
    hold_pfs(true);
    int fd = open_file(&x, "f"), again;
    for (unsigned i = 0; i < 10; i++)
        write_block(&x, fd, i);
    assert_int_equal(TB_IO(x.io, close, fd), 0);
    wait_for_writers(1);
    again = open_file(&x, "f");
    write_block(&x, again, 3);  /* the very bytes that are on their way */
    write_block(&x, again, 20); /* and others of the file */
    fd = open_file(&x, "g");
    write_block(&x, fd, 0);
    assert_int_equal(TB_IO(x.io, fsync, fd, false), 0); /* a promise of a tier needs no PFS */
    hold_pfs(false);
    assert_int_equal(TB_IO(x.io, close, again), 0);
    assert_int_equal(TB_IO(x.io, close, fd), 0);
    wait_for_blocks(&x, "f", 10);
    wait_for_blocks(&x, "g", 1);
    stop(&x);
}

static void watermark_flushes_above_high(void **state)
{
    (void)state;
    struct fixture x;
    start(&x, TB_FLUSH_WATERMARK, false);
    uint64_t high = x.config.tiers[0].capacity / 2;
    int fd = open_file(&x, "f"), large = open_file(&x, "large");
    for (unsigned i = 0; tb_tier_dirty(x.engine->header, 0) <= high; i++)
        write_block(&x, large, i);
    while (!pfs.n_writes)
        write_block(&x, fd, 0); /* never idle */
    stop(&x);
}

static void watermark_flushes_when_idle(void **state)
{
    (void)state;
    struct fixture x;
    start(&x, TB_FLUSH_WATERMARK, false);
    unsigned n = x.engine->header->layout.slab[0].n_buffers, some = n / 8;
    int fd = open_file(&x, "f");
    for (unsigned i = 0; i < some; i++)
        write_block(&x, fd, i);
    assert_int_equal(TB_IO(x.io, close, fd), 0);
    assert_int_equal(pfs.n_writes, 0);         /* closing means nothing here */
    wait_for_blocks(&x, "f", some);            /* idle: the rest goes too */
    while (tb_tier_dirty(x.engine->header, 0)) /* counted after the write; the alarm ends it */
        usleep(1000);
    stop(&x);
}

static void manual_waits_for_the_order(void **state)
{
    (void)state;
    struct fixture x;
    start(&x, TB_FLUSH_MANUAL, false);
    int fd = open_file(&x, "f");
    for (unsigned i = 0; i < 8; i++)
        write_block(&x, fd, i);
    assert_int_equal(TB_IO(x.io, close, fd), 0);
    usleep(1500000); /* longer than the watermark's idle time: nothing may come */
    assert_int_equal(pfs.n_writes, 0);
    assert_int_equal(tb_engine_flush(x.engine, -1), 1);
    assert_int_equal(blocks_on_pfs(&x, "f", 8), 8);
    stop(&x);
}

static void begin_waits(double bandwidth)
{
    pfs.latency = 4e-3;
    pfs.bandwidth = bandwidth;
}

static void end_waits(struct fixture *x)
{
    pfs.latency = 0;
    stop(x);
}

/* Four writes of one file, each of which waits for the PFS: by how many threads at once. */
static void assert_writers(double bandwidth, int n)
{
    struct fixture x;
    begin_waits(bandwidth);
    start(&x, TB_FLUSH_ON_CLOSE, true);
    hold_pfs(true);
    int fd = open_file(&x, "f");
    for (unsigned i = 0; i < 4; i++)
        write_block(&x, fd, 2 * i);
    assert_int_equal(TB_IO(x.io, close, fd), 0);
    wait_for_writers(n);
    usleep(50000); /* another one would come in this time */
    assert_int_equal(pfs.n_waiting, n);
    hold_pfs(false);
    for (unsigned i = 0; i < 4; i++)
        while (!has_block(&x, "f", 2 * i))
            usleep(2000);
    assert_int_equal(pfs.n_writes, 4);
    end_waits(&x);
}

static void long_waits_are_shared_by_the_threads(void **state)
{
    (void)state;
    assert_writers(1e9, 4);
}

/* A transfer takes as long as the wait: with one write in transfer, others wait for no more than that. */
static void no_more_wait_than_the_pfs_can_hide(void **state)
{
    (void)state;
    assert_writers(BLOCK / 4e-3, 3);
}

/* A program's own handle: no threads flush for it. */
struct program {
    struct fixture *x;
    tb_engine *engine;
    struct tb_io *io;
    pthread_t thread;
    int fd;
};

static void begin_program(struct program *p, struct fixture *x)
{
    p->x = x;
    assert_int_equal(tb_engine_attach(x->name, &pfs.io, &p->engine), 0);
    p->io = tb_engine_route(p->engine, x->pfs, NULL);
    p->fd = TB_IO(p->io, open, fixture_path(x, "f"), O_RDWR | O_CREAT, 0600);
    struct fixture own = *x;
    own.io = p->io;
    for (unsigned i = 0; i < 4; i++)
        write_block(&own, p->fd, 2 * i);
}

static void *sync_file(void *arg)
{
    struct program *p = arg;
    assert_int_equal(TB_IO(p->io, fsync, p->fd, false), 0);
    return NULL;
}

static void end_program(struct program *p)
{
    for (unsigned i = 0; i < 4; i++)
        assert_true(has_block(p->x, "f", 2 * i));
    assert_int_equal(TB_IO(p->io, close, p->fd), 0);
    tb_engine_detach(p->engine);
}

static void an_fsync_leaves_long_waits_to_the_daemon(void **state)
{
    (void)state;
    struct fixture x;
    struct program p;
    begin_waits(1e9);
    start(&x, TB_FLUSH_MANUAL, false);
    begin_program(&p, &x);
    hold_pfs(true);
    assert_int_equal(pthread_create(&p.thread, NULL, sync_file, &p), 0);
    wait_for_writers(2);
    hold_pfs(false);
    pthread_join(p.thread, NULL);
    end_program(&p);
    end_waits(&x);
}

static void an_fsync_does_all_where_the_daemon_is_busy(void **state)
{
    (void)state;
    struct fixture x;
    struct program p;
    begin_waits(1e9);
    pfs.only = "busy";
    start(&x, TB_FLUSH_ON_CLOSE, true);
    hold_pfs(true);
    for (int i = 0; i < 4; i++) {
        char name[] = "busy.0";
        name[5] = (char)('0' + i);
        int fd = open_file(&x, name);
        write_block(&x, fd, 0);
        assert_int_equal(TB_IO(x.io, close, fd), 0);
    }
    wait_for_writers(4);
    begin_program(&p, &x);
    sync_file(&p);
    end_program(&p);
    hold_pfs(false);
    pfs.only = NULL;
    end_waits(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(adjacent_bytes_are_one_write),
        cmocka_unit_test(a_close_after_a_child_has_ended_flushes),
        cmocka_unit_test(background_close_does_not_wait_and_threads_work_side_by_side),
        cmocka_unit_test(a_stuck_flush_holds_up_no_writer),
        cmocka_unit_test(long_waits_are_shared_by_the_threads),
        cmocka_unit_test(no_more_wait_than_the_pfs_can_hide),
        cmocka_unit_test(an_fsync_leaves_long_waits_to_the_daemon),
        cmocka_unit_test(an_fsync_does_all_where_the_daemon_is_busy),
        cmocka_unit_test(watermark_flushes_above_high),
        cmocka_unit_test(watermark_flushes_when_idle),
        cmocka_unit_test(manual_waits_for_the_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
