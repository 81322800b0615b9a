/* Second copies of what nodes committed, as the keeper of their files has them: what it takes, what makes it void, what goes to the PFS. */
#include "fixture.h"

#include <errno.h>

#include "copies/store.h"
#include "keeper.h"

#define PATH "/pfs/file"

static const struct tb_wire_file file = {.inode = 7, .birth_ns = 8};
static uint64_t now = 100;

static struct reply {
    struct tb_told told;
    struct tb_wire_extent extent[TB_WIRE_MOST];
} reply;

static int64_t ask(uint32_t from, struct tb_wire w, const void *more, size_t n)
{
    w.file = file;
    return keeper_answer(from, &w, more, n, &reply, sizeof(reply));
}

/* One range of that byte, for the commit with that number. */
static int64_t send_at(uint32_t from, uint64_t lo, uint64_t hi, char byte, uint64_t clock)
{
    char bytes[8192];
    const struct tb_wire_range range = {lo, hi};
    size_t n = sizeof(range) + strlen(PATH) + (hi - lo);
    struct tb_wire w = {.op = TB_WIRE_COPY, .file = file, .n = 1, .n_gone = (uint32_t)strlen(PATH), .hi = clock};
    memcpy(bytes, &range, sizeof(range));
    memcpy(bytes + sizeof(range), PATH, strlen(PATH));
    memset(bytes + sizeof(range) + strlen(PATH), byte, hi - lo);
    return copies_answer(from, &w, bytes, n, NULL, 0);
}

static int64_t commit_as(uint32_t from, uint64_t lo, uint64_t hi, uint64_t clock, uint32_t copies)
{
    struct tb_wire_range range = {lo, hi};
    return ask(from, (struct tb_wire){.op = TB_WIRE_COMMIT, .n = lo < hi, .hi = clock, .again = copies}, &range,
               lo < hi ? sizeof(range) : 0);
}

/* A flush has put on the PFS what a commit with that number was of. */
static int64_t ask_void(uint32_t from, uint64_t bare)
{
    return ask(from, (struct tb_wire){.op = TB_WIRE_COMMIT, .hi = ++now, .version = bare << 1, .again = TB_COPIES_VOID}, NULL, 0);
}

static void commit_copied(uint32_t from, uint64_t lo, uint64_t hi, char byte)
{
    assert_int_equal(send_at(from, lo, hi, byte, ++now), 0);
    assert_true(commit_as(from, lo, hi, now, TB_COPIES_SENT) >= 0);
}

/* The copy has all of it, and it is that byte. */
static bool has(uint32_t node, uint64_t lo, uint64_t hi, char byte)
{
    char bytes[8192];
    struct tb_wire w = {.op = TB_WIRE_READ_COPY, .file = file, .lo = lo, .hi = hi, .version = node};
    int64_t got = copies_answer(9, &w, NULL, 0, bytes, sizeof(bytes));
    assert_true(got == -ESTALE || got == (int64_t)(hi - lo));
    for (int64_t i = 0; i < got; i++)
        assert_int_equal(bytes[i], byte);
    return got > 0;
}

static int begin(void **state)
{
    (void)state;
    copies_set_limit(1 << 20);
    return 0;
}

static int end(void **state)
{
    (void)state;
    for (uint32_t node = 0; node < 4; node++) {
        struct tb_wire_extent all = {0, UINT64_MAX, UINT64_MAX, node, 0};
        ask(3, (struct tb_wire){.op = TB_WIRE_REMOVE, .n_gone = 1}, &all, sizeof(all));
    }
    assert_true(commit_as(3, 0, 1, ++now, 0) >= 0); /* so that the keeper knows the file */
    assert_true(ask(3, (struct tb_wire){.op = TB_WIRE_REMOVE}, NULL, 0) >= 0);
    assert_int_equal(copies_bytes(), 0);
    return 0;
}

static void test_it_counts_with_its_commit(void **state)
{
    (void)state;
    assert_int_equal(send_at(1, 0, 100, 'a', ++now), 0);
    assert_false(has(1, 0, 100, 'a'));
    assert_true(commit_as(1, 0, 100, now, TB_COPIES_SENT) >= 0);
    assert_true(has(1, 0, 100, 'a'));
    assert_true(has(1, 30, 70, 'a'));
    assert_false(has(1, 30, 101, 'a'));
    assert_false(has(2, 0, 100, 'a'));
}

/* Bytes of a commit that failed are not those of the next one. */
static void test_it_is_of_one_commit(void **state)
{
    (void)state;
    assert_int_equal(send_at(1, 0, 100, 'a', ++now), 0);
    assert_true(commit_as(1, 0, 100, ++now, TB_COPIES_SENT) >= 0);
    assert_false(has(1, 0, 100, 'a'));
    assert_int_equal(copies_bytes(), 0);
    assert_int_equal(send_at(1, 0, 100, 'b', ++now), 0);
    assert_int_equal(send_at(1, 100, 200, 'c', now - 1), -ESTALE);
    assert_true(commit_as(1, 0, 100, now, TB_COPIES_SENT) >= 0);
    assert_true(has(1, 0, 100, 'b'));
}

/* What it does not name is on the PFS, and may be newer there. */
static void test_a_commit_replaces_all(void **state)
{
    (void)state;
    commit_copied(1, 0, 200, 'a');
    commit_copied(1, 0, 100, 'b');
    assert_true(has(1, 0, 100, 'b'));
    assert_false(has(1, 100, 200, 'a'));
    assert_true(commit_as(1, 0, 0, ++now, TB_COPIES_SENT) >= 0);
    assert_false(has(1, 0, 100, 'b'));
}

/* A flush promises nothing: what was committed before counts, until that is on the PFS. */
static void test_a_flush_leaves_it(void **state)
{
    (void)state;
    commit_copied(1, 0, 100, 'a');
    assert_true(commit_as(1, 0, 200, ++now, 0) >= 0);
    assert_true(has(1, 0, 100, 'a'));
    struct tb_wire_range range = {0, 50};
    assert_true(ask(1, (struct tb_wire){.op = TB_WIRE_END, .n = 1, .hi = ++now}, &range, sizeof(range)) >= 0);
    assert_false(has(1, 0, 50, 'a'));
    assert_true(has(1, 50, 100, 'a'));
    assert_true(ask_void(1, now - 5) >= 0);
    assert_true(has(1, 50, 100, 'a'));
    assert_true(ask_void(1, now) >= 0);
    assert_false(has(1, 50, 100, 'a'));
}

static void test_another_commit_makes_it_void(void **state)
{
    (void)state;
    commit_copied(1, 0, 100, 'a');
    commit_copied(2, 40, 60, 'b');
    assert_false(has(1, 0, 100, 'a'));
    assert_false(has(1, 59, 60, 'a'));
    assert_true(has(1, 0, 40, 'a'));
    assert_true(has(1, 60, 100, 'a'));
    assert_true(has(2, 40, 60, 'b'));
    assert_true(commit_as(3, 45, 50, ++now, 0) >= 0);
    assert_false(has(2, 45, 50, 'b'));
    assert_true(has(2, 50, 60, 'b'));
}

/* It was refused, since another node has newer bytes: the older copies of the rest count still. */
static void test_a_refused_commit_changes_nothing(void **state)
{
    (void)state;
    commit_copied(1, 0, 100, 'a');
    assert_true(commit_as(2, 0, 50, ++now, 0) >= 0);
    assert_int_equal(send_at(1, 0, 100, 'c', ++now), 0);
    assert_true(commit_as(1, 0, 100, now, TB_COPIES_SENT) >= 0);
    assert_int_equal(reply.extent[0].node, 1);
    assert_false(has(1, 0, 50, 'c'));
    assert_true(has(1, 50, 100, 'a'));
    assert_true(commit_as(1, 50, 100, now, TB_COPIES_SENT) >= 0);
    assert_true(has(1, 50, 100, 'c'));
    assert_false(has(1, 0, 50, 'c'));
}

static void test_a_cut_and_a_removal_make_it_void(void **state)
{
    (void)state;
    commit_copied(1, 0, 100, 'a');
    assert_true(ask(2, (struct tb_wire){.op = TB_WIRE_CUT, .lo = 70, .hi = ++now}, NULL, 0) >= 0);
    assert_true(has(1, 0, 70, 'a'));
    assert_false(has(1, 70, 71, 'a'));
    assert_true(ask(1, (struct tb_wire){.op = TB_WIRE_REMOVE, .hi = UINT64_MAX}, NULL, 0) >= 0);
    assert_false(has(1, 0, 70, 'a'));
    assert_int_equal(copies_bytes(), 0);
}

static void test_memory_is_bounded(void **state)
{
    (void)state;
    copies_set_limit(3000);
    commit_copied(1, 0, 1500, 'a');
    assert_int_equal(send_at(1, 0, 2000, 'b', ++now), -ENOBUFS);
    assert_true(has(1, 0, 1500, 'a'));
    assert_int_equal(send_at(1, 0, 1000, 'b', ++now), 0);
    uint64_t both = copies_bytes();
    assert_true(commit_as(1, 0, 2000, now, 0) >= 0); /* the rest could not be sent */
    assert_true(copies_bytes() < both);
    assert_true(copies_bytes() >= 1500 && copies_bytes() <= 3000);
    assert_int_equal(send_at(1, 0, 1200, 'b', ++now), 0);
    assert_true(commit_as(1, 0, 1200, now, TB_COPIES_SENT) >= 0);
    assert_true(has(1, 0, 1200, 'b'));
}

/* While bytes are on their way to the PFS nothing newer of the file is taken, which they could come over. */
static void test_what_goes_to_the_pfs(void **state)
{
    (void)state;
    struct copies_job job;
    commit_copied(1, 0, 100, 'a');
    assert_true(commit_as(2, 40, 60, ++now, 0) >= 0);
    assert_int_equal(copies_of(1, true), 80);
    assert_false(copies_begin_job(2, true, 1, &job));
    assert_true(copies_begin_job(1, true, 1, &job));
    assert_string_equal(job.path, PATH);
    assert_int_equal(job.n, 2);
    assert_int_equal(job.part[1].lo, 60);
    assert_int_equal(job.part[1].hi, 100);
    assert_int_equal(job.part[1].bytes[0], 'a');
    assert_int_equal(commit_as(2, 0, 10, ++now, 0), -EAGAIN);
    assert_int_equal(ask(2, (struct tb_wire){.op = TB_WIRE_CUT, .lo = 70, .hi = now}, NULL, 0), -EAGAIN);
    assert_int_equal(ask(2, (struct tb_wire){.op = TB_WIRE_REMOVE, .hi = UINT64_MAX}, NULL, 0), -EAGAIN);
    struct tb_wire_range range = {60, 100};
    assert_true(ask(1, (struct tb_wire){.op = TB_WIRE_END, .n = 1, .hi = ++now}, &range, sizeof(range)) >= 0);
    assert_false(has(1, 60, 100, 'a'));
    copies_end_job(&job, true);
    assert_true(commit_as(2, 0, 10, ++now, 0) >= 0);
    assert_false(has(1, 0, 10, 'a'));
    assert_true(has(1, 10, 40, 'a'));
    assert_true(copies_bytes() > 0);
    assert_int_equal(copies_of(1, true), 0);
    assert_false(copies_begin_job(1, true, 2, &job));
    assert_true(commit_as(2, 0, 60, ++now, 0) >= 0);
    assert_int_equal(copies_bytes(), 0);
}

/* A job keeps its bytes, though nothing of them counts any more. */
static void test_a_job_keeps_its_bytes(void **state)
{
    (void)state;
    struct copies_job job;
    struct tb_wire_range range = {0, 100};
    commit_copied(1, 0, 100, 'a');
    assert_true(copies_begin_job(1, true, 1, &job));
    assert_true(ask(1, (struct tb_wire){.op = TB_WIRE_END, .n = 1, .hi = ++now}, &range, sizeof(range)) >= 0);
    assert_true(copies_bytes() > 0);
    assert_int_equal(job.part[0].bytes[99], 'a');
    copies_end_job(&job, true);
    assert_int_equal(copies_bytes(), 0);
}

/* The node lives after all: it may have put newer bytes there, and they lie under these now. */
static void test_after_that_the_node_counts_no_more(void **state)
{
    (void)state;
    struct copies_job job;
    commit_copied(1, 0, 100, 'a');
    assert_true(copies_begin_job(1, true, 1, &job));
    copies_end_job(&job, false);
    assert_int_equal(copies_of(1, true), 100);
    assert_int_equal(commit_as(1, 0, 0, ++now, TB_COPIES_SENT), -EIO);
    assert_false(copies_begin_job(1, true, 1, &job));
    assert_true(copies_begin_job(1, true, 2, &job));
    copies_end_job(&job, true);
    assert_int_equal(ask(2, (struct tb_wire){.op = TB_WIRE_CUT, .lo = 70, .hi = ++now}, NULL, 0), -EIO);
    assert_true(ask(2, (struct tb_wire){.op = TB_WIRE_CUT, .lo = 70, .hi = ++now}, NULL, 0) >= 0);
}

/* What that node had on its way to the PFS may have come after them, and may be older: at the end they go there once more. */
static void test_they_go_there_once_more(void **state)
{
    (void)state;
    struct copies_job job;
    commit_copied(1, 0, 100, 'a');
    assert_int_equal(copies_of(1, false), 0); /* it lives */
    assert_false(copies_begin_job(1, false, 1, &job));
    assert_true(copies_begin_job(1, true, 2, &job));
    copies_end_job(&job, true);
    copies_doubt(2);
    assert_int_equal(copies_of(1, false), 0);
    copies_doubt(1);
    assert_int_equal(copies_of(1, false), 100);
    assert_true(copies_begin_job(1, false, 3, &job));
    assert_int_equal(job.part[0].bytes[0], 'a');
    copies_end_job(&job, true);
    assert_int_equal(copies_of(1, false), 0);
}

/* A node without a copy of its own bytes may be lost before it has flushed them: so it takes none that others have committed. */
static void test_without_copies_nothing_is_taken_from_others(void **state)
{
    (void)state;
    struct {
        struct tb_told told;
        struct tb_wire_extent extent[8];
    } a;
    struct tb_wire_range range = {50, 200};
    struct tb_wire w = {.op = TB_WIRE_COMMIT, .file = file, .n = 1, .hi = ++now, .again = TB_COPIES_NONE};
    commit_copied(1, 0, 100, 'a');
    assert_true(keeper_answer(2, &w, &range, sizeof(range), &a, sizeof(a)) >= 0);
    assert_true(a.told.held && a.told.n == 1 && a.extent[0].node == 1 && a.extent[0].lo == 50 && a.extent[0].hi == 100);
    assert_true(has(1, 0, 100, 'a'));
    range.lo = 100;
    w.hi = ++now;
    assert_true(keeper_answer(2, &w, &range, sizeof(range), &a, sizeof(a)) >= 0);
    assert_true(!a.told.held && !a.told.n);
    struct tb_wire_range flushed = {0, 100};
    assert_true(ask(1, (struct tb_wire){.op = TB_WIRE_END, .n = 1, .hi = ++now}, &flushed, sizeof(flushed)) >= 0);
    range.lo = 50;
    w.hi = ++now;
    assert_true(keeper_answer(2, &w, &range, sizeof(range), &a, sizeof(a)) >= 0);
    assert_true(!a.told.held && !a.told.n);
}

static void test_malformed(void **state)
{
    (void)state;
    char bytes[256] = {0};
    struct tb_wire w = {.op = TB_WIRE_COPY, .file = file, .hi = ++now};
    struct tb_wire_range *range = (void *)bytes;
    assert_int_equal(copies_answer(1, &w, bytes, 0, NULL, 0), -EPROTO);
    w.n = w.n_gone = UINT32_MAX;
    assert_int_equal(copies_answer(1, &w, bytes, sizeof(bytes), NULL, 0), -EPROTO);
    w.n = w.n_gone = 1;
    *range = (struct tb_wire_range){5, UINT64_MAX};
    bytes[sizeof(*range)] = '/';
    assert_int_equal(copies_answer(1, &w, bytes, sizeof(*range) + 2, NULL, 0), -EPROTO);
    *range = (struct tb_wire_range){5, 6};
    assert_int_equal(copies_answer(1, &w, bytes, sizeof(*range) + 3, NULL, 0), -EPROTO);
    assert_int_equal(copies_answer(1, &w, bytes, sizeof(*range) + 2, NULL, 0), 0);
    assert_int_equal(copies_answer(1, &w, bytes, sizeof(*range) + 2, NULL, 0), -EPROTO); /* not in order */
    w = (struct tb_wire){.op = TB_WIRE_READ_COPY, .file = file, .lo = 0, .hi = 100, .version = 1};
    assert_int_equal(copies_answer(2, &w, NULL, 0, bytes, 99), -EPROTO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_it_counts_with_its_commit, begin, end),
        cmocka_unit_test_setup_teardown(test_it_is_of_one_commit, begin, end),
        cmocka_unit_test_setup_teardown(test_a_commit_replaces_all, begin, end),
        cmocka_unit_test_setup_teardown(test_a_flush_leaves_it, begin, end),
        cmocka_unit_test_setup_teardown(test_another_commit_makes_it_void, begin, end),
        cmocka_unit_test_setup_teardown(test_a_refused_commit_changes_nothing, begin, end),
        cmocka_unit_test_setup_teardown(test_a_cut_and_a_removal_make_it_void, begin, end),
        cmocka_unit_test_setup_teardown(test_memory_is_bounded, begin, end),
        cmocka_unit_test_setup_teardown(test_what_goes_to_the_pfs, begin, end),
        cmocka_unit_test_setup_teardown(test_a_job_keeps_its_bytes, begin, end),
        cmocka_unit_test_setup_teardown(test_after_that_the_node_counts_no_more, begin, end),
        cmocka_unit_test_setup_teardown(test_they_go_there_once_more, begin, end),
        cmocka_unit_test_setup_teardown(test_without_copies_nothing_is_taken_from_others, begin, end),
        cmocka_unit_test_setup_teardown(test_malformed, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
