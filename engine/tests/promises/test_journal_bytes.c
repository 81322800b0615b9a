/*
 * Records that have their bytes in the journal: an fsync of a few bytes needs no slab, what it promised
 * outlives the region, and neither damage nor order lets older bytes come back.
 */
#include "fixture.h"

#include <errno.h>

#include "base/report.h"
#include "buffer/slab.h"
#include "instance/invariants.h"
#include "flush/flush.h"
#include "flush/program.h"
#include "journal/journal.h"
#include "journal/read.h"
#include "layer/descriptions.h"
#include "recovery/recover.h"
#include "region/counters.h"
#include "region/directories.h"

#define BYTES 300000u
#define SLOT TB_JOURNAL_SLOT

struct scene {
    struct fixture x;
    char directory[400]; /* of the journal's tier */
    int fd;              /* of the file, through the engine */
    int named;
};

/* What the file must hold after a crash: as it was at the last fsync. */
static unsigned char now[BYTES], kept[BYTES], found[BYTES];

static const char *own_file(const struct scene *s, const char *name)
{
    static char path[600];
    snprintf(path, sizeof(path), "%s/%s", s->directory, name);
    return path;
}

static void find_directory(struct scene *s)
{
    char host[64] = "";
    gethostname(host, sizeof(host) - 1);
    tb_tier_directory(&s->x.config.tiers[tb_journal_tier(&s->x.config)], host, s->x.name, s->directory, sizeof(s->directory));
}

/* `no_slab`: every sync of a slab fails. */
static void start(struct scene *s, bool no_slab)
{
    char fault[600];
    memset(s, 0, sizeof(*s));
    memset(now, 0, BYTES);
    memset(kept, 0, BYTES);
    fixture_init(&s->x, TB_MODE_PERSISTENT_ASYNC);
    find_directory(s);
    snprintf(fault, sizeof(fault), "op=fsync,errno=EIO,path=%.500s/slab-2", s->directory);
    if (no_slab)
        setenv("TB_FAULT", fault, 1);
    fixture_start(&s->x);
    unsetenv("TB_FAULT");
    s->fd = TB_IO(s->x.io, open, fixture_path(&s->x, "f"), O_RDWR | O_CREAT, 0600);
    assert_true(s->fd >= 0);
    assert_int_equal(TB_IO(s->x.io, fsync, s->fd, false), 0); /* its name */
}

static void put(struct scene *s, uint32_t offset, uint32_t n, unsigned seed)
{
    assert_true(offset + n <= BYTES);
    for (uint32_t i = 0; i < n; i++)
        now[offset + i] = (unsigned char)(1 + (i * 7 + seed * 31 + (i >> 8)) % 255);
    assert_int_equal(TB_IO(s->x.io, pwrite, s->fd, now + offset, n, offset), n);
}

static void keep(struct scene *s)
{
    assert_int_equal(TB_IO(s->x.io, fsync, s->fd, false), 0);
    assert_true(tb_region_is_valid(s->x.engine));
    memcpy(kept, now, BYTES);
}

static uint64_t used_of_directories(const struct scene *s)
{
    return tb_tier_used(s->x.engine, 1) + tb_tier_used(s->x.engine, 2);
}

static void note(void *arg, const struct tb_file_report *r)
{
    ((struct scene *)arg)->named += r->error == -EBADMSG;
}

static int recover(struct scene *s)
{
    struct tb_error err = {""};
    s->named = 0;
    return tb_instance_recover(&s->x.config, tb_io_libc(), NULL, note, s, &err);
}

static void read_pfs(struct scene *s)
{
    int fd = open(fixture_path(&s->x, "f"), O_RDONLY);
    memset(found, 0, BYTES);
    assert_true(fd >= 0 && pread(fd, found, BYTES, 0) >= 0);
    close(fd);
}

static void expect_kept(struct scene *s)
{
    read_pfs(s);
    for (uint32_t i = 0; i < BYTES; i++)
        if (found[i] != kept[i])
            fail_msg("byte %u is %u, not %u", i, found[i], kept[i]);
}

static void crash(struct scene *s)
{
    TB_IO(s->x.io, close, s->fd);
    fixture_lose_region(&s->x);
}

/* Recovery gives back what was kept. */
static void end_after_a_crash(struct scene *s)
{
    crash(s);
    assert_int_equal(recover(s), 1);
    expect_kept(s);
    fixture_stop(&s->x);
}

static void few_bytes_need_no_slab(void **state)
{
    (void)state;
    struct scene s;
    start(&s, true);
    uint64_t before = s.x.engine->header->totals.pfs_written;
    put(&s, 100, 5, 1);
    keep(&s);
    put(&s, 4000, 5000, 2); /* over two small buffers */
    keep(&s);
    put(&s, 102, 1, 3); /* and bytes that are promised already */
    keep(&s);
    assert_int_equal(s.x.engine->header->totals.pfs_written, before);
    assert_int_equal(used_of_directories(&s), 0);
    put(&s, 0, 4000, 4); /* not promised */
    end_after_a_crash(&s);
}

/* Several dirty intervals in a buffer of 64 KiB: a record for each. */
static void a_fragmented_buffer_needs_no_slab(void **state)
{
    (void)state;
    struct scene s;
    start(&s, true);
    put(&s, 65536, 65536, 1);
    assert_int_equal(tb_flush_file(s.x.engine, tb_open_of(s.x.engine, s.fd)->file, -1, true).error, 0);
    for (uint32_t i = 0; i < 5; i++)
        put(&s, 65536 + 100 + i * 12000, 700, 2 + i);
    keep(&s);
    assert_int_equal(used_of_directories(&s), 0);
    end_after_a_crash(&s);
}

/* What is too much for the journal goes to a tier, as without. */
static void many_bytes_go_to_slabs(void **state)
{
    (void)state;
    for (int way = 0; way < 3; way++) {
        struct scene s;
        start(&s, false);
        if (way == 0)
            put(&s, 65536, 65536, 1); /* of one buffer, */
        for (uint32_t i = 0; i < 17 && way == 1; i++)
            put(&s, i * 8192, 10, i); /* of many, */
        if (way == 2)
            s.x.engine->header->journal.bytes_up_to = s.x.engine->header->journal.end; /* or its room is used up */
        put(&s, 200000, 10, 2);
        keep(&s);
        assert_true(used_of_directories(&s) > 0);
        end_after_a_crash(&s);
    }
}

/* Of a large buffer that has records already: where it is then, and that the slab is not written again. */
static void few_new_bytes_of_many_need_no_slab(void **state)
{
    (void)state;
    struct scene s;
    start(&s, false);
    put(&s, 65536, 65536, 1);
    keep(&s);
    uint64_t used = used_of_directories(&s), moved = s.x.engine->header->tier[0].moved_to[1];
    assert_true(used > 0);
    for (uint32_t i = 0; i < 20; i++) {
        put(&s, 65536 + 1000 + i * 3000, 200, 2 + i);
        put(&s, 65536 + 1100 + i * 3000, 5000, 3 + i);
        keep(&s);
        assert_int_equal(tb_tier_dirty(s.x.engine->header, 0), 65536);
        assert_int_equal(s.x.engine->header->tier[0].moved_to[1], moved);
        assert_int_equal(used_of_directories(&s), used);
    }
    uint64_t end = s.x.engine->header->journal.end;
    keep(&s); /* there is nothing new */
    assert_int_equal(s.x.engine->header->journal.end, end);
    put(&s, 65536 + 10, 5000, 4); /* not promised */
    end_after_a_crash(&s);
}

static void many_new_bytes_go_to_a_slab_again(void **state)
{
    (void)state;
    struct scene s;
    start(&s, false);
    put(&s, 65536, 65536, 1);
    keep(&s);
    put(&s, 65536, 10, 2);
    put(&s, 65536 + 60000, 10, 3);
    keep(&s);
    assert_int_equal(tb_tier_dirty(s.x.engine->header, 0), 0);
    end_after_a_crash(&s);
}

/* Each byte of a record, its path and its bytes is another, in turn. */
static void every_flipped_byte_is_named(void **state)
{
    (void)state;
    struct scene s;
    struct tb_record r;
    start(&s, false);
    put(&s, 1000, 700, 1);
    keep(&s);
    crash(&s);
    int journal = open(own_file(&s, TB_JOURNAL_FILE), O_RDWR);
    assert_int_equal(pread(journal, &r, sizeof(r), SLOT), sizeof(r));
    assert_int_equal(r.type, TB_RECORD_BYTES);
    for (uint64_t at = SLOT; at < SLOT + sizeof(r) + tb_record_tail(&r); at++) {
        unsigned char right, wrong;
        assert_int_equal(pread(journal, &right, 1, (off_t)at), 1);
        wrong = right ^ (unsigned char)(1u << at % 8);
        assert_int_equal(pwrite(journal, &wrong, 1, (off_t)at), 1);
        int rc = recover(&s);
        if (rc != -EBADMSG || s.named != 1)
            fail_msg("byte %llu of the journal flipped: recovery says %d, %d named", (unsigned long long)at, rc, s.named);
        assert_int_equal(pwrite(journal, &right, 1, (off_t)at), 1);
        read_pfs(&s);
        for (uint32_t i = 0; i < BYTES; i++)
            assert_int_equal(found[i], 0);
    }
    close(journal);
    assert_int_equal(recover(&s), 1);
    expect_kept(&s);
    fixture_stop(&s.x);
}

/* Values that no checksum finds and the engine never writes. */
static void senseless_records_are_named(void **state)
{
    (void)state;
    for (int way = 0; way < 3; way++) {
        struct scene s;
        static _Alignas(8) char bytes[64 * SLOT];
        struct tb_record *r = (struct tb_record *)(void *)bytes;
        start(&s, false);
        put(&s, 1000, 700, 1);
        keep(&s);
        crash(&s);
        int journal = open(own_file(&s, TB_JOURNAL_FILE), O_RDWR);
        assert_true(pread(journal, bytes, sizeof(bytes), SLOT) > 0);
        r->length = way == 0 ? 0 : way == 1 ? UINT64_MAX - 10 : (uint64_t)r->slots * SLOT; /* none, too many, past its end */
        r->checksum = tb_record_checksum(r);
        assert_int_equal(pwrite(journal, bytes, SLOT, SLOT), SLOT);
        close(journal);
        assert_int_equal(recover(&s), -EBADMSG);
        assert_int_equal(s.named, 1);
        fixture_stop(&s.x);
    }
}

/* A crash tears a record that no sync covered. The older one of the same bytes counts, and nothing is named. */
static void a_torn_record_takes_nothing(void **state)
{
    (void)state;
    for (off_t torn = 0; torn < 6; torn++) {
        struct scene s;
        struct tb_journal_mark mark;
        const char zeros[SLOT] = {0};
        start(&s, false);
        put(&s, 1000, 2500, 1);
        keep(&s);
        int fd = open(own_file(&s, TB_JOURNAL_MARK_FILE), O_RDWR);
        assert_int_equal(pread(fd, &mark, sizeof(mark), 0), sizeof(mark));
        put(&s, 1000, 2500, 2);
        assert_int_equal(TB_IO(s.x.io, fsync, s.fd, false), 0);
        crash(&s);
        assert_int_equal(pwrite(fd, &mark, sizeof(mark), 0), sizeof(mark));
        close(fd);
        int journal = open(own_file(&s, TB_JOURNAL_FILE), O_RDWR);
        assert_int_equal(pwrite(journal, zeros, SLOT, (off_t)mark.synced + torn * SLOT), SLOT);
        close(journal);
        assert_int_equal(recover(&s), 1);
        assert_int_equal(s.named, 0);
        expect_kept(&s);
        fixture_stop(&s.x);
    }
}

/* The middle and the end of a record, where its beginning and a part in between are void. */
static void parts_of_a_record_are_left(void **state)
{
    (void)state;
    struct scene s;
    start(&s, false);
    put(&s, 1000, 2500, 1);
    keep(&s);
    uint32_t file = tb_open_of(s.x.engine, s.fd)->file;
    assert_int_equal(tb_journal_drop(s.x.engine, file, 900, 600, 0), 0);
    assert_int_equal(tb_journal_drop(s.x.engine, file, 2000, 100, 0), 0);
    memset(kept + 1000, 0, 500);
    memset(kept + 2000, 0, 100);
    assert_int_equal(tb_journal_sync(s.x.engine), 0);
    end_after_a_crash(&s);
}

/* A flush makes the record void: not even what another program wrote on the PFS since is overwritten by it. */
static void flushed_bytes_stay(void **state)
{
    (void)state;
    struct scene s;
    start(&s, false);
    put(&s, 1000, 2500, 1);
    keep(&s);
    put(&s, 1500, 100, 2);
    assert_int_equal(tb_flush_file(s.x.engine, tb_open_of(s.x.engine, s.fd)->file, -1, true).error, 0);
    assert_int_equal(s.x.engine->header->journal.n_journaled, 0);
    memcpy(kept, now, BYTES);
    crash(&s);
    int fd = open(fixture_path(&s.x, "f"), O_WRONLY);
    assert_int_equal(pwrite(fd, "other", 5, 1400), 5);
    close(fd);
    memcpy(kept + 1400, "other", 5);
    assert_true(recover(&s) >= 0);
    expect_kept(&s);
    fixture_stop(&s.x);
}

static unsigned random_of(unsigned *state)
{
    *state = *state * 1103515245u + 12345u;
    return *state >> 16 & 0x7fff;
}

/* Records of both kinds, flushes, cuts and writes that were not promised, in any order: the last fsync counts. */
static void both_kinds_in_any_order(void **state)
{
    (void)state;
    for (unsigned seed = 1; seed <= 30; seed++) {
        struct scene s;
        unsigned random = seed;
        start(&s, false);
        uint64_t up_to = s.x.engine->header->journal.bytes_up_to;
        if (seed % 2)
            put(&s, 0, 4 * 65536, seed); /* large buffers, of which then a few bytes change */
        for (int i = 0; i < 60; i++) {
            uint32_t n = 1 + random_of(&random) % (random_of(&random) % 8 ? 6000 : 30000);
            s.x.engine->header->journal.bytes_up_to = random_of(&random) % 3 ? up_to : 0;
            put(&s, random_of(&random) * 8u % (BYTES - n), n, random_of(&random));
            if (random_of(&random) % 3 == 0)
                keep(&s);
            if (random_of(&random) % 12 == 0) {
                assert_int_equal(tb_flush_file(s.x.engine, tb_open_of(s.x.engine, s.fd)->file, -1, true).error, 0);
                memcpy(kept, now, BYTES);
            }
            if (random_of(&random) % 12 == 0) {
                uint32_t length = random_of(&random) * 8u;
                assert_int_equal(TB_IO(s.x.io, ftruncate, s.fd, length), 0);
                memset(now + length, 0, BYTES - length);
                keep(&s);
            }
        }
        crash(&s);
        int rc = recover(&s);
        if (rc < 0)
            fail_msg("seed %u: recovery says %d", seed, rc);
        expect_kept(&s);
        fixture_stop(&s.x);
    }
}

/* Thousands of fsyncs: the journal stays below its limit, and is empty again when everything is flushed. */
static void the_journal_stays_bounded(void **state)
{
    (void)state;
    struct scene s;
    start(&s, false);
    const struct tb_journal *j = &s.x.engine->header->journal;
    bool in_slabs = false;
    for (unsigned i = 0; i < 3000; i++) {
        put(&s, i % 40 * 5000, 1000, i);
        assert_int_equal(TB_IO(s.x.io, fsync, s.fd, false), 0);
        assert_true(j->end <= (1u << 20) + 64 * SLOT && (j->end == SLOT || j->end <= j->filled));
        in_slabs |= used_of_directories(&s) > 0;
    }
    assert_true(in_slabs);
    memcpy(kept, now, BYTES);
    assert_int_equal(tb_flush_file(s.x.engine, tb_open_of(s.x.engine, s.fd)->file, -1, true).error, 0);
    assert_int_equal(j->n_journaled, 0);
    assert_int_equal(j->end, SLOT);
    put(&s, 77, 33, 1);
    keep(&s);
    end_after_a_crash(&s);
}

/* What the daemon does: zeros lie ready for several times as many records, and take none. */
static void room_is_made_before_it_is_needed(void **state)
{
    (void)state;
    struct scene s;
    int n = 0, rc;
    start(&s, false);
    const struct tb_journal *j = &s.x.engine->header->journal;
    int room = tb_journal_open_again(s.x.engine);
    assert_true(room >= 0);
    assert_int_equal(tb_journal_make_room(s.x.engine, room), 0); /* nothing is used yet */
    assert_int_equal(j->filled, 0);
    for (unsigned i = 0; i < 8; i++) {
        put(&s, i * 16000, 16000, i);
        keep(&s);
    }
    while ((rc = tb_journal_make_room(s.x.engine, room)) > 0)
        n++;
    close(room);
    assert_int_equal(rc, 0);
    assert_true(n > 0 && j->filled >= 2 * j->end && j->filled < j->bytes_up_to + (1u << 20));
    assert_int_equal(j->synced, j->end);
    put(&s, 77, 33, 1);
    keep(&s);
    end_after_a_crash(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(few_bytes_need_no_slab),
        cmocka_unit_test(a_fragmented_buffer_needs_no_slab),
        cmocka_unit_test(many_bytes_go_to_slabs),
        cmocka_unit_test(every_flipped_byte_is_named),
        cmocka_unit_test(senseless_records_are_named),
        cmocka_unit_test(a_torn_record_takes_nothing),
        cmocka_unit_test(flushed_bytes_stay),
        cmocka_unit_test(parts_of_a_record_are_left),
        cmocka_unit_test(few_new_bytes_of_many_need_no_slab),
        cmocka_unit_test(many_new_bytes_go_to_a_slab_again),
        cmocka_unit_test(both_kinds_in_any_order),
        cmocka_unit_test(the_journal_stays_bounded),
        cmocka_unit_test(room_is_made_before_it_is_needed),
    };
    return cmocka_run_group_tests_name("journal_bytes", tests, NULL, NULL);
}
