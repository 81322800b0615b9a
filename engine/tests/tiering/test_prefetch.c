/*
 * Prefetch: what a reader's pattern, a hint or a schedule promises is there before
 * it is asked for; nothing hotter goes for it, and nothing stale comes.
 */
#include "reads.h"

#include <errno.h>

#include "buffer/heat.h"
#include "instance/invariants.h"
#include "buffer/map.h"
#include "instance/schedule.h"
#include "layer/descriptions.h"
#include "tiering/prefetch.h"
#include "tiering/stream.h"

static void prefetch_all(struct fixture *x, struct tb_prefetcher *p)
{
    while (tb_prefetch_step(x->engine, p))
        ;
}

static void start_with_window(struct fixture *x, struct tb_prefetcher *p, uint32_t window, size_t n)
{
    fixture_init(x, TB_MODE_PERSISTENT_ASYNC);
    x->config.organizer.prefetch = window;
    fixture_start(x);
    tb_prefetch_start(p);
    make_file(x, "f", n, 11);
}

static void start_prefetching(struct fixture *x, struct tb_prefetcher *p, size_t n)
{
    start_with_window(x, p, 128u << 10, n);
}

/* After three reads in a pattern what follows is there before it is asked for. */
static void sequential_readers_find_it_there(void **state)
{
    (void)state;
    struct fixture x;
    struct tb_prefetcher p;
    start_prefetching(&x, &p, BYTES - 10);
    int fd = open_file(&x, "f");
    for (size_t at = 0; at < 3 * 4096; at += 4096) {
        assert_int_equal(x.engine->header->totals.prefetched, 0);
        prefetch_all(&x, &p);
        read_range(&x, fd, at, 4096, 11);
    }
    prefetch_all(&x, &p);
    assert_int_equal(x.engine->header->totals.prefetched, 128 << 10); /* as far ahead as it is told */
    for (size_t at = 3 * 4096; at < BYTES - 10; at += 4096) {
        uint64_t before = x.engine->header->totals.pfs_read;
        read_range(&x, fd, at, BYTES - 10 - at < 4096 ? BYTES - 10 - at : 4096, 11);
        assert_int_equal(x.engine->header->totals.pfs_read, before); /* a hit */
        prefetch_all(&x, &p);
    }
    assert_int_equal(x.engine->header->totals.prefetched, BYTES - 10 - 3 * 4096);
    assert_true(tb_region_is_valid(x.engine));
    TB_IO(x.io, close, fd);
    tb_prefetch_end(x.engine, &p);
    fixture_stop(&x);
}

/* A daemon that was killed in the middle of a piece: its reader goes on alone, and the entry serves again. */
static void a_killed_daemon_is_not_waited_for(void **state)
{
    (void)state;
    struct fixture x;
    struct tb_prefetcher p;
    start_prefetching(&x, &p, BYTES);
    int fd = open_file(&x, "f");
    for (size_t at = 0; at < 3 * 4096; at += 4096)
        read_range(&x, fd, at, 4096, 11);
    struct tb_stream *s = &x.engine->header->streams.entry[0];
    assert_int_equal(s->state, TB_STREAM_OPEN);
    s->busy_from = 3 * 4096;
    s->busy_to = BYTES;
    s->busy = s->busy | 1;
    for (size_t at = 3 * 4096; at < 20 * 4096; at += 4096) /* waits once */
        read_range(&x, fd, at, 4096, 11);
    assert_int_equal(s->state, TB_STREAM_OPEN); /* of the next misses */
    assert_int_equal(s->busy & 1, 0);
    prefetch_all(&x, &p);
    assert_int_equal(x.engine->header->totals.prefetched, 128 << 10);
    TB_IO(x.io, close, fd);
    tb_prefetch_end(x.engine, &p);
    fixture_stop(&x);
}

static void strided_readers_find_it_there(void **state)
{
    (void)state;
    struct fixture x;
    struct tb_prefetcher p;
    start_prefetching(&x, &p, BYTES);
    int fd = open_file(&x, "f");
    for (size_t i = 0; i < 3; i++)
        read_range(&x, fd, 1000 + i * 20000, 3000, 11);
    prefetch_all(&x, &p);
    assert_true(x.engine->header->totals.prefetched >= 20 * 3000 && x.engine->header->totals.prefetched < BYTES / 4);
    for (size_t i = 3; 1000 + i * 20000 + 3000 <= BYTES; i++) {
        uint64_t before = x.engine->header->totals.pfs_read;
        read_range(&x, fd, 1000 + i * 20000, 3000, 11);
        assert_int_equal(x.engine->header->totals.pfs_read, before);
        prefetch_all(&x, &p);
    }
    TB_IO(x.io, close, fd);
    tb_prefetch_end(x.engine, &p);
    fixture_stop(&x);
}

static void readers_without_a_pattern_are_left_alone(void **state)
{
    (void)state;
    static const size_t at[] = {0, 8192, 100000, 50000, 200000, 260000, 400000, 300000};
    struct fixture x;
    struct tb_prefetcher p;
    start_prefetching(&x, &p, BYTES);
    int fd = open_file(&x, "f");
    for (size_t i = 0; i < sizeof(at) / sizeof(at[0]); i++) {
        read_range(&x, fd, at[i], 4096, 11);
        prefetch_all(&x, &p);
    }
    assert_int_equal(x.engine->header->totals.prefetched, 0);
    TB_IO(x.io, close, fd);
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
    int hot = open_file(&x, "hot"), fd = TB_IO(x.io, open, fixture_path(&x, "long"), O_RDONLY, 0);
    for (size_t at = 0; at < BYTES / 2; at += 65536)
        read_range(&x, hot, at, 65536, 12); /* staged in */
    const struct tb_open *description = tb_open_of(x.engine, hot);
    assert_non_null(description);
    uint32_t file = description->file;
    assert_int_equal(x.engine->region.files[file].n_buffers, 4);
    tb_reader_close(x.engine, (uint32_t)(description - x.engine->region.opens));
    for (size_t at = 0; at < 4 * BYTES; at += 32768) {
        read_range(&x, fd, at, 32768, 13);
        prefetch_all(&x, &p);
        assert_int_equal(x.engine->region.files[file].n_buffers, 4);
    }
    assert_true(x.engine->header->totals.prefetched > 2 * BYTES);
    assert_int_equal(read_pass(&x, hot, BYTES / 2, 65536, 12), 0);
    TB_IO(x.io, close, hot);
    TB_IO(x.io, close, fd);
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
    start_with_window(&x, &p, BYTES, BYTES);
    int fd = open_file(&x, "f");
    for (size_t at = 0; at < 3 * 4096; at += 4096)
        read_range(&x, fd, at, 4096, 11);
    memset(bytes, 7, 4096);
    assert_int_equal(TB_IO(x.io, pwrite, fd, bytes, 4096, 100000), 4096);
    assert_int_equal(TB_IO(x.io, ftruncate, fd, 200000), 0);
    char path[512];
    snprintf(path, sizeof(path), "%s", fixture_path(&x, "f"));
    assert_int_equal(TB_IO(x.io, rename, path, fixture_path(&x, "g"), 0), 0);
    make_file(&x, "f", BYTES, 14); /* a stranger with the name */
    prefetch_all(&x, &p);
    assert_int_equal(x.engine->header->totals.prefetched, 200000 - 3 * 4096 - 8192); /* except for the two pages of the write */
    assert_int_equal(TB_IO(x.io, pread, fd, bytes, BYTES, 0), 200000);
    for (size_t i = 0; i < 200000; i++)
        assert_int_equal(bytes[i], i >= 100000 && i < 104096 ? 7 : pattern(i, 11));
    for (size_t at = 0; at < 3 * 4096; at += 4096)
        TB_IO(x.io, pread, fd, bytes, 4096, (off_t)at);
    assert_int_equal(TB_IO(x.io, unlink, fixture_path(&x, "g"), 0), 0);
    prefetch_all(&x, &p);
    TB_IO(x.io, close, fd);
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
    assert_int_equal(x.engine->header->totals.prefetched, 0);
    read_range(&x, fd[2], 0, 4096, 15); /* sequential: at the first read */
    prefetch_all(&x, &p);
    assert_int_equal(x.engine->header->totals.prefetched, 128 << 10);
    for (int i = 0; i < 4; i++)
        TB_IO(x.io, close, fd[i]);
    tb_prefetch_end(x.engine, &p);
    fixture_stop(&x);
}

static void hints_by_api(void **state)
{
    (void)state;
    struct fixture x;
    struct tb_prefetcher p;
    start_prefetching(&x, &p, BYTES);
    int fd = open_file(&x, "f");
    uint32_t file = tb_open_of(x.engine, fd)->file;
    assert_int_equal(tb_engine_advise(x.engine, fd, 0, 0, (enum tb_hint)17), -EINVAL);
    assert_int_equal(tb_engine_advise(x.engine, 0, 0, 0, TB_HINT_KEEP), -EBADF);
    assert_int_equal(tb_engine_advise(x.engine, fd, 65536, 3 * 65536, TB_HINT_WILL_NEED), 0);
    prefetch_all(&x, &p);
    assert_int_equal(x.engine->header->totals.prefetched, 3 * 65536);
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
    TB_IO(x.io, close, fd);
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
    uint64_t before = x.engine->header->totals.pfs_read;
    assert_true(before > 1600000 && before < 4500000); /* no room for more */
    read_range(&x, b, 100000, 1000000, 17);
    read_range(&x, b, 1100000, 500000, 17);
    assert_int_equal(x.engine->header->totals.pfs_read, before);
    for (size_t at = 0; at < 3000000; at += 100000) {
        while (tb_schedule_step(x.engine, &s))
            ;
        uint64_t passed = x.engine->header->totals.pfs_read;
        read_range(&x, a, at, 100000, 16);
        assert_int_equal(x.engine->header->totals.pfs_read, passed);
    }
    while (tb_schedule_step(x.engine, &s))
        ;
    assert_int_equal(s.at, s.n);
    tb_schedule_end(x.engine, &s);
    tb_schedule_free(&s);
    assert_true(tb_region_is_valid(x.engine));
    TB_IO(x.io, close, a);
    TB_IO(x.io, close, b);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sequential_readers_find_it_there),
        cmocka_unit_test(strided_readers_find_it_there),
        cmocka_unit_test(readers_without_a_pattern_are_left_alone),
        cmocka_unit_test(prefetching_evicts_nothing_hotter),
        cmocka_unit_test(what_changes_meanwhile_is_not_prefetched),
        cmocka_unit_test(hints_by_configuration),
        cmocka_unit_test(hints_by_api),
        cmocka_unit_test(a_schedule_is_followed),
        cmocka_unit_test(a_bad_schedule_is_refused),
        cmocka_unit_test(a_killed_daemon_is_not_waited_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
