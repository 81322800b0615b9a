/*
 * Two files that several write to at once.
 *
 * One file written by all ranks.  Records interleave: rank r owns every n-th
 * record of an odd size, so that neighbours share blocks.  After them come
 * blocks that every rank rewrites whole.  After the drain each record holds its
 * owner's last write, each block the last write that one of the ranks made to it.
 *
 * And one that some write and append to while others set its length: a record is
 * whole or a hole at any time, and what is past the end is gone for good:
 * when all is quiet and the file is made longer, it holds zeros there.
 */
#include "instance/background.h"
#include "instance/drain.h"
#include "stress.h"

#define RANKS 6
#define RECORDS 1200 /* of all ranks, bytes each: */
#define RECORD 1500
#define BLOCKS 64
#define BLOCK 4096
#define BLOCKS_AT ((uint64_t)RECORDS * RECORD / BLOCK * BLOCK + BLOCK)

struct shared {
    uint32_t rounds;
    uint32_t record_serial[RECORDS];
    uint32_t block_serial[RANKS][BLOCKS]; /* of each rank's last write to it */
};

static void check_record(struct worker *w, int fd, uint32_t i, uint32_t serial)
{
    unsigned char bytes[RECORD];
    struct stamp s;
    must(TB_IO(w->io, pread, fd, bytes, RECORD, (off_t)i * RECORD) == RECORD, "record %u", i);
    must(stamp_read(bytes, RECORD, i, &s) && s.writer == (uint32_t)w->id && s.serial == serial, "record %u: writer %u serial %u, not %d %u",
         i, s.writer, s.serial, w->id, serial);
}

/* A block is whole at any time: it was written by one call inside one chunk. */
static void check_block(struct worker *w, int fd, uint32_t k)
{
    unsigned char bytes[BLOCK];
    struct stamp s;
    ssize_t n = TB_IO(w->io, pread, fd, bytes, BLOCK, (off_t)(BLOCKS_AT + (uint64_t)k * BLOCK));
    must(n >= 0, "block %u: %zd", k, n);
    if (n == BLOCK && memcmp(bytes, (unsigned char[sizeof(s)]){0}, sizeof(s)) != 0)
        must(stamp_read(bytes, BLOCK, k, &s), "block %u is torn", k);
}

static void one_round(struct worker *w, int fd, uint32_t serial)
{
    struct shared *sh = w->arg;
    unsigned char bytes[BLOCK];
    for (uint32_t i = (uint32_t)w->id; i < RECORDS; i += RANKS) {
        if (next_random(&w->seed) % 4 == 0)
            continue;
        stamp_block(bytes, RECORD, (uint32_t)w->id, serial, i);
        must(TB_IO(w->io, pwrite, fd, bytes, RECORD, (off_t)i * RECORD) == RECORD, "write of record %u", i);
        sh->record_serial[i] = serial;
        if (next_random(&w->seed) % 4 == 0)
            check_record(w, fd, i, serial);
        uint32_t k = next_random(&w->seed) % BLOCKS;
        stamp_block(bytes, BLOCK, (uint32_t)w->id, serial, k);
        must(TB_IO(w->io, pwrite, fd, bytes, BLOCK, (off_t)(BLOCKS_AT + (uint64_t)k * BLOCK)) == BLOCK, "block %u", k);
        sh->block_serial[w->id][k] = serial;
        check_block(w, fd, next_random(&w->seed) % BLOCKS);
    }
}

static void write_shared(struct worker *w)
{
    struct shared *sh = w->arg;
    char path[512];
    snprintf(path, sizeof(path), "%s/shared", w->x->pfs);
    for (uint32_t round = 1; round <= sh->rounds; round++) {
        int fd = TB_IO(w->io, open, path, O_RDWR | O_CREAT, 0600);
        must(fd >= 0, "open: %d", fd);
        one_round(w, fd, round);
        if (round % 3 == (uint32_t)w->id % 3)
            must(TB_IO(w->io, fsync, fd, false) == 0, "fsync");
        int rc = TB_IO(w->io, close, fd);
        must(rc == 0, "close: %d", rc);
    }
}

static void compare_with_pfs(struct fixture *x, const struct shared *sh)
{
    static unsigned char bytes[BLOCKS_AT + (uint64_t)BLOCKS * BLOCK];
    struct stamp s;
    int fd = open(fixture_path(x, "shared"), O_RDONLY);
    assert_true(fd >= 0 && pread(fd, bytes, sizeof(bytes), 0) > 0);
    close(fd);
    for (uint32_t i = 0; i < RECORDS; i++)
        if (sh->record_serial[i])
            must(stamp_read(bytes + (size_t)i * RECORD, RECORD, i, &s) && s.writer == i % RANKS && s.serial == sh->record_serial[i],
                 "record %u on the PFS: writer %u serial %u, not %u", i, s.writer, s.serial, sh->record_serial[i]);
    for (uint32_t k = 0; k < BLOCKS; k++)
        must(stamp_read(bytes + BLOCKS_AT + (size_t)k * BLOCK, BLOCK, k, &s) && s.writer < RANKS &&
                 s.serial == sh->block_serial[s.writer][k],
             "block %u on the PFS: writer %u serial %u is no writer's last", k, s.writer, s.serial);
}

static void run(bool processes, enum tb_fsync promise)
{
    struct fixture x;
    struct shared *sh = stress_shared(sizeof(*sh));
    sh->rounds = (uint32_t)stress_amount(20);
    fixture_init(&x, TB_MODE_PERSISTENT_ASYNC);
    x.config.fsync = promise;
    x.config.flush.policy = TB_FLUSH_ON_CLOSE;
    x.config.flush.background = true;
    x.config.tiers[0].capacity = 3u << 20; /* the file does not fit the tiers: buffers are reclaimed all the time */
    fixture_start(&x);
    assert_int_equal(tb_instance_become_daemon(x.engine), 0);
    if (!processes)
        assert_int_equal(tb_background_start(x.engine), 0);
    run_workers(&x, RANKS, processes, write_shared, sh);
    tb_background_stop(x.engine);
    assert_int_equal(tb_instance_drain(x.engine, 2, NULL, NULL, NULL), 0);
    assert_true(tb_region_is_valid(x.engine));
    compare_with_pfs(&x, sh);
    fixture_stop(&x);
    munmap(sh, sizeof(*sh));
}

static void by_threads(void **state)
{
    (void)state;
    run(false, TB_FSYNC_TIER);
    run(false, TB_FSYNC_PFS);
}

#ifndef __SANITIZE_THREAD__
static void by_processes(void **state)
{
    (void)state;
    run(true, TB_FSYNC_TIER);
    run(true, TB_FSYNC_PFS);
}
#endif

#define LINE 512
#define LINES 2000u
#define WRITERS 3

/* One thread sets the length while the others write; then all is quiet, and it looks. */
struct cut {
    uint64_t rounds;
    pthread_barrier_t barrier;
};

static int open_lines(struct worker *w)
{
    char path[512];
    snprintf(path, sizeof(path), "%s/cut", w->x->pfs);
    int fd = TB_IO(w->io, open, path, O_RDWR | O_CREAT, 0600);
    must(fd >= 0, "open: %d", fd);
    return fd;
}

static void write_line(struct worker *w, int fd, uint32_t k, uint32_t serial)
{
    unsigned char bytes[LINE];
    stamp_block(bytes, LINE, (uint32_t)w->id, serial, k);
    must(TB_IO(w->io, pwrite, fd, bytes, LINE, (off_t)k * LINE) == LINE, "line %u", k);
}

/* Whole or a hole inside, a hole past the end. */
static void check_lines(struct worker *w, int fd)
{
    static unsigned char bytes[LINES * LINE];
    struct stat st;
    struct stamp s;
    must(tb_region_is_valid(w->engine), "the region");
    must(TB_IO(w->io, fstat, fd, &st) == 0, "fstat");
    must(TB_IO(w->io, ftruncate, fd, sizeof(bytes)) == 0, "extend");
    must(TB_IO(w->io, pread, fd, bytes, sizeof(bytes), 0) == sizeof(bytes), "read");
    for (uint32_t k = 0; k < LINES; k++) {
        const unsigned char *line = bytes + (size_t)k * LINE;
        bool is_hole = line[0] == 0 && memcmp(line, line + 1, LINE - 1) == 0;
        must(is_hole || (off_t)(k + 1) * LINE <= st.st_size, "line %u is past the end at %lld and is back", k, (long long)st.st_size);
        must(is_hole || stamp_read(line, LINE, k, &s), "line %u is neither whole nor a hole", k);
    }
}

static void cut_or_write(struct worker *w)
{
    struct cut *c = w->arg;
    int fd = open_lines(w);
    for (uint32_t i = 0; i < c->rounds; i++) {
        for (uint32_t k = 0; w->id == 0 && k < LINES; k += 8)
            write_line(w, fd, k, i);
        pthread_barrier_wait(&c->barrier);
        for (uint32_t n = 0; w->id && n < 30; n++)
            write_line(w, fd, next_random(&w->seed) % LINES, i);
        if (w->id == 0 && i % 4 == 0)
            must(tb_engine_flush(w->engine, fd) >= 0, "flush");
        if (w->id == 0)
            must(TB_IO(w->io, ftruncate, fd, (off_t)(next_random(&w->seed) % 6) * LINE) == 0, "cut");
        pthread_barrier_wait(&c->barrier);
        if (w->id == 0)
            check_lines(w, fd);
    }
    must(TB_IO(w->io, close, fd) == 0, "close");
}

static void cut_while_written(void **state)
{
    (void)state;
    struct fixture x;
    struct cut c = {.rounds = stress_amount(400)};
    pthread_barrier_init(&c.barrier, NULL, WRITERS + 1);
    fixture_init(&x, TB_MODE_PERSISTENT_ASYNC);
    fixture_start(&x);
    run_workers(&x, WRITERS + 1, false, cut_or_write, &c);
    assert_true(tb_region_is_valid(x.engine));
    fixture_stop(&x);
    pthread_barrier_destroy(&c.barrier);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(by_threads),
        cmocka_unit_test(cut_while_written),
#ifndef __SANITIZE_THREAD__
        cmocka_unit_test(by_processes),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
