/* The checker of histories: what it must refuse, and what it must accept. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "history_check.h"

#define CELLS 64u
#define CALLS_MAX 32

/* A history by hand: what is read is named call by call. */
static struct written {
    struct history_call calls[CALLS_MAX];
    uint32_t values[CALLS_MAX * HISTORY_PIECE];
    struct history h;
    uint32_t n_values;
} w;

static void begin(uint32_t size)
{
    memset(&w, 0, sizeof(w));
    w.h = (struct history){.n_cells = CELLS, .size = size, .calls = w.calls, .values = w.values};
}

static struct history_call *call(uint32_t worker, uint64_t from, uint64_t to, enum history_kind kind)
{
    struct history_call *o = &w.calls[w.h.n_calls++];
    *o = (struct history_call){.begin = from, .end = to, .kind = kind, .worker = worker, .got = w.n_values};
    return o;
}

static void writes(uint32_t worker, uint64_t from, uint64_t to, uint32_t at, uint32_t n, uint32_t value)
{
    struct history_call *o = call(worker, from, to, HISTORY_WRITE);
    o->at = at;
    o->n = n;
    o->value = value;
}

static void appends(uint32_t worker, uint64_t from, uint64_t to, uint32_t n, uint32_t value)
{
    struct history_call *o = call(worker, from, to, HISTORY_APPEND);
    o->n = n;
    o->value = value;
}

static void cuts(uint32_t worker, uint64_t from, uint64_t to, uint32_t length)
{
    call(worker, from, to, HISTORY_CUT)->at = length;
}

static void sizes(uint32_t worker, uint64_t from, uint64_t to, uint32_t size)
{
    call(worker, from, to, HISTORY_SIZE)->result = size;
}

#define VALUES(...)                                                    \
    sizeof((uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t), (uint32_t[]) \
    {                                                                  \
        __VA_ARGS__                                                    \
    }
#define NOTHING 0, NULL

static struct history_call *got(struct history_call *o, uint32_t at, uint32_t n, size_t result, const uint32_t *values)
{
    o->at = at;
    o->n = n;
    o->result = (uint32_t)result;
    if (result)
        memcpy(&w.values[w.n_values], values, result * sizeof(*values));
    w.n_values += o->result;
    return o;
}

static void reads(uint32_t worker, uint64_t from, uint64_t to, uint32_t at, uint32_t n, size_t result, const uint32_t *values)
{
    got(call(worker, from, to, HISTORY_READ), at, n, result, values);
}

static void expect(enum history_verdict verdict)
{
    struct history_finding f = history_check(&w.h);
    if (f.verdict != verdict) {
        history_show(stderr, &w.h, f.call);
        fail_msg("verdict %d at call %u, not %d", f.verdict, f.call, verdict);
    }
}

/* The first call that no order explains; those before it are fine. */
static void refused(uint32_t at_call)
{
    struct history_finding f = history_check(&w.h);
    assert_int_equal(f.verdict, HISTORY_IMPOSSIBLE);
    assert_int_equal(f.call, at_call);
}

static void accepts_calls_in_turn(void **state)
{
    (void)state;
    begin(0);
    sizes(0, 1, 2, 0);
    writes(0, 3, 4, 2, 2, 100);
    reads(0, 5, 6, 0, 8, VALUES(0, 0, 100, 101));
    appends(0, 7, 8, 2, 200);
    sizes(0, 9, 10, 6);
    cuts(0, 11, 12, 3);
    cuts(0, 13, 14, 5);
    reads(0, 15, 16, 2, 9, VALUES(100, 0, 0));
    reads(0, 17, 18, 5, 1, NOTHING);
    expect(HISTORY_POSSIBLE);
}

/* Overlapping writes and cuts may come in any order, and each reader may see any of them, but all the same. */
static void accepts_what_overlaps(void **state)
{
    (void)state;
    begin(4);
    writes(0, 10, 90, 0, 4, 100);
    writes(1, 10, 90, 1, 2, 200);
    reads(2, 20, 30, 0, 4, VALUES(0, 200, 201, 0));
    reads(2, 40, 50, 0, 4, VALUES(100, 101, 102, 103));
    cuts(3, 10, 90, 2);
    reads(2, 91, 92, 0, 4, VALUES(100, 101));
    expect(HISTORY_POSSIBLE);
    begin(2);
    cuts(0, 10, 50, 0);
    writes(1, 10, 50, 1, 1, 100);
    reads(2, 51, 52, 0, 4, VALUES(0, 100)); /* the cut first, or the other way round with nothing left: */
    expect(HISTORY_POSSIBLE);
    w.calls[2].result = 0;
    expect(HISTORY_POSSIBLE);
    begin(0);
    appends(0, 10, 50, 1, 100);
    appends(1, 10, 50, 1, 200);
    reads(2, 51, 52, 0, 4, VALUES(200, 100));
    expect(HISTORY_POSSIBLE);
}

/* A write under way is seen, or not yet, for as long as it takes. */
static void accepts_a_long_write(void **state)
{
    (void)state;
    begin(1);
    writes(0, 10, 1000, 0, 1, 100);
    for (uint32_t i = 0; i < 8; i++)
        reads(1, 20 + 10 * i, 25 + 10 * i, 0, 1, VALUES(i < 4 ? 0 : 100));
    expect(HISTORY_POSSIBLE);
    w.values[7] = 0;
    refused(8);
}

static void refuses_stale_reads(void **state)
{
    (void)state;
    begin(1);
    writes(0, 10, 20, 0, 1, 100);
    writes(0, 30, 40, 0, 1, 200);
    reads(1, 41, 42, 0, 1, VALUES(100));
    refused(2);
    begin(1);
    writes(0, 10, 20, 0, 1, 100);
    reads(1, 30, 40, 0, 1, VALUES(0));
    refused(1);
}

static void refuses_values_from_the_future(void **state)
{
    (void)state;
    begin(1);
    reads(1, 10, 20, 0, 1, VALUES(100));
    writes(0, 30, 40, 0, 1, 100);
    refused(0);
}

/* Seen, gone, and back, while another write came between: the suspect of issue 13. */
static void refuses_what_vanishes_and_returns(void **state)
{
    (void)state;
    begin(1);
    writes(0, 10, 90, 0, 1, 100);
    reads(1, 20, 30, 0, 1, VALUES(100));
    reads(1, 40, 50, 0, 1, VALUES(0));
    refused(2);
    begin(4);
    writes(0, 10, 90, 2, 2, 100);
    cuts(1, 10, 90, 2);
    reads(2, 20, 30, 2, 2, VALUES(100, 101));
    reads(2, 40, 50, 2, 2, NOTHING);
    expect(HISTORY_POSSIBLE);
    reads(2, 60, 70, 2, 2, VALUES(100, 101));
    refused(4);
}

static void refuses_two_orders(void **state)
{
    (void)state;
    begin(1);
    writes(0, 10, 90, 0, 1, 100);
    writes(1, 10, 90, 0, 1, 200);
    reads(2, 20, 30, 0, 1, VALUES(100));
    reads(3, 40, 50, 0, 1, VALUES(200));
    reads(2, 60, 70, 0, 1, VALUES(100));
    refused(4);
}

static void refuses_lost_writes(void **state)
{
    (void)state;
    begin(4);
    writes(0, 10, 20, 0, 2, 100);
    writes(1, 10, 20, 2, 2, 200);
    reads(2, 30, 40, 0, 4, VALUES(100, 101, 0, 0));
    refused(2);
    begin(0);
    appends(0, 10, 20, 1, 100);
    appends(1, 10, 20, 1, 200);
    sizes(2, 30, 40, 1);
    refused(2);
}

/* Two appends at one place, a hole between two, one inside the other. */
static void refuses_appends_that_overlap_or_leave_holes(void **state)
{
    (void)state;
    static const uint32_t seen[][4] = {{200, 201, 0, 0}, {100, 200, 201, 0}, {100, 101, 0, 200}, {100, 200, 201, 101}};
    for (size_t i = 0; i < sizeof(seen) / sizeof(seen[0]); i++) {
        begin(0);
        appends(0, 10, 20, 2, 100);
        appends(1, 10, 20, 2, 200);
        reads(2, 30, 40, 0, 4, 4, seen[i]);
        refused(2);
    }
}

static void refuses_sizes_that_go_back(void **state)
{
    (void)state;
    begin(0);
    writes(0, 10, 90, 0, 4, 100);
    sizes(1, 20, 30, 4);
    sizes(1, 40, 50, 0);
    refused(2);
    begin(8);
    cuts(0, 10, 20, 4);
    sizes(1, 30, 40, 8);
    refused(1);
}

static void refuses_what_was_cut_off(void **state)
{
    (void)state;
    begin(0);
    writes(0, 10, 20, 0, 4, 100);
    cuts(0, 30, 40, 1);
    cuts(0, 50, 60, 4);
    reads(1, 70, 80, 0, 4, VALUES(100, 0, 102, 0));
    refused(3);
    w.values[2] = 0;
    expect(HISTORY_POSSIBLE);
}

/* A call's cells change together, unless a limit says otherwise; the shortest length of a read is seen with them. */
static void refuses_torn_calls(void **state)
{
    (void)state;
    begin(4);
    writes(0, 10, 90, 0, 4, 100);
    reads(1, 20, 30, 0, 4, VALUES(100, 101, 0, 0));
    refused(1);
    w.h.limits.split = 2;
    expect(HISTORY_POSSIBLE);
    w.h.limits = (struct history_limits){.read_part = 2};
    expect(HISTORY_POSSIBLE);
    w.h.limits = (struct history_limits){.read_part = 3};
    refused(1);
    w.values[2] = HISTORY_TORN;
    refused(1);
    w.h.limits = (struct history_limits){.torn = true};
    refused(1);
    w.values[3] = 103;
    expect(HISTORY_POSSIBLE);
    begin(1);
    writes(0, 10, 90, 0, 4, 100);
    reads(1, 20, 30, 0, 4, VALUES(100));
    refused(1);
    w.h.limits.end = HISTORY_END_APART;
    expect(HISTORY_POSSIBLE);
}

/* As kernels have it: writes one after the other, each cell by cell; a read cell by cell, ended by any end it met. */
static void accepts_no_more_than_kernels_do(void **state)
{
    (void)state;
    static const struct history_limits kernel = {.read_part = 1, .write_part = 1, .turns = true, .end = HISTORY_END_MEANWHILE};
    begin(4);
    w.h.limits = kernel;
    writes(0, 10, 90, 0, 4, 100);
    writes(1, 10, 90, 0, 4, 200);
    reads(2, 20, 80, 0, 4, VALUES(100, 101, 202, 0));
    reads(2, 91, 92, 0, 4, VALUES(200, 201, 202, 203));
    expect(HISTORY_POSSIBLE);
    w.values[5] = 101; /* the two writes are mixed for good */
    refused(3);
    begin(4);
    w.h.limits = kernel;
    writes(0, 1, 2, 0, 4, 300);
    cuts(0, 10, 90, 0);
    reads(2, 20, 80, 0, 4, VALUES(300, 301));
    expect(HISTORY_POSSIBLE);
    w.calls[1].begin = w.calls[1].end = 95; /* the file did not end there while it was read */
    refused(2);
}

/* The first part of a split call comes first. */
static void refuses_second_parts_first(void **state)
{
    (void)state;
    begin(4);
    writes(0, 10, 90, 0, 4, 100);
    reads(1, 20, 30, 2, 2, VALUES(102, 103));
    reads(1, 40, 50, 0, 2, VALUES(0, 0));
    w.h.limits.split = 2;
    refused(2);
    begin(1);
    appends(0, 10, 90, 4, 100);
    sizes(1, 20, 30, 2);
    sizes(1, 40, 50, 5);
    reads(1, 60, 70, 0, 8, VALUES(0, 100, 101, 102, 103));
    w.h.limits.split = 2;
    expect(HISTORY_POSSIBLE);
    w.h.limits.split = 3;
    refused(1);
}

static void shared_offset(uint32_t second)
{
    begin(0);
    struct history_call *o = call(0, 10, 90, HISTORY_WRITE_ON);
    o->n = 2;
    o->value = 100;
    o = call(1, 10, 90, HISTORY_WRITE_ON);
    o->n = 1;
    o->value = 200;
    reads(2, 91, 92, 0, 4, VALUES(100, 101, 200));
    call(0, 91, 99, HISTORY_SEEK)->at = 1;
    got(call(0, 100, 120, HISTORY_READ_ON), 0, 1, VALUES(101));
    got(call(1, 100, 120, HISTORY_READ_ON), 0, 1, VALUES(second));
    call(2, 121, 122, HISTORY_TELL)->result = 3;
}

static void one_offset_for_all(void **state)
{
    (void)state;
    shared_offset(200);
    expect(HISTORY_POSSIBLE);
    w.calls[6].result = 2;
    refused(6);
    w.calls[6].result = 3;
    w.h.limits = (struct history_limits){.split = 1, .end = HISTORY_END_APART};
    expect(HISTORY_POSSIBLE);
    shared_offset(101); /* both read the same cell */
    w.h.limits = (struct history_limits){.split = 1, .end = HISTORY_END_APART};
    refused(5);
    w.h.limits = (struct history_limits){0};
    refused(5);
}

/* No call looks while they are under way: of eight every order is kept, of sixteen there are too many, which it says. */
static void many_at_once(void **state)
{
    (void)state;
    begin(0);
    for (uint32_t i = 0; i < 8; i++)
        appends(i, 10, 90, 1, 100 * (i + 1));
    sizes(8, 91, 92, 8);
    expect(HISTORY_POSSIBLE);
    begin(0);
    for (uint32_t i = 0; i < 16; i++)
        appends(i, 10, 90, 1, 100 * (i + 1));
    expect(HISTORY_UNDECIDED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(accepts_calls_in_turn),
        cmocka_unit_test(accepts_what_overlaps),
        cmocka_unit_test(accepts_a_long_write),
        cmocka_unit_test(refuses_stale_reads),
        cmocka_unit_test(refuses_values_from_the_future),
        cmocka_unit_test(refuses_what_vanishes_and_returns),
        cmocka_unit_test(refuses_two_orders),
        cmocka_unit_test(refuses_lost_writes),
        cmocka_unit_test(refuses_appends_that_overlap_or_leave_holes),
        cmocka_unit_test(refuses_sizes_that_go_back),
        cmocka_unit_test(refuses_what_was_cut_off),
        cmocka_unit_test(refuses_torn_calls),
        cmocka_unit_test(accepts_no_more_than_kernels_do),
        cmocka_unit_test(refuses_second_parts_first),
        cmocka_unit_test(one_offset_for_all),
        cmocka_unit_test(many_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
