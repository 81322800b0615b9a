/*
 * The organizer: what is read again is staged in and goes up, nothing hotter goes
 * for it, and no byte is wrong while it works beside writers and truncations.
 */
#include "fixture.h"

#include <errno.h>

#include "check.h"
#include "filemap.h"
#include "heat.h"
#include "io_layer.h"
#include "move.h"
#include "opens.h"
#include "organizer.h"
#include "prefetch.h"
#include "schedule.h"
#include "stream.h"

#define BYTES (512u << 10)

static unsigned char pattern(size_t at, unsigned seed)
{
    return (unsigned char)(at * 31 + (at >> 9) + seed * 7919);
}

/* A file that only the PFS has. */
static void make_file(struct fixture *x, const char *name, size_t n, unsigned seed)
{
    unsigned char *bytes = malloc(n);
    for (size_t i = 0; i < n; i++)
        bytes[i] = pattern(i, seed);
    int fd = open(fixture_path(x, name), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_int_equal(write(fd, bytes, n), n);
    close(fd);
    free(bytes);
}

static int open_file(struct fixture *x, const char *name)
{
    int fd = x->io->ops->open(x->io, fixture_path(x, name), O_RDWR, 0600);
    assert_true(fd >= 0);
    return fd;
}

static void read_range(struct fixture *x, int fd, size_t offset, size_t n, unsigned seed)
{
    static unsigned char bytes[1 << 20];
    assert_int_equal(x->io->ops->pread(x->io, fd, bytes, n, (off_t)offset), (ssize_t)n);
    for (size_t i = 0; i < n; i++)
        if (bytes[i] != pattern(offset + i, seed))
            fail_msg("byte %zu is %u, expected %u", offset + i, bytes[i], pattern(offset + i, seed));
}

/* One pass over the file in transfers of `n` bytes; returns what was read from the PFS. */
static uint64_t read_pass(struct fixture *x, int fd, size_t size, size_t n, unsigned seed)
{
    uint64_t before = x->engine->header->pfs_read;
    for (size_t at = 0; at < size; at += n)
        read_range(x, fd, at, size - at < n ? size - at : n, seed);
    return x->engine->header->pfs_read - before;
}

static void the_second_miss_stages_in(void **state)
{
    (void)state;
    static const size_t transfers[] = {4096, 10000, 65536, 262144, BYTES};
    for (size_t i = 0; i < sizeof(transfers) / sizeof(transfers[0]); i++) {
        struct fixture x;
        fixture_init(&x, TB_MODE_PERSISTENT_ASYNC);
        fixture_start(&x);
        make_file(&x, "f", BYTES - 100, 1);
        for (int pass = 1; pass <= 4; pass++) { /* each opens the file anew: what was seen outlives its record */
            int fd = open_file(&x, "f");
            uint64_t from_pfs = read_pass(&x, fd, BYTES - 100, transfers[i], 1);
            assert_int_equal(x.io->ops->close(x.io, fd), 0);
            if (pass == 1)
                assert_true(from_pfs >= BYTES - 100 && x.engine->header->staged < BYTES / 2);
            else if (pass == 2)
                assert_true(from_pfs >= BYTES / 2);
            else
                assert_int_equal(from_pfs, 0);
        }
        assert_true(x.engine->header->staged >= BYTES - 100);
        assert_true(tb_region_is_valid(x.engine));
        fixture_stop(&x);
    }
}

static void write_through_stages_in_at_once(void **state)
{
    (void)state;
    struct fixture x;
    fixture_init(&x, TB_MODE_PERSISTENT_SYNC);
    fixture_start(&x);
    make_file(&x, "f", BYTES, 2);
    int fd = open_file(&x, "f");
    assert_int_equal(read_pass(&x, fd, BYTES, 65536, 2), BYTES);
    assert_int_equal(read_pass(&x, fd, BYTES, 65536, 2), 0);
    x.io->ops->close(x.io, fd);
    fixture_stop(&x);
}

static void disabled_stages_nothing(void **state)
{
    (void)state;
    struct fixture x;
    fixture_init(&x, TB_MODE_PERSISTENT_SYNC);
    x.config.organizer.enabled = false;
    fixture_start(&x);
    make_file(&x, "f", BYTES, 2);
    int fd = open_file(&x, "f");
    for (int pass = 0; pass < 3; pass++)
        assert_int_equal(read_pass(&x, fd, BYTES, 65536, 2), BYTES);
    x.io->ops->close(x.io, fd);
    fixture_stop(&x);
}

/* Another node, or a program outside, wrote the file while nobody had it open. */
static void what_changed_outside_is_read_anew(void **state)
{
    (void)state;
    struct fixture x;
    fixture_init(&x, TB_MODE_PERSISTENT_ASYNC);
    fixture_start(&x);
    make_file(&x, "f", BYTES, 3);
    for (int pass = 0; pass < 3; pass++) {
        int fd = open_file(&x, "f");
        read_pass(&x, fd, BYTES, 65536, 3);
        x.io->ops->close(x.io, fd);
    }
    usleep(20000); /* the clock of file times */
    make_file(&x, "f", BYTES, 4);
    int fd = open_file(&x, "f");
    read_pass(&x, fd, BYTES, 65536, 4);
    x.io->ops->close(x.io, fd);
    fixture_stop(&x);
}

/* Bytes of one tier of 64 KiB buffers. */
static void small_tier(struct fixture *x, enum tb_mode mode, uint64_t bytes)
{
    fixture_init(x, mode);
    x->config.n_tiers = 2;
    x->config.fsync = TB_FSYNC_PFS;
    struct tb_config_tier nvme = x->config.tiers[1];
    nvme.capacity = bytes;
    nvme.n_slabs = 0;
    fixture_slab(&nvme, 16, 1.0);
    x->config.tiers[0] = nvme;
    x->config.n_tiers = 1;
    fixture_start(x);
}

static void nothing_hotter_goes(void **state)
{
    (void)state;
    struct fixture x;
    small_tier(&x, TB_MODE_PERSISTENT_SYNC, BYTES);
    make_file(&x, "hot", BYTES, 5);
    make_file(&x, "cold", BYTES, 6);
    int hot = open_file(&x, "hot"), cold = open_file(&x, "cold");
    read_pass(&x, hot, BYTES, 65536, 5);
    assert_int_equal(read_pass(&x, hot, BYTES, 65536, 5), 0); /* all of the tier is the hot file's */
    for (int pass = 0; pass < 3; pass++)
        assert_int_equal(read_pass(&x, cold, BYTES, 65536, 6), BYTES);
    assert_int_equal(read_pass(&x, hot, BYTES, 65536, 5), 0);
    x.engine->header->heat_epoch += 3; /* long ago */
    read_pass(&x, cold, BYTES, 65536, 6);
    assert_int_equal(read_pass(&x, cold, BYTES, 65536, 6), 0);
    assert_true(tb_region_is_valid(x.engine));
    x.io->ops->close(x.io, hot);
    x.io->ops->close(x.io, cold);
    fixture_stop(&x);
}

/* A write may take any clean buffer, the coldest first. */
static void a_write_takes_the_coldest(void **state)
{
    (void)state;
    static unsigned char bytes[65536];
    struct fixture x;
    small_tier(&x, TB_MODE_PERSISTENT_SYNC, BYTES);
    make_file(&x, "f", BYTES, 7);
    int fd = open_file(&x, "f");
    read_pass(&x, fd, BYTES, 65536, 7);
    for (size_t at = 0; at < BYTES; at += 65536)
        if (at != 3 * 65536)
            read_range(&x, fd, at, 65536, 7); /* all but one are warmer now */
    int out = x.io->ops->open(x.io, fixture_path(&x, "out"), O_RDWR | O_CREAT, 0600);
    assert_int_equal(x.io->ops->pwrite(x.io, out, bytes, sizeof(bytes), 0), sizeof(bytes));
    assert_int_equal(x.engine->header->spilled, 0);
    uint32_t file = tb_open_of(x.engine, fd)->file;
    for (uint64_t cell = 0; cell < 8; cell++)
        assert_true((tb_map_find(x.engine, file, 0, cell) == NULL) == (cell == 3));
    x.io->ops->close(x.io, fd);
    x.io->ops->close(x.io, out);
    fixture_stop(&x);
}

static uint64_t in_tier(struct fixture *x, uint32_t file, uint32_t tier)
{
    uint32_t n;
    uint64_t bytes = 0;
    struct tb_buffer_ref *refs = tb_file_buffers(x->engine, file, TB_BUFFERS_ALL, &n);
    for (uint32_t i = 0; i < n; i++) {
        const struct tb_buffer *b = &x->engine->region.buffers[refs[i].buffer];
        bytes += tb_slab_layout(x->engine, b)->tier == tier ? b->valid_hi - b->valid_lo : 0;
    }
    free(refs);
    return bytes;
}

static void move_down(struct fixture *x, uint32_t file, uint32_t from, uint32_t to)
{
    uint32_t n;
    struct tb_buffer_ref *refs = tb_file_buffers(x->engine, file, TB_BUFFERS_ALL, &n);
    for (uint32_t i = 0; i < n; i++)
        if (tb_slab_layout(x->engine, &x->engine->region.buffers[refs[i].buffer])->tier == from)
            tb_move(x->engine, file, &refs[i], to, TB_HEAT_ANY);
    free(refs);
}

static void what_is_read_again_goes_up(void **state)
{
    (void)state;
    static unsigned char bytes[BYTES];
    struct fixture x;
    fixture_init(&x, TB_MODE_PERSISTENT_ASYNC);
    fixture_start(&x);
    for (size_t i = 0; i < BYTES; i++)
        bytes[i] = pattern(i, 8);
    int fd = x.io->ops->open(x.io, fixture_path(&x, "f"), O_RDWR | O_CREAT, 0600);
    uint32_t file = tb_open_of(x.engine, fd)->file;
    assert_int_equal(x.io->ops->pwrite(x.io, fd, bytes, BYTES, 0), BYTES);
    move_down(&x, file, 0, 1);
    assert_int_equal(in_tier(&x, file, 0), 0);
    uint64_t lower = in_tier(&x, file, 1);
    assert_true(lower > BYTES / 2);
    read_pass(&x, fd, BYTES, 65536, 8);
    assert_int_equal(in_tier(&x, file, 0), 0); /* written and read once */
    read_pass(&x, fd, BYTES, 65536, 8);
    assert_int_equal(in_tier(&x, file, 0), BYTES); /* dirty bytes too */
    assert_int_equal(x.engine->header->tier[0].moved_in, BYTES);
    assert_true(tb_region_is_valid(x.engine));
    assert_int_equal(tb_instance_drain(x.engine, 2, NULL, NULL, NULL), 0);
    x.io->ops->close(x.io, fd);
    fixture_stop(&x);
}

static void quiet_ticks(struct fixture *x, struct tb_organizer *o)
{
    for (int i = 0; i < 200; i++)
        tb_organizer_tick(x->engine, o);
}

/* Fill the top tier with bytes that the PFS lacks. */
static int fill_top(struct fixture *x, uint64_t *n)
{
    static unsigned char bytes[1 << 16];
    int fd = x->io->ops->open(x->io, fixture_path(x, "full"), O_RDWR | O_CREAT, 0600);
    for (*n = 0; x->engine->header->tier[1].used == 0; *n += sizeof(bytes)) {
        for (size_t i = 0; i < sizeof(bytes); i++)
            bytes[i] = pattern(*n + i, 10);
        assert_int_equal(x->io->ops->pwrite(x->io, fd, bytes, sizeof(bytes), (off_t)*n), sizeof(bytes));
    }
    return fd;
}

static void cold_bytes_go_down_while_programs_compute(void **state)
{
    (void)state;
    struct fixture x;
    struct tb_organizer o = {0};
    uint64_t n, moved;
    fixture_init(&x, TB_MODE_PERSISTENT_ASYNC);
    x.config.tiers[2].capacity = 8u << 20;
    fixture_start(&x);
    int fd = fill_top(&x, &n);
    uint32_t file = tb_open_of(x.engine, fd)->file;
    read_range(&x, fd, 65536, 65536, 10); /* warmer than the rest */
    struct tb_buffer *kept = tb_map_find(x.engine, file, 1, 2);
    assert_non_null(kept);
    kept->flags |= TB_BUFFER_KEEP;
    tb_organizer_tick(x.engine, &o); /* sees the traffic */
    tb_organizer_tick(x.engine, &o);
    assert_int_equal(x.engine->header->tier[1].moved_in + x.engine->header->tier[2].moved_in, 0);
    quiet_ticks(&x, &o);
    moved = x.engine->header->tier[1].moved_in + x.engine->header->tier[2].moved_in;
    assert_true(moved > n / 5 && moved < n / 2); /* from above high to low, and no further */
    assert_ptr_equal(tb_map_find(x.engine, file, 1, 2), kept);
    assert_int_equal(tb_slab_layout(x.engine, tb_map_find(x.engine, file, 1, 1))->tier, 0);
    assert_true(tb_region_is_valid(x.engine));
    read_pass(&x, fd, n, 65536, 10);
    assert_int_equal(tb_instance_drain(x.engine, 2, NULL, NULL, NULL), 0);
    moved = x.engine->header->tier[1].moved_in + x.engine->header->tier[2].moved_in;
    quiet_ticks(&x, &o); /* what the PFS has is room: nothing to do */
    assert_int_equal(x.engine->header->tier[1].moved_in + x.engine->header->tier[2].moved_in, moved);
    x.io->ops->close(x.io, fd);
    fixture_stop(&x);
}

static void traffic_cools(void **state)
{
    (void)state;
    struct fixture x;
    struct tb_organizer o = {0};
    uint64_t n;
    fixture_init(&x, TB_MODE_PERSISTENT_ASYNC);
    fixture_start(&x);
    int fd = fill_top(&x, &n);
    uint32_t file = tb_open_of(x.engine, fd)->file;
    read_range(&x, fd, 0, 65536, 10);
    quiet_ticks(&x, &o);
    uint32_t warm = tb_heat_of(x.engine, tb_map_find(x.engine, file, 1, 0));
    assert_true(warm > TB_HEAT_READ);
    quiet_ticks(&x, &o); /* time alone does not */
    assert_int_equal(tb_heat_of(x.engine, tb_map_find(x.engine, file, 1, 0)), warm);
    for (int pass = 0; pass < 3; pass++) {
        for (size_t at = 65536; at < n; at += 65536)
            read_range(&x, fd, at, 65536, 10);
        tb_organizer_tick(x.engine, &o);
    }
    assert_true(tb_heat_of(x.engine, tb_map_find(x.engine, file, 1, 0)) < warm);
    x.io->ops->close(x.io, fd);
    fixture_stop(&x);
}

static void prefetch_all(struct fixture *x, struct tb_prefetcher *p)
{
    while (tb_prefetch_step(x->engine, p))
        ;
}

static void start_prefetching(struct fixture *x, struct tb_prefetcher *p, const char *name, size_t n)
{
    fixture_init(x, TB_MODE_PERSISTENT_ASYNC);
    x->config.organizer.prefetch = 128u << 10;
    fixture_start(x);
    tb_prefetch_start(p);
    make_file(x, name, n, 11);
}

/* After three reads in a pattern what follows is there before it is asked for. */
static void sequential_readers_find_it_there(void **state)
{
    (void)state;
    struct fixture x;
    struct tb_prefetcher p;
    start_prefetching(&x, &p, "f", BYTES - 10);
    int fd = open_file(&x, "f");
    for (size_t at = 0; at < 3 * 4096; at += 4096) {
        assert_int_equal(x.engine->header->prefetched, 0);
        prefetch_all(&x, &p);
        read_range(&x, fd, at, 4096, 11);
    }
    prefetch_all(&x, &p);
    assert_int_equal(x.engine->header->prefetched, 128 << 10); /* as far ahead as it is told */
    for (size_t at = 3 * 4096; at < BYTES - 10; at += 4096) {
        uint64_t before = x.engine->header->pfs_read;
        read_range(&x, fd, at, BYTES - 10 - at < 4096 ? BYTES - 10 - at : 4096, 11);
        assert_int_equal(x.engine->header->pfs_read, before); /* a hit */
        prefetch_all(&x, &p);
    }
    assert_int_equal(x.engine->header->prefetched, BYTES - 10 - 3 * 4096);
    assert_true(tb_region_is_valid(x.engine));
    x.io->ops->close(x.io, fd);
    tb_prefetch_end(x.engine, &p);
    fixture_stop(&x);
}

static void strided_readers_find_it_there(void **state)
{
    (void)state;
    struct fixture x;
    struct tb_prefetcher p;
    start_prefetching(&x, &p, "f", BYTES);
    int fd = open_file(&x, "f");
    for (size_t i = 0; i < 3; i++)
        read_range(&x, fd, 1000 + i * 20000, 3000, 11);
    prefetch_all(&x, &p);
    assert_true(x.engine->header->prefetched >= 20 * 3000 && x.engine->header->prefetched < BYTES / 4);
    for (size_t i = 3; 1000 + i * 20000 + 3000 <= BYTES; i++) {
        uint64_t before = x.engine->header->pfs_read;
        read_range(&x, fd, 1000 + i * 20000, 3000, 11);
        assert_int_equal(x.engine->header->pfs_read, before);
        prefetch_all(&x, &p);
    }
    x.io->ops->close(x.io, fd);
    tb_prefetch_end(x.engine, &p);
    fixture_stop(&x);
}

static void readers_without_a_pattern_are_left_alone(void **state)
{
    (void)state;
    static const size_t at[] = {0, 8192, 100000, 50000, 200000, 260000, 400000, 300000};
    struct fixture x;
    struct tb_prefetcher p;
    start_prefetching(&x, &p, "f", BYTES);
    int fd = open_file(&x, "f");
    for (size_t i = 0; i < sizeof(at) / sizeof(at[0]); i++) {
        read_range(&x, fd, at[i], 4096, 11);
        prefetch_all(&x, &p);
    }
    assert_int_equal(x.engine->header->prefetched, 0);
    x.io->ops->close(x.io, fd);
    tb_prefetch_end(x.engine, &p);
    fixture_stop(&x);
}

/* Room is what is free and what has served: what is used again stays, and what was not read yet too. */
static void prefetching_evicts_nothing_hotter(void **state)
{
    (void)state;
    struct fixture x;
    struct tb_prefetcher p;
    fixture_init(&x, TB_MODE_PERSISTENT_SYNC);
    x.config.organizer.prefetch = BYTES;
    struct tb_config_tier nvme = x.config.tiers[1];
    nvme.capacity = BYTES;
    nvme.n_slabs = 0;
    fixture_slab(&nvme, 16, 1.0);
    x.config.tiers[0] = nvme;
    x.config.n_tiers = 1;
    x.config.fsync = TB_FSYNC_PFS;
    fixture_start(&x);
    tb_prefetch_start(&p);
    make_file(&x, "hot", BYTES / 2, 12);
    make_file(&x, "long", 4 * BYTES, 13);
    int hot = open_file(&x, "hot"), fd = x.io->ops->open(x.io, fixture_path(&x, "long"), O_RDONLY, 0);
    for (size_t at = 0; at < BYTES / 2; at += 65536)
        read_range(&x, hot, at, 65536, 12); /* staged in */
    uint32_t file = tb_open_of(x.engine, hot)->file;
    assert_int_equal(x.engine->region.files[file].n_buffers, 4);
    tb_reader_close(x.engine, (uint32_t)(tb_open_of(x.engine, hot) - x.engine->region.opens));
    for (size_t at = 0; at < 4 * BYTES; at += 32768) {
        read_range(&x, fd, at, 32768, 13);
        prefetch_all(&x, &p);
        assert_int_equal(x.engine->region.files[file].n_buffers, 4);
    }
    assert_true(x.engine->header->prefetched > 2 * BYTES);
    assert_int_equal(read_pass(&x, hot, BYTES / 2, 65536, 12), 0);
    x.io->ops->close(x.io, hot);
    x.io->ops->close(x.io, fd);
    tb_prefetch_end(x.engine, &p);
    fixture_stop(&x);
}

/* The file is cut, renamed and unlinked while it is being prefetched. */
static void what_changes_meanwhile_is_not_prefetched(void **state)
{
    (void)state;
    static unsigned char bytes[BYTES];
    struct fixture x;
    struct tb_prefetcher p;
    start_prefetching(&x, &p, "f", BYTES);
    x.engine->header->config.organizer.prefetch = BYTES;
    int fd = open_file(&x, "f");
    for (size_t at = 0; at < 3 * 4096; at += 4096)
        read_range(&x, fd, at, 4096, 11);
    memset(bytes, 7, 4096);
    assert_int_equal(x.io->ops->pwrite(x.io, fd, bytes, 4096, 100000), 4096);
    assert_int_equal(x.io->ops->ftruncate(x.io, fd, 200000), 0);
    char path[512];
    snprintf(path, sizeof(path), "%s", fixture_path(&x, "f"));
    assert_int_equal(x.io->ops->rename(x.io, path, fixture_path(&x, "g"), 0), 0);
    make_file(&x, "f", BYTES, 14); /* a stranger with the name */
    prefetch_all(&x, &p);
    assert_int_equal(x.engine->header->prefetched, 200000 - 3 * 4096 - 8192); /* but for the two pages of the write */
    assert_int_equal(x.io->ops->pread(x.io, fd, bytes, BYTES, 0), 200000);
    for (size_t i = 0; i < 200000; i++)
        assert_int_equal(bytes[i], i >= 100000 && i < 104096 ? 7 : pattern(i, 11));
    for (size_t at = 0; at < 3 * 4096; at += 4096)
        x.io->ops->pread(x.io, fd, bytes, 4096, (off_t)at);
    assert_int_equal(x.io->ops->unlink(x.io, fixture_path(&x, "g"), 0), 0);
    prefetch_all(&x, &p);
    x.io->ops->close(x.io, fd);
    prefetch_all(&x, &p);
    struct tb_stats stats;
    tb_engine_stats(x.engine, &stats);
    assert_int_equal(stats.tier[0].used + stats.tier[1].used + stats.tier[2].used, 0);
    tb_prefetch_end(x.engine, &p);
    fixture_stop(&x);
}

static void hint_prefix(struct fixture *x, const char *name, enum tb_hint hint)
{
    struct tb_config_hint *h = &x->config.hints[x->config.n_hints++];
    snprintf(h->prefix, sizeof(h->prefix), "%.500s%s%s", x->pfs, *name ? "/" : "", name);
    h->hint = hint;
}

static void hints_by_configuration(void **state)
{
    (void)state;
    struct fixture x;
    struct tb_prefetcher p;
    fixture_init(&x, TB_MODE_PERSISTENT_ASYNC);
    x.config.organizer.prefetch = 128u << 10;
    hint_prefix(&x, "", TB_HINT_RANDOM);
    hint_prefix(&x, "keep", TB_HINT_KEEP);
    hint_prefix(&x, "once", TB_HINT_ONCE);
    hint_prefix(&x, "sequential", TB_HINT_SEQUENTIAL);
    fixture_start(&x);
    tb_prefetch_start(&p);
    static const char *const names[] = {"keep", "once", "sequential", "other"};
    int fd[4];
    for (int i = 0; i < 4; i++) {
        make_file(&x, names[i], BYTES, 15);
        fd[i] = open_file(&x, names[i]);
    }
    assert_int_equal(read_pass(&x, fd[0], BYTES, 65536, 15), BYTES); /* keep: from the second pass on */
    assert_int_equal(read_pass(&x, fd[0], BYTES, 65536, 15), 0);
    for (int pass = 0; pass < 3; pass++)
        assert_int_equal(read_pass(&x, fd[1], BYTES, 65536, 15), BYTES); /* once: never */
    for (size_t at = 0; at < 20 * 4096; at += 4096)
        read_range(&x, fd[3], at, 4096, 15); /* random: no pattern counts */
    tb_reader_close(x.engine, (uint32_t)(tb_open_of(x.engine, fd[0]) - x.engine->region.opens));
    tb_reader_close(x.engine, (uint32_t)(tb_open_of(x.engine, fd[1]) - x.engine->region.opens));
    prefetch_all(&x, &p);
    assert_int_equal(x.engine->header->prefetched, 0);
    read_range(&x, fd[2], 0, 4096, 15); /* sequential: at the first read */
    prefetch_all(&x, &p);
    assert_int_equal(x.engine->header->prefetched, 128 << 10);
    for (int i = 0; i < 4; i++)
        x.io->ops->close(x.io, fd[i]);
    tb_prefetch_end(x.engine, &p);
    fixture_stop(&x);
}

static void hints_by_api(void **state)
{
    (void)state;
    struct fixture x;
    struct tb_prefetcher p;
    start_prefetching(&x, &p, "f", BYTES);
    int fd = open_file(&x, "f");
    uint32_t file = tb_open_of(x.engine, fd)->file;
    assert_int_equal(tb_engine_advise(x.engine, fd, 0, 0, (enum tb_hint)17), -EINVAL);
    assert_int_equal(tb_engine_advise(x.engine, 0, 0, 0, TB_HINT_KEEP), -EBADF);
    assert_int_equal(tb_engine_advise(x.engine, fd, 65536, 3 * 65536, TB_HINT_WILL_NEED), 0);
    prefetch_all(&x, &p);
    assert_int_equal(x.engine->header->prefetched, 3 * 65536);
    struct tb_buffer *b = tb_map_find(x.engine, file, 1, 2);
    assert_non_null(b);
    assert_int_equal(tb_engine_advise(x.engine, fd, 65536, 2 * 65536, TB_HINT_KEEP), 0);
    assert_int_equal(tb_heat_of(x.engine, b), TB_HEAT_KEEP);
    assert_true(tb_heat_of(x.engine, tb_map_find(x.engine, file, 1, 3)) < TB_HEAT_KEEP);
    assert_int_equal(tb_engine_advise(x.engine, fd, 0, 0, TB_HINT_NORMAL), 0);
    assert_true(tb_heat_of(x.engine, b) < TB_HEAT_KEEP);
    read_range(&x, fd, 2 * 65536, 65536, 11);
    read_range(&x, fd, 2 * 65536, 65536, 11);
    assert_true(tb_heat_of(x.engine, b) > 0);
    assert_int_equal(tb_engine_advise(x.engine, fd, 0, 0, TB_HINT_ONCE), 0);
    assert_int_equal(tb_heat_of(x.engine, b), 0);
    read_range(&x, fd, 3 * 65536, 65536, 11);
    assert_int_equal(tb_heat_of(x.engine, tb_map_find(x.engine, file, 1, 3)), 0); /* the next to go */
    x.io->ops->close(x.io, fd);
    tb_prefetch_end(x.engine, &p);
    fixture_stop(&x);
}

static void write_schedule(struct fixture *x, const char *text)
{
    snprintf(x->config.organizer.schedule, sizeof(x->config.organizer.schedule), "%s/schedule", x->root);
    FILE *out = fopen(x->config.organizer.schedule, "w");
    fputs(text, out);
    fclose(out);
}

/* The daemon keeps ahead of the reader as far as room allows, in the order that is declared. */
static void a_schedule_is_followed(void **state)
{
    (void)state;
    struct fixture x;
    struct tb_schedule s;
    struct tb_error err;
    fixture_init(&x, TB_MODE_PERSISTENT_ASYNC);
    x.config.n_tiers = 1;
    x.config.fsync = TB_FSYNC_PFS;
    write_schedule(&x, "# order of use\nb 100000 1500000\n\nmissing 0 10\na b 0 3000000\nb 2000000 4096\n");
    fixture_start(&x);
    make_file(&x, "a b", 3000000, 16);
    make_file(&x, "b", 3000000, 17);
    assert_int_equal(tb_schedule_read(&x.config, &s, &err), 0);
    assert_int_equal(s.n, 4);
    while (tb_schedule_step(x.engine, &s))
        ;
    int a = open_file(&x, "a b"), b = open_file(&x, "b");
    uint64_t before = x.engine->header->pfs_read;
    assert_true(before > 1600000 && before < 4500000); /* no room for more */
    read_range(&x, b, 100000, 1000000, 17);
    read_range(&x, b, 1100000, 500000, 17);
    assert_int_equal(x.engine->header->pfs_read, before);
    for (size_t at = 0; at < 3000000; at += 100000) {
        while (tb_schedule_step(x.engine, &s))
            ;
        uint64_t passed = x.engine->header->pfs_read;
        read_range(&x, a, at, 100000, 16);
        assert_int_equal(x.engine->header->pfs_read, passed);
    }
    while (tb_schedule_step(x.engine, &s))
        ;
    assert_int_equal(s.at, s.n);
    tb_schedule_end(x.engine, &s);
    tb_schedule_free(&s);
    assert_true(tb_region_is_valid(x.engine));
    x.io->ops->close(x.io, a);
    x.io->ops->close(x.io, b);
    fixture_stop(&x);
}

static void a_bad_schedule_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text, *says[3];
    } bad[] = {
        {"a 0 1\nb 5\n", {"schedule:2", "b", "PATH OFFSET LENGTH"}},
        {"a 0 x\n", {"schedule:1", "x", "no length"}},
        {"a -1 5\n", {"schedule:1", "-1", "no offset"}},
        {"a 0 0\n", {"schedule:1", "0", "at least 1"}},
        {"\n/elsewhere 0 1\n", {"schedule:2", "/elsewhere", "prefix"}},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct fixture x;
        struct tb_schedule s;
        struct tb_error err;
        fixture_init(&x, TB_MODE_PERSISTENT_ASYNC);
        write_schedule(&x, bad[i].text);
        assert_int_equal(tb_schedule_read(&x.config, &s, &err), -EINVAL);
        for (int k = 0; k < 3; k++)
            if (!strstr(err.text, bad[i].says[k]))
                fail_msg("case %zu: %s: does not say %s", i, err.text, bad[i].says[k]);
        fixture_stop(&x);
    }
}

/* A PFS whose bytes take a while to arrive. */
static ssize_t dawdling_pread(struct tb_io *io, int fd, void *buf, size_t n, off_t offset)
{
    ssize_t r = io->next->ops->pread(io->next, fd, buf, n, offset);
    usleep(200);
    return r;
}

static struct tb_io *dawdling(void)
{
    static const struct tb_io_ops own = {.name = "dawdling", .pread = dawdling_pread};
    static struct tb_io_ops table;
    static struct tb_io io;
    tb_io_layer_init(&io, &table, &own, tb_io_libc());
    return &io;
}

/* Readers that stage in while the file is cut and grows: what lies behind a cut reads as zeros or as what was written since. */
struct cutter {
    struct fixture *x;
    _Atomic bool stop;
    _Atomic uint64_t reads;
};

static void *read_while_cut(void *arg)
{
    struct cutter *c = arg;
    static _Thread_local unsigned char bytes[65536];
    int fd = open_file(c->x, "f");
    for (uint32_t i = 0; !c->stop; i++) {
        uint64_t at = (uint64_t)(i * 7 % 16) * 32768;
        ssize_t n = c->x->io->ops->pread(c->x->io, fd, bytes, sizeof(bytes), (off_t)at);
        assert_true(n >= 0);
        c->reads++;
    }
    c->x->io->ops->close(c->x->io, fd);
    return NULL;
}

static void a_cut_voids_what_was_read_before(void **state)
{
    (void)state;
    static unsigned char zeros[BYTES], bytes[BYTES];
    struct fixture x;
    fixture_init(&x, TB_MODE_PERSISTENT_SYNC); /* stages in at the first read */
    x.base = dawdling();
    fixture_start(&x);
    make_file(&x, "f", BYTES, 9);
    struct cutter c = {.x = &x};
    pthread_t readers[2];
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&readers[i], NULL, read_while_cut, &c), 0);
    int fd = open_file(&x, "f"), plain = open(fixture_path(&x, "f"), O_RDWR);
    for (int round = 0; round < 200; round++) {
        for (size_t i = 0; i < BYTES; i += 4096)
            memset(bytes + i, 1 + round % 250, 4096);
        assert_int_equal(pwrite(plain, bytes, BYTES, 0), BYTES); /* bytes that only the PFS has, at once stale */
        uint64_t reads = c.reads;
        while (c.reads < reads + 3)
            sched_yield();
        assert_int_equal(x.io->ops->ftruncate(x.io, fd, 5000), 0);
        assert_int_equal(x.io->ops->ftruncate(x.io, fd, BYTES), 0);
        assert_int_equal(x.io->ops->pread(x.io, fd, bytes, BYTES - 5000, 5000), BYTES - 5000);
        assert_memory_equal(bytes, zeros, BYTES - 5000);
    }
    c.stop = true;
    for (int i = 0; i < 2; i++)
        pthread_join(readers[i], NULL);
    assert_true(tb_region_is_valid(x.engine));
    close(plain);
    x.io->ops->close(x.io, fd);
    fixture_stop(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_second_miss_stages_in),       cmocka_unit_test(write_through_stages_in_at_once),
        cmocka_unit_test(disabled_stages_nothing),         cmocka_unit_test(what_changed_outside_is_read_anew),
        cmocka_unit_test(nothing_hotter_goes),             cmocka_unit_test(a_write_takes_the_coldest),
        cmocka_unit_test(what_is_read_again_goes_up),      cmocka_unit_test(cold_bytes_go_down_while_programs_compute),
        cmocka_unit_test(sequential_readers_find_it_there),
        cmocka_unit_test(strided_readers_find_it_there),   cmocka_unit_test(readers_without_a_pattern_are_left_alone),
        cmocka_unit_test(prefetching_evicts_nothing_hotter), cmocka_unit_test(what_changes_meanwhile_is_not_prefetched),
        cmocka_unit_test(hints_by_configuration),          cmocka_unit_test(hints_by_api),
        cmocka_unit_test(a_schedule_is_followed),          cmocka_unit_test(a_bad_schedule_is_refused),
        cmocka_unit_test(traffic_cools),                   cmocka_unit_test(a_cut_voids_what_was_read_before),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
