/*
 * The journal after damage: every hole below what a sync covered is named with its
 * byte, what was never synced is nothing, and records of another instance or of an
 * older generation are not believed.
 */
#include "fixture.h"

#include <errno.h>

#include "base/report.h"
#include "file/file.h"
#include "flush/flush.h"
#include "flush/program.h"
#include "recovery/recover.h"
#include "journal/read.h"
#include "layer/descriptions.h"
#include "region/directories.h"

#define PIECES 8
#define PIECE 5000u
#define APART 20000u
#define SLOT TB_JOURNAL_SLOT

struct scene {
    struct fixture x;
    char directory[400]; /* of the journal's tier */
    int journal;         /* descriptor */
    off_t end;
    int named;
    uint64_t named_at[64];
};

static unsigned char byte_of(unsigned piece, unsigned round, size_t at)
{
    return (unsigned char)(1 + (piece * 37 + round * 101 + at * 7) % 255);
}

static int open_own(struct scene *s)
{
    int fd = TB_IO(s->x.io, open, fixture_path(&s->x, "f"), O_RDWR | O_CREAT, 0600);
    assert_true(fd >= 0);
    return fd;
}

static void put(struct scene *s, int fd, unsigned piece, unsigned round)
{
    unsigned char bytes[PIECE];
    for (size_t i = 0; i < PIECE; i++)
        bytes[i] = byte_of(piece, round, i);
    assert_int_equal(TB_IO(s->x.io, pwrite, fd, bytes, PIECE, piece * APART), PIECE);
}

static void start(struct scene *s)
{
    memset(s, 0, sizeof(*s));
    fixture_init(&s->x, TB_MODE_PERSISTENT_ASYNC);
    fixture_start(&s->x);
    fixture_promise_in_slabs(&s->x);
    tb_tier_directory(&s->x.config.tiers[tb_journal_tier(&s->x.config)], s->x.engine->header->host, s->x.name, s->directory,
                      sizeof(s->directory));
}

/* The same, with a journal that takes `after` records, has no room for the next `count`, and then has. */
static void start_without_room(struct scene *s, unsigned after, unsigned count)
{
    char host[64] = "", fault[600];
    memset(s, 0, sizeof(*s));
    fixture_init(&s->x, TB_MODE_PERSISTENT_ASYNC);
    gethostname(host, sizeof(host) - 1);
    tb_tier_directory(&s->x.config.tiers[tb_journal_tier(&s->x.config)], host, s->x.name, s->directory, sizeof(s->directory));
    snprintf(fault, sizeof(fault), "op=pwrite,errno=ENOSPC,after=%u,count=%u,path=%.500s/" TB_JOURNAL_FILE, after, count, s->directory);
    setenv("TB_FAULT", fault, 1);
    fixture_start(&s->x);
    fixture_promise_in_slabs(&s->x);
    unsetenv("TB_FAULT");
}

static const char *own_file(const struct scene *s, const char *name)
{
    static char path[600];
    snprintf(path, sizeof(path), "%s/%s", s->directory, name);
    return path;
}

/* Of what was synced; zeros follow it in the file. */
static off_t journal_end(const struct scene *s)
{
    struct tb_journal_mark mark;
    int fd = open(own_file(s, TB_JOURNAL_MARK_FILE), O_RDONLY);
    assert_true(fd >= 0 && pread(fd, &mark, sizeof(mark), 0) == sizeof(mark));
    close(fd);
    return (off_t)mark.synced;
}

static void open_journal(struct scene *s)
{
    s->journal = open(own_file(s, TB_JOURNAL_FILE), O_RDWR);
    assert_true(s->journal >= 0);
    s->end = journal_end(s);
}

/* Each piece is written and fsynced for itself; then the region is lost. */
static void lose_pieces(struct scene *s)
{
    start(s);
    int fd = open_own(s);
    for (unsigned i = 0; i < PIECES; i++) {
        put(s, fd, i, 0);
        assert_int_equal(TB_IO(s->x.io, fsync, fd, false), 0);
    }
    TB_IO(s->x.io, close, fd);
    fixture_lose_region(&s->x);
    open_journal(s);
}

static void stop(struct scene *s)
{
    close(s->journal);
    fixture_stop(&s->x);
}

static void note(void *arg, const struct tb_file_report *r)
{
    struct scene *s = arg;
    const char *at = strstr(r->path, "/journal: record at byte ");
    if (r->error == -EBADMSG && at && s->named < 64)
        s->named_at[s->named++] = strtoull(at + 25, NULL, 10);
}

static int recover(struct scene *s)
{
    struct tb_error err = {""};
    s->named = 0;
    return tb_instance_recover(&s->x.config, tb_io_libc(), NULL, note, s, &err);
}

static void expect_named(struct scene *s, uint64_t at)
{
    int rc = recover(s);
    if (rc != -EBADMSG || s->named != 1 || s->named_at[0] != at)
        fail_msg("recovery says %d and names %d places, the first at byte %llu; the hole is at byte %llu", rc, s->named,
                 (unsigned long long)s->named_at[0], (unsigned long long)at);
}

/* How many pieces the PFS has whole of a round; a byte of neither it nor nothing is wrong. */
static unsigned count_pieces(struct scene *s, unsigned round)
{
    static unsigned char found[PIECES * APART];
    unsigned whole = 0;
    memset(found, 0, sizeof(found));
    int fd = open(fixture_path(&s->x, "f"), O_RDONLY);
    assert_true(fd >= 0 && pread(fd, found, sizeof(found), 0) >= 0);
    close(fd);
    for (unsigned p = 0; p < PIECES; p++) {
        unsigned right = 0, nothing = 0;
        for (size_t i = 0; i < PIECE; i++) {
            right += found[p * APART + i] == byte_of(p, round, i);
            nothing += found[p * APART + i] == 0;
        }
        assert_int_equal(right + nothing, PIECE);
        whole += right == PIECE;
    }
    return whole;
}

/* The room of the next records is written already, so that their sync need not make the file longer. */
static void zeros_follow_the_records(void **state)
{
    (void)state;
    struct scene s;
    static char bytes[1 << 20];
    lose_pieces(&s);
    ssize_t n = pread(s.journal, bytes, sizeof(bytes), 0);
    assert_true(s.end >= (1 + PIECES) * (off_t)SLOT);
    assert_true(n > s.end + (64 << 10));
    for (ssize_t i = s.end; i < n; i++)
        assert_int_equal(bytes[i], 0);
    assert_int_equal(recover(&s), 1);
    assert_int_equal(count_pieces(&s, 0), PIECES);
    stop(&s);
}

/* Records follow one another from byte 512 on; here each takes one slot. */
static void every_zeroed_record_is_named(void **state)
{
    (void)state;
    struct scene s;
    char record[SLOT];
    const char zeros[SLOT] = {0};
    lose_pieces(&s);
    assert_true(s.end >= (1 + PIECES) * (off_t)SLOT);
    for (off_t at = 0; at < s.end; at += SLOT) {
        assert_int_equal(pread(s.journal, record, SLOT, at), SLOT);
        assert_int_equal(pwrite(s.journal, zeros, SLOT, at), SLOT);
        expect_named(&s, (uint64_t)at);
        assert_int_equal(pwrite(s.journal, record, SLOT, at), SLOT);
    }
    assert_int_equal(recover(&s), 1);
    assert_int_equal(count_pieces(&s, 0), PIECES);
    stop(&s);
}

/* The records after it move down: each is where it does not belong. */
static void a_missing_record_is_named(void **state)
{
    (void)state;
    static char bytes[1 << 16];
    for (off_t at = SLOT; at < 4 * SLOT; at += SLOT) {
        struct scene s;
        lose_pieces(&s);
        ssize_t rest = pread(s.journal, bytes, sizeof(bytes), at + SLOT);
        assert_true(rest > 0 && pwrite(s.journal, bytes, (size_t)rest, at) == rest && ftruncate(s.journal, at + rest) == 0);
        expect_named(&s, (uint64_t)at);
        stop(&s);
    }
}

static void a_journal_cut_at_a_record_is_named(void **state)
{
    (void)state;
    for (off_t at = 0; at < (1 + PIECES) * (off_t)SLOT; at += SLOT) {
        struct scene s;
        lose_pieces(&s);
        assert_int_equal(ftruncate(s.journal, at), 0);
        expect_named(&s, (uint64_t)at);
        stop(&s);
    }
}

static void a_missing_journal_is_named(void **state)
{
    (void)state;
    struct scene s;
    lose_pieces(&s);
    assert_int_equal(unlink(own_file(&s, TB_JOURNAL_FILE)), 0);
    expect_named(&s, 0);
    assert_int_equal(count_pieces(&s, 0), 0);
    stop(&s);
}

/* After a power cut the mark may be old or empty: the records themselves still tell of all but the last sync. */
static void without_the_mark_records_tell(void **state)
{
    (void)state;
    const char zeros[SLOT] = {0};
    for (off_t at = SLOT; at <= PIECES * (off_t)SLOT; at += SLOT) {
        struct scene s;
        lose_pieces(&s);
        off_t last = s.end - SLOT;
        assert_int_equal(truncate(own_file(&s, TB_JOURNAL_MARK_FILE), 0), 0);
        assert_int_equal(pwrite(s.journal, zeros, SLOT, at), SLOT);
        if (at < last)
            expect_named(&s, (uint64_t)at);
        else
            assert_int_equal(recover(&s), 1); /* no record says that it was promised */
        stop(&s);
    }
}

/* A crash leaves any part of what was not synced: that is no damage. */
static void what_was_never_synced_is_nothing(void **state)
{
    (void)state;
    char torn[3 * SLOT];
    memset(torn, 0x5a, sizeof(torn));
    for (int way = 0; way < 3; way++) {
        struct scene s;
        lose_pieces(&s);
        size_t n = way == 0 ? sizeof(torn) : way == 1 ? 100 : SLOT;
        assert_int_equal(pwrite(s.journal, torn, n, s.end + (way == 2 ? 5 * SLOT : 0)), n);
        assert_int_equal(recover(&s), 1);
        assert_int_equal(s.named, 0);
        assert_int_equal(count_pieces(&s, 0), PIECES);
        stop(&s);
    }
}

/* Many fsyncs, then everything is flushed and the journal emptied; what it held before. */
static size_t fill_and_empty(struct scene *s, int fd, char *old, size_t room)
{
    for (unsigned i = 0; i < 100; i++) {
        put(s, fd, i % PIECES, 1);
        assert_int_equal(TB_IO(s->x.io, fsync, fd, false), 0);
    }
    open_journal(s);
    ssize_t n = pread(s->journal, old, room, 0);
    assert_true(n > 64 * (ssize_t)SLOT);
    assert_int_equal(tb_flush_file(s->x.engine, tb_open_of(s->x.engine, fd)->file, -1, true).error, 0);
    struct stat st;
    assert_true(fstat(s->journal, &st) == 0 && st.st_size == SLOT);
    return (size_t)n;
}

/* The tail of what was there before the journal was emptied is there again: a crash may take back that it was cut. */
static void older_records_are_not_believed(void **state)
{
    (void)state;
    static char old[1 << 18];
    struct scene s;
    start(&s);
    int fd = open_own(&s);
    size_t n = fill_and_empty(&s, fd, old, sizeof(old));
    for (unsigned i = 0; i < PIECES; i++)
        put(&s, fd, i, 2);
    assert_int_equal(TB_IO(s.x.io, fsync, fd, false), 0);
    TB_IO(s.x.io, close, fd);
    fixture_lose_region(&s.x);
    size_t end = (size_t)journal_end(&s);
    assert_true(end < n);
    assert_int_equal(pwrite(s.journal, old + end, n - end, (off_t)end), n - end);
    assert_int_equal(recover(&s), 1);
    assert_int_equal(count_pieces(&s, 2), PIECES);
    stop(&s);
}

/* The whole older journal is there again, though a later one was synced since: nothing of it is replayed. */
static void an_older_journal_is_named(void **state)
{
    (void)state;
    static char old[1 << 18];
    struct scene s;
    start(&s);
    int fd = open_own(&s);
    size_t n = fill_and_empty(&s, fd, old, sizeof(old));
    put(&s, fd, 0, 1);
    assert_int_equal(TB_IO(s.x.io, fsync, fd, false), 0);
    TB_IO(s.x.io, close, fd);
    fixture_lose_region(&s.x);
    assert_int_equal(pwrite(s.journal, old, n, 0), n);
    expect_named(&s, 0);
    stop(&s);
}

static void the_journal_of_another_instance_is_named(void **state)
{
    (void)state;
    static char bytes[1 << 16];
    struct scene s, other;
    lose_pieces(&other);
    ssize_t n = pread(other.journal, bytes, sizeof(bytes), 0);
    lose_pieces(&s);
    assert_true(n > 0 && pwrite(s.journal, bytes, (size_t)n, 0) == n);
    expect_named(&s, 0);
    assert_int_equal(count_pieces(&s, 0), 0);
    stop(&s);
    stop(&other);
}

/* Damage that no checksum finds: it was made on purpose. */
static void senseless_records_are_named(void **state)
{
    (void)state;
    for (int way = 0; way < 7; way++) {
        struct scene s;
        char slot[SLOT];
        struct tb_record *r = (struct tb_record *)slot;
        lose_pieces(&s);
        assert_int_equal(pread(s.journal, slot, SLOT, 3 * SLOT), SLOT);
        r->slab = way == 0 ? 1000 : r->slab;
        r->buffer = way == 1 ? UINT32_MAX : r->buffer;
        r->length = way == 2 ? UINT64_MAX - 10 : r->length;
        r->offset = way == 3 ? UINT64_MAX - 10 : r->offset;
        r->byte = way == 4 ? UINT32_MAX - 10 : r->byte;
        r->sequence = way == 5 ? r->sequence - 1 : r->sequence;
        r->type = way == 6 ? 77 : r->type;
        r->checksum = tb_record_checksum(r);
        assert_int_equal(pwrite(s.journal, slot, SLOT, 3 * SLOT), SLOT);
        assert_int_equal(recover(&s), -EBADMSG);
        assert_int_equal(count_pieces(&s, 0), PIECES - 1);
        stop(&s);
    }
}

/* Bytes that a failed sync may have lost were promised to no program: no later sync makes the hole a damage. */
static void after_a_failed_sync_no_hole_is_damage(void **state)
{
    (void)state;
    const char zeros[SLOT] = {0};
    struct scene s;
    start(&s);
    int fd = open_own(&s);
    put(&s, fd, 0, 0);
    assert_int_equal(TB_IO(s.x.io, fsync, fd, false), 0);
    struct tb_header *h = s.x.engine->header;
    uint64_t before = h->journal.synced;
    h->journal.is_doubtful = true; /* as a failed sync leaves it */
    for (unsigned i = 1; i < PIECES; i++) {
        assert_int_equal(tb_journal_rename(s.x.engine, "/old", "/new"), 0);
        assert_int_equal(tb_journal_sync(s.x.engine), 0);
    }
    assert_int_equal(h->journal.synced, before);
    TB_IO(s.x.io, close, fd);
    fixture_lose_region(&s.x);
    open_journal(&s);
    assert_int_equal(pwrite(s.journal, zeros, SLOT, (off_t)before), SLOT);
    assert_int_equal(recover(&s), 1);
    assert_int_equal(count_pieces(&s, 0), 1);
    stop(&s);
}

/*
 * A flush puts newer bytes on the PFS and can't say in the journal that the older record is void.
 * The next fsync must not give up that record's bytes either: replay would put them over the newer.
 */
static void without_room_for_a_drop_nothing_older_comes_back(void **state)
{
    (void)state;
    struct scene s;
    start_without_room(&s, 3, 2); /* after the header and the two records of a piece */
    int fd = open_own(&s);
    put(&s, fd, 0, 0);
    assert_int_equal(TB_IO(s.x.io, fsync, fd, false), 0);
    put(&s, fd, 0, 1);
    assert_int_equal(TB_IO(s.x.io, fsync, fd, false), -ENOSPC);
    TB_IO(s.x.io, fsync, fd, false); /* says it once more, as an error of the file */
    assert_int_equal(TB_IO(s.x.io, fsync, fd, false), 0);
    TB_IO(s.x.io, close, fd);
    fixture_lose_region(&s.x);
    open_journal(&s);
    assert_int_equal(recover(&s), 1);
    assert_int_equal(count_pieces(&s, 1), 1);
    stop(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(zeros_follow_the_records),
        cmocka_unit_test(every_zeroed_record_is_named),
        cmocka_unit_test(a_missing_record_is_named),
        cmocka_unit_test(a_journal_cut_at_a_record_is_named),
        cmocka_unit_test(a_missing_journal_is_named),
        cmocka_unit_test(without_the_mark_records_tell),
        cmocka_unit_test(what_was_never_synced_is_nothing),
        cmocka_unit_test(older_records_are_not_believed),
        cmocka_unit_test(an_older_journal_is_named),
        cmocka_unit_test(the_journal_of_another_instance_is_named),
        cmocka_unit_test(senseless_records_are_named),
        cmocka_unit_test(after_a_failed_sync_no_hole_is_damage),
        cmocka_unit_test(without_room_for_a_drop_nothing_older_comes_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
