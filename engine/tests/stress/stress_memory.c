/*
 * Memory: what many cycles of open, write, close and unlink leave is what
 * few leave; random 4 KiB writes cost little more than their bytes; no tier holds
 * more than its capacity, counted where the bytes are: in the region and in the
 * blocks of the slab files.
 */
#include "stress.h"

#include <malloc.h>

#include "buffer/slab.h"
#include "file/name_tree.h"
#include "region/counters.h"
#include "region/directories.h"
#include "region/region_file.h"

/* What is in use, in the region and in this process. */
struct in_use {
    uint32_t files, names, opens, fragments, buffers[TB_MAX_TIERS * TB_MAX_SLABS];
    uint64_t used, dirty, journal;
    size_t heap;
};

static uint32_t free_names(tb_engine *e)
{
    uint32_t n = 0;
    tb_names_forget_client(e, e->slot);
    for (uint32_t i = e->header->names.free; i != TB_NONE; i = e->region.names[i].next)
        n++;
    return n;
}

static uint32_t free_fragments(tb_engine *e)
{
    uint32_t n = 0, per = (uint32_t)(e->header->layout.fragment_bytes / sizeof(struct tb_interval));
    for (uint32_t i = e->header->fragments.free; i != TB_NONE; n++)
        memcpy(&i, &e->region.fragments[(size_t)i * per], sizeof(i));
    return n;
}

static uint32_t open_descriptions(tb_engine *e)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < e->region.n_opens; i++)
        n += e->region.opens[i].magic == TB_OPEN_MAGIC;
    return n;
}

static void count(struct fixture *x, struct in_use *out)
{
    tb_engine *e = x->engine;
    memset(out, 0, sizeof(*out));
    out->files = e->header->files.n;
    out->names = free_names(e);
    out->opens = open_descriptions(e);
    out->fragments = free_fragments(e);
    for (uint32_t s = 0; s < e->header->layout.n_slabs; s++)
        out->buffers[s] = tb_slab_n_free(e, s);
    for (uint32_t t = 0; t < x->config.n_tiers; t++) {
        out->used += tb_tier_used(e, t);
        out->dirty += tb_tier_dirty(e->header, t);
    }
    out->journal = e->header->journal.end;
    out->heap = mallinfo2().uordblks;
}

/* A file of a few pieces, large enough for every kind of buffer; sometimes synced, renamed, cut, dirty when it goes. */
static void one_cycle(struct worker *w, uint64_t i)
{
    static const unsigned char bytes[100000];
    struct tb_io *io = w->io;
    char path[512], other[512];
    uint32_t dice = next_random(&w->seed);
    snprintf(path, sizeof(path), "%s/f%u", w->x->pfs, (uint32_t)(i % 3));
    int fd = TB_IO(io, open, path, O_RDWR | O_CREAT, 0600);
    must(fd >= 0, "open: %d", fd);
    size_t n = dice % 8 ? dice % 5000 : dice % sizeof(bytes);
    must(TB_IO(io, write, fd, bytes, n) == (ssize_t)n, "write");
    must(TB_IO(io, pwrite, fd, bytes, 100, dice % 200000) == 100, "write after a gap");
    if (dice % 128 == 1)
        must(TB_IO(io, fsync, fd, false) == 0, "fsync");
    if (dice % 16 == 2)
        must(TB_IO(io, ftruncate, fd, dice % 9000) == 0, "truncate");
    if (dice % 64 == 3)
        must(tb_engine_flush(w->engine, fd) >= 0, "flush");
    if (dice % 32 == 4) {
        snprintf(other, sizeof(other), "%s/a-longer-name-for-the-same-file-%u", w->x->pfs, dice % 100);
        must(TB_IO(io, rename, path, other, 0) == 0, "rename");
        memcpy(path, other, sizeof(path));
    }
    if (dice % 2)
        must(TB_IO(io, unlink, path, 0) == 0, "unlink");
    must(TB_IO(io, close, fd) == 0, "close");
    if (dice % 2 == 0)
        must(TB_IO(io, unlink, path, 0) == 0, "unlink");
}

static void cycles(struct worker *w)
{
    const uint64_t *range = w->arg;
    for (uint64_t i = range[0]; i < range[1]; i++)
        one_cycle(w, i);
}

/* `large` buffers only: pieces in them are kept apart by fragments. */
static void run_cycles(bool large)
{
    struct fixture x;
    struct in_use few, many;
    uint64_t n = stress_amount(20000), range[2] = {0, n / 1000 + 2000};
    fixture_init(&x, TB_MODE_PERSISTENT_ASYNC);
    for (uint32_t t = 0; t < x.config.n_tiers && large; t++) {
        x.config.tiers[t].n_slabs = 0;
        fixture_slab(&x.config.tiers[t], 65536 / x.config.tiers[t].block, 1.0);
    }
    fixture_start(&x);
    run_workers(&x, 1, false, cycles, range);
    count(&x, &few);
    range[0] = range[1];
    range[1] = n;
    run_workers(&x, 1, false, cycles, range);
    count(&x, &many);
    many.heap = many.heap < few.heap + 4096 ? few.heap : many.heap; /* the C library's own lists */
    many.journal = few.journal = 0;                                 /* it is cut at 64 records */
    assert_memory_equal(&few, &many, sizeof(few));
    assert_int_equal(many.files + many.opens, 0);
    assert_true(x.engine->header->journal.end < 1u << 20);
    assert_true(tb_region_is_valid(x.engine));
    fixture_stop(&x);
}

static void cycles_leave_nothing(void **state)
{
    (void)state;
    run_cycles(false);
    run_cycles(true);
}

static uint64_t used_by(struct fixture *x, uint64_t *capacity)
{
    struct tb_stats stats;
    uint64_t used = 0;
    tb_engine_stats(x->engine, &stats);
    *capacity = 0;
    for (uint32_t t = 0; t < stats.n_tiers; t++) {
        assert_true(stats.tier[t].used <= stats.tier[t].capacity);
        used += stats.tier[t].used;
        *capacity += stats.tier[t].capacity;
    }
    return used;
}

/* A random order of the numbers below a power of two: an odd multiple of each. */
static uint64_t nth_block(uint64_t k, uint64_t blocks)
{
    return (k * 2654435761u + 12345) & (blocks - 1);
}

/* `bytes` of distinct 4 KiB blocks at random places of the first `span` bytes of a file. */
static void scatter(uint64_t span, uint64_t bytes)
{
    static const unsigned char block[4096];
    struct fixture x;
    uint64_t blocks = span / sizeof(block), capacity;
    fixture_init(&x, TB_MODE_PERSISTENT_ASYNC);
    x.config.tiers[0].capacity = 64u << 20;
    x.config.n_tiers = 1;
    x.config.fsync = TB_FSYNC_PFS;
    x.config.tiers[0].n_slabs = 0;
    fixture_slab(&x.config.tiers[0], 1, 0.25);
    fixture_slab(&x.config.tiers[0], 256, 0.75);
    fixture_start(&x);
    int fd = TB_IO(x.io, open, fixture_path(&x, "scattered"), O_RDWR | O_CREAT, 0600);
    assert_true(fd >= 0);
    for (uint64_t k = 0; k < bytes / sizeof(block); k++)
        assert_int_equal(TB_IO(x.io, pwrite, fd, block, sizeof(block), (off_t)(nth_block(k, blocks) * sizeof(block))), sizeof(block));
    uint64_t used = used_by(&x, &capacity);
    print_message("%llu MiB of random 4 KiB writes to %llu MiB: %.2f times their bytes in buffers\n", (unsigned long long)bytes >> 20,
                  (unsigned long long)span >> 20, (double)used / (double)bytes);
    assert_int_equal(x.engine->header->totals.spilled, 0);
    assert_true(used <= bytes + bytes / 2);
    assert_int_equal(TB_IO(x.io, close, fd), 0);
    fixture_stop(&x);
}

/* Far apart while small buffers last; and a whole file, which takes large ones too. */
static void random_small_writes(void **state)
{
    (void)state;
    scatter(1ull << 30, 12u << 20);
    scatter(32u << 20, 32u << 20);
}

/* The bytes a slab file takes, and the region's. */
static void within_capacity(struct fixture *x)
{
    tb_engine *e = x->engine;
    char directory[TB_PATH_MAX + 256], path[TB_PATH_MAX + 300];
    struct stat st;
    for (uint32_t t = 0; t < x->config.n_tiers; t++) {
        uint64_t bytes = 0;
        for (uint32_t s = e->header->layout.tier_first_slab[t]; tb_is_slab_of(&e->header->layout, s, t); s++) {
            tb_tier_directory(&x->config.tiers[t], e->header->host, e->header->name, directory, sizeof(directory));
            char file[TB_SLAB_NAME_MAX];
            tb_slab_file(s, file);
            snprintf(path, sizeof(path), "%s/%s", directory, file);
            if (x->config.tiers[t].medium == TB_MEDIUM_DIRECTORY) {
                assert_int_equal(stat(path, &st), 0);
                bytes += (uint64_t)st.st_blocks * 512;
                assert_int_equal(st.st_size, e->header->layout.slab[s].n_buffers * e->header->layout.slab[s].buffer_size);
            }
        }
        if (x->config.tiers[t].medium == TB_MEDIUM_DIRECTORY)
            assert_true(bytes <= x->config.tiers[t].capacity);
        else
            assert_true(e->header->layout.total_bytes <= x->config.tiers[t].capacity);
    }
    tb_region_path(x->name, path, sizeof(path));
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_size, e->header->layout.total_bytes);
    assert_true((uint64_t)st.st_blocks * 512 <= x->config.tiers[0].capacity);
}

/* Far more than all tiers hold, in pieces of any size. */
static void capacities_are_kept(void **state)
{
    (void)state;
    struct fixture x;
    static const unsigned char bytes[300000];
    uint64_t capacity, at = 0;
    uint32_t seed = 5;
    fixture_init(&x, TB_MODE_PERSISTENT_ASYNC);
    fixture_start(&x);
    int fd = TB_IO(x.io, open, fixture_path(&x, "large"), O_RDWR | O_CREAT, 0600);
    for (int i = 0; i < 200; i++) {
        size_t n = 1 + next_random(&seed) % (i % 2 ? 5000 : sizeof(bytes));
        assert_int_equal(TB_IO(x.io, pwrite, fd, bytes, n, (off_t)at), (ssize_t)n);
        at += n + next_random(&seed) % 10000;
        used_by(&x, &capacity);
    }
    assert_true(x.engine->header->totals.spilled > 0);
    within_capacity(&x);
    assert_int_equal(TB_IO(x.io, close, fd), 0);
    fixture_stop(&x);
}

/* One record stays all the time while another file is synced again and again. */
static void the_journal_stays_short(void **state)
{
    (void)state;
    struct fixture x;
    unsigned char bytes[100] = {1};
    setenv("TMPDIR", "/dev/shm", 1); /* a disk's syncs would take a minute */
    fixture_init(&x, TB_MODE_PERSISTENT_ASYNC);
    fixture_start(&x);
    struct tb_io *io = x.io;
    int kept = TB_IO(io, open, fixture_path(&x, "kept"), O_RDWR | O_CREAT, 0600);
    int busy = TB_IO(io, open, fixture_path(&x, "busy"), O_RDWR | O_CREAT, 0600);
    assert_int_equal(TB_IO(io, pwrite, kept, bytes, sizeof(bytes), 0), sizeof(bytes));
    assert_int_equal(TB_IO(io, fsync, kept, false), 0);
    uint64_t longest = 0, flushed = 0;
    for (int i = 0; i < 3000; i++) {
        assert_int_equal(TB_IO(io, pwrite, busy, bytes, sizeof(bytes), i), sizeof(bytes));
        assert_int_equal(TB_IO(io, fsync, busy, false), 0);
        longest = x.engine->header->journal.end > longest ? x.engine->header->journal.end : longest;
        flushed = x.engine->header->totals.pfs_written;
    }
    assert_true(longest > 1u << 19 && longest <= (1u << 20) + 4096);
    assert_true(flushed > 0);
    assert_int_equal(TB_IO(io, close, kept), 0);
    assert_int_equal(TB_IO(io, close, busy), 0);
    assert_true(tb_region_is_valid(x.engine));
    fixture_stop(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cycles_leave_nothing),
        cmocka_unit_test(random_small_writes),
        cmocka_unit_test(capacities_are_kept),
        cmocka_unit_test(the_journal_stays_short),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
