/*
 * Many processes attached at once, each with its own files and all in one;
 * killed ones leave their slot and their claims to others; and one more than
 * fits is told so.
 */
#include "stress.h"

#include <signal.h>

#include "file/claim.h"
#include "file/file.h"
#include "instance/attach.h"
#include "instance/drain.h"
#include "layer/descriptions.h"
#include "layer/repair.h"

#define PROCESSES 64
#define CLIENTS 128u
#define RECORD 700u

struct crowd {
    _Atomic uint32_t attached, done;
    uint32_t records; /* of each */
};

static void wait_for(_Atomic uint32_t *count, uint32_t n)
{
    uint64_t limit = now_ns() + 60000000000ull;
    while (*count < n) {
        must(now_ns() < limit, "waited a minute for %u of %u", *count, n);
        usleep(1000);
    }
}

static int open_for(struct worker *w, const char *format, int id)
{
    char name[64], path[512];
    snprintf(name, sizeof(name), format, id);
    snprintf(path, sizeof(path), "%s/%s", w->x->pfs, name);
    int fd = TB_IO(w->io, open, path, O_RDWR | O_CREAT, 0600);
    must(fd >= 0, "open %s: %d", path, fd);
    return fd;
}

static void write_record(struct worker *w, int fd, uint64_t k)
{
    unsigned char bytes[RECORD];
    stamp_block(bytes, RECORD, (uint32_t)w->id, (uint32_t)k, k);
    must(TB_IO(w->io, pwrite, fd, bytes, RECORD, (off_t)(k * RECORD)) == RECORD, "record %llu", (unsigned long long)k);
}

static void check_record(struct worker *w, int fd, uint64_t k, uint32_t writer)
{
    unsigned char bytes[RECORD];
    struct stamp s;
    must(TB_IO(w->io, pread, fd, bytes, RECORD, (off_t)(k * RECORD)) == RECORD && stamp_read(bytes, RECORD, k, &s) && s.writer == writer,
         "record %llu of writer %u", (unsigned long long)k, writer);
}

/* All are attached before anyone writes, and still attached when the last one reads. */
static void crowd(struct worker *w)
{
    struct crowd *c = w->arg;
    int own = open_for(w, "own-%d", w->id), shared = open_for(w, "shared", 0);
    c->attached++;
    wait_for(&c->attached, PROCESSES);
    for (uint64_t i = 0; i < c->records; i++) {
        write_record(w, own, i);
        write_record(w, shared, i * PROCESSES + (uint64_t)w->id);
    }
    c->done++;
    wait_for(&c->done, PROCESSES);
    int neighbour = open_for(w, "own-%d", (w->id + 1) % PROCESSES);
    for (uint64_t i = 0; i < c->records; i++) {
        check_record(w, neighbour, i, (uint32_t)(w->id + 1) % PROCESSES);
        uint32_t who = next_random(&w->seed) % PROCESSES;
        check_record(w, shared, i * PROCESSES + who, who);
    }
    must(TB_IO(w->io, close, neighbour) == 0 && TB_IO(w->io, close, own) == 0, "close");
    must(TB_IO(w->io, close, shared) == 0, "close");
}

static void sixty_four_at_once(void **state)
{
    (void)state;
    struct fixture x;
    struct crowd *c = stress_shared(sizeof(*c));
    unsigned char bytes[RECORD];
    struct stamp s;
    c->records = (uint32_t)stress_amount(40);
    fixture_init(&x, TB_MODE_PERSISTENT_ASYNC);
    fixture_start(&x);
    run_workers(&x, PROCESSES, true, crowd, c);
    assert_int_equal(tb_instance_drain(x.engine, 2, NULL, NULL, NULL), 0);
    assert_true(tb_region_is_valid(x.engine));
    int fd = open(fixture_path(&x, "shared"), O_RDONLY);
    for (uint64_t k = 0; k < (uint64_t)c->records * PROCESSES; k++) {
        assert_int_equal(pread(fd, bytes, RECORD, (off_t)(k * RECORD)), RECORD);
        assert_true(stamp_read(bytes, RECORD, k, &s) && s.writer == k % PROCESSES);
    }
    close(fd);
    fixture_stop(&x);
    munmap(c, sizeof(*c));
}

static void one_too_many(void **state)
{
    (void)state;
    static tb_engine *e[CLIENTS], *tool;
    struct fixture x;
    uint32_t n = 0;
    int rc;
    fixture_init(&x, TB_MODE_PERSISTENT_ASYNC);
    x.config.max_clients = CLIENTS;
    fixture_start(&x);
    while ((rc = tb_engine_attach(x.name, tb_io_libc(), &e[n])) == 0)
        n++;
    assert_int_equal(rc, -EUSERS);
    assert_int_equal(n, CLIENTS - TB_CLIENTS_TOOLS - 1); /* one is the fixture's */
    assert_int_equal(tb_instance_attach(x.name, tb_io_libc(), &tool), 0);
    tb_engine_detach(tool);
    tb_engine_detach(e[--n]);
    assert_int_equal(tb_engine_attach(x.name, tb_io_libc(), &e[n]), 0);
    n++;
    while (n)
        tb_engine_detach(e[--n]);
    fixture_stop(&x);
}

/* No slot is left for a child: it shares what it inherits through the kernel, and what it opens passes through. */
static void forked_without_a_slot(void **state)
{
    (void)state;
    static tb_engine *e[CLIENTS];
    struct fixture x;
    uint32_t n = 0;
    int status;
    fixture_init(&x, TB_MODE_PERSISTENT_ASYNC);
    x.config.max_clients = CLIENTS;
    fixture_start(&x);
    struct worker w = {.x = &x, .engine = x.engine, .io = x.io};
    int fd = open_for(&w, "inherited", 0);
    write_record(&w, fd, 0);
    while (tb_engine_attach(x.name, tb_io_libc(), &e[n]) == 0)
        n++;
    tb_engine_atfork_prepare(x.engine);
    pid_t child = fork();
    if (child == 0) {
        tb_engine_atfork_child(x.engine);
        check_record(&w, fd, 0, 0);
        write_record(&w, fd, 1);
        must(TB_IO(x.io, close, fd) == 0, "close");
        fd = open_for(&w, "its-own", 0);
        write_record(&w, fd, 0);
        check_record(&w, fd, 0, 0);
        must(TB_IO(x.io, close, fd) == 0, "close");
        _exit(0);
    }
    tb_engine_atfork_parent(x.engine);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    check_record(&w, fd, 1, 0);
    write_record(&w, fd, 2);
    check_record(&w, fd, 2, 0);
    assert_int_equal(TB_IO(x.io, close, fd), 0);
    fd = open_for(&w, "its-own", 0);
    check_record(&w, fd, 0, 0);
    assert_int_equal(TB_IO(x.io, close, fd), 0);
    while (n)
        tb_engine_detach(e[--n]);
    assert_true(tb_region_is_valid(x.engine));
    fixture_stop(&x);
}

/* Dies with a claim on a file and a descriptor of one that has no name. */
static void claim_and_wait(struct worker *w)
{
    struct crowd *c = w->arg;
    int kept = open_for(w, "kept", 0), gone = open_for(w, "gone", 0);
    char path[512];
    write_record(w, kept, 0);
    write_record(w, gone, 0);
    snprintf(path, sizeof(path), "%s/gone", w->x->pfs);
    must(TB_IO(w->io, unlink, path, 0) == 0, "unlink");
    must(tb_file_claim(w->engine, tb_open_of(w->engine, kept)->file), "claim");
    c->attached++;
    pause();
}

static void killed_ones_leave_nothing(void **state)
{
    (void)state;
    struct fixture x;
    struct tb_stats stats;
    struct crowd *c = stress_shared(sizeof(*c));
    struct worker w = {.x = &x, .arg = c, .work = claim_and_wait};
    fixture_init(&x, TB_MODE_PERSISTENT_ASYNC);
    fixture_start(&x);
    pid_t child = worker_process(&w);
    wait_for(&c->attached, 1);
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_int_equal(tb_repair(x.engine), 1);
    tb_engine *other; /* takes the slot that seemed to hold the claim */
    assert_int_equal(tb_engine_attach(x.name, tb_io_libc(), &other), 0);
    assert_int_equal(other->slot, 1);
    assert_int_equal(tb_instance_drain(x.engine, 1, NULL, NULL, NULL), 0);
    w.engine = x.engine;
    w.io = x.io;
    int fd = open_for(&w, "kept", 0);
    check_record(&w, fd, 0, 0);
    assert_int_equal(TB_IO(x.io, close, fd), 0);
    tb_engine_stats(x.engine, &stats);
    assert_int_equal(stats.n_dirty_files + stats.n_errors, 0);
    assert_true(stats.n_files <= 1); /* the one without a name is gone */
    assert_true(tb_region_is_valid(x.engine));
    tb_engine_detach(other);
    fixture_stop(&x);
    munmap(c, sizeof(*c));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sixty_four_at_once),
        cmocka_unit_test(one_too_many),
        cmocka_unit_test(forked_without_a_slot),
        cmocka_unit_test(killed_ones_leave_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
