/*
 * Memory that is lent to other nodes: each has its own, nothing outside it is touched, what is late changes nothing, and what was
 * given back is never read as zeros. And places: each buffer has one of its own, whatever the number of nodes.
 */
#include "fixture.h"

#include <errno.h>

#include "lend.h"
#include "shared/borrow.h"

#define SECTION (1u << 20)
#define SECOND 1000000000ull

static struct tb_wire wire(enum tb_wire_op op, uint64_t lo, uint64_t hi, uint32_t n, uint64_t version)
{
    return (struct tb_wire){.op = op, .lo = lo, .hi = hi, .n = n, .version = version};
}

static int64_t put(struct lend *l, unsigned borrower, uint64_t place, uint64_t at, int what, uint32_t n, uint64_t version)
{
    struct tb_wire w = wire(TB_WIRE_PUT, place, at, n, version);
    char bytes[70000];
    memset(bytes, what, sizeof(bytes));
    return lend_put(l, borrower, &w, bytes, n);
}

static int64_t get(struct lend *l, unsigned borrower, uint64_t place, uint64_t at, uint32_t n, uint64_t version, char *to)
{
    struct tb_wire w = wire(TB_WIRE_GET, place, at, n, version);
    return lend_get(l, borrower, &w, to, n);
}

static struct lend *begin(unsigned n_nodes)
{
    struct lend *l = NULL;
    assert_int_equal(lend_begin(SECTION, n_nodes, &l), 0);
    assert_int_equal(lend_bytes(l), (n_nodes - 1) * SECTION);
    return l;
}

static void test_each_has_its_own(void **state)
{
    (void)state;
    struct lend *l = begin(3);
    char seen[65536];
    assert_int_equal(put(l, 0, 0, 100, 'a', 65536 - 100, 1), 0);
    assert_int_equal(put(l, 1, 0, 0, 'b', 65536, 1), 0);
    assert_int_equal(put(l, 0, SECTION - 65536, SECTION - 1, 'c', 1, 2), 0);
    assert_int_equal(get(l, 0, 0, 0, 65536, 3, seen), 65536);
    for (int i = 0; i < 65536; i++)
        assert_int_equal(seen[i], i < 100 ? 0 : 'a');
    assert_int_equal(get(l, 0, SECTION - 65536, SECTION - 1, 1, 4, seen), 1);
    assert_int_equal(seen[0], 'c');
    lend_end(l);
}

static void test_what_lies_outside_is_refused(void **state)
{
    (void)state;
    struct lend *l = begin(3);
    char seen[65536];
    assert_int_equal(put(l, 2, 0, 0, 'a', 10, 1), -EPROTO);                           /* no such borrower */
    assert_int_equal(put(l, 0, 0, SECTION - 5, 'a', 10, 1), -EPROTO);                 /* past the end */
    assert_int_equal(put(l, 0, SECTION + 4096, SECTION + 4096, 'a', 10, 1), -EPROTO); /* all of it */
    assert_int_equal(put(l, 0, UINT64_MAX - 4095, UINT64_MAX - 4095, 'a', 10, 1), -EPROTO);
    assert_int_equal(put(l, 0, 8192, 4096, 'a', 10, 1), -EPROTO); /* before its buffer */
    assert_int_equal(put(l, 0, 100, 100, 'a', 10, 1), -EPROTO);   /* no buffer begins there */
    assert_int_equal(put(l, 0, 0, 0, 'a', 0, 1), -EPROTO);
    struct tb_wire w = wire(TB_WIRE_PUT, 0, 0, 100, 1);
    assert_int_equal(lend_put(l, 0, &w, seen, 99), -EPROTO); /* shorter than it says */
    w = wire(TB_WIRE_GET, 0, 0, 100, 1);
    assert_int_equal(lend_get(l, 0, &w, seen, 99), -EPROTO);
    assert_int_equal(get(l, 0, 0, SECTION - 1, 2, 1, seen), -EPROTO);
    lend_end(l);
}

/* Of a client that was killed, or gave up, a message may be on its way still. */
static void test_what_is_late_changes_nothing(void **state)
{
    (void)state;
    struct lend *l = begin(2);
    char seen[10];
    assert_int_equal(put(l, 0, 4096, 4096, 'a', 10, 5), 0);
    assert_int_equal(put(l, 0, 4096, 4100, 'b', 10, 4), -ESTALE);
    assert_int_equal(put(l, 0, 4096, 4100, 'b', 10, 5), -ESTALE);
    assert_int_equal(get(l, 0, 4096, 4096, 10, 9, seen), 10);
    assert_memory_equal(seen, "aaaaaaaaaa", 10);
    assert_int_equal(put(l, 0, 4096, 4096, 'b', 10, 8), -ESTALE); /* it was read since */
    assert_int_equal(get(l, 0, 4096, 4096, 10, 7, seen), 10);     /* a reader is never late */
    assert_int_equal(put(l, 0, 4096, 4096, 'b', 10, 8), -ESTALE);
    assert_int_equal(put(l, 0, 8192, 8192, 'c', 10, 1), 0); /* another buffer */
    assert_int_equal(put(l, 0, 4096, 4096, 'd', 10, 10), 0);
    lend_end(l);
}

static void test_memory_is_given_back(void **state)
{
    (void)state;
    struct lend *l = begin(3);
    char seen[10];
    uint64_t now = 1000 * SECOND;
    assert_int_equal(put(l, 0, 0, 0, 'a', 10, 1), 0);
    assert_int_equal(put(l, 1, 0, 0, 'b', 10, 1), 0);
    assert_false(lend_look(l, 0, true, now));
    assert_false(lend_look(l, 0, false, now += SECOND));
    assert_false(lend_look(l, 0, false, now += (LEND_SECONDS - 1) * SECOND));
    assert_false(lend_look(l, 0, true, now)); /* it is back */
    assert_false(lend_look(l, 0, false, now += 100 * SECOND));
    assert_false(lend_look(l, 0, false, now += LEND_SECONDS * SECOND));
    assert_int_equal(get(l, 0, 0, 0, 10, 2, seen), 10);
    assert_true(lend_look(l, 0, false, now += SECOND));
    assert_false(lend_look(l, 0, false, now += SECOND));
    assert_int_equal(lend_bytes(l), SECTION);
    assert_int_equal(get(l, 0, 0, 0, 10, 3, seen), -ENODATA);
    assert_int_equal(put(l, 0, 0, 0, 'a', 10, 4), -ENODATA);
    assert_false(lend_look(l, 0, true, now += SECOND));
    assert_int_equal(get(l, 0, 0, 0, 10, 5, seen), -ENODATA);
    assert_int_equal(get(l, 1, 0, 0, 10, 2, seen), 10);
    assert_memory_equal(seen, "bbbbbbbbbb", 10);
    lend_end(l);
}

static void test_nothing_is_lent(void **state)
{
    (void)state;
    struct lend *l = NULL;
    char seen[1];
    assert_int_equal(lend_begin(0, 4, &l), 0);
    assert_int_equal(lend_bytes(l), 0);
    assert_int_equal(put(l, 0, 0, 0, 'a', 1, 1), -EPROTO);
    assert_int_equal(get(l, 0, 0, 0, 1, 1, seen), -EPROTO);
    assert_false(lend_look(l, 0, false, SECOND));
    lend_end(l);
}

/* Of each node that lends, the places of one borrower's buffers are in its section and apart; and all lend about as many. */
static void test_each_buffer_has_its_place(void **state)
{
    (void)state;
    struct fixture x;
    fixture_init(&x, TB_MODE_PERSISTENT_ASYNC);
    x.config.tiers[1].medium = TB_MEDIUM_REMOTE;
    x.config.tiers[1].path[0] = 0;
    fixture_start(&x);
    tb_engine *e = x.engine;
    const struct tb_layout *l = &e->header->layout;
    for (uint32_t nodes = 2; nodes < 8; nodes++) {
        uint64_t section = tb_borrow_section(&x.config, l, nodes);
        char *taken = calloc(nodes, section);
        uint32_t count[8] = {0};
        assert_true(section * (nodes - 1) >= tb_layout_tier_bytes(l, 1));
        assert_true(section * (nodes - 1) < tb_layout_tier_bytes(l, 1) + nodes * 2 * 65536);
        e->header->asking.n_nodes = nodes;
        e->header->asking.self = nodes / 2;
        for (uint32_t i = 0; i < l->n_buffers; i++) {
            if (!tb_buffer_is_remote(e, &e->region.buffers[i]))
                continue;
            struct tb_borrowed at = tb_borrowed_at(e, i);
            uint64_t size = tb_buffer_size(e, &e->region.buffers[i]);
            assert_true(at.node < nodes && at.node != nodes / 2 && at.place % TB_BORROW_UNIT == 0 && at.place + size <= section);
            for (uint64_t k = 0; k < size; k += TB_BORROW_UNIT)
                assert_int_equal(taken[at.node * section + at.place + k]++, 0);
            count[at.node]++;
        }
        for (uint32_t i = 0; i < nodes; i++)
            for (uint32_t k = 0; k < nodes; k++)
                assert_true(i == nodes / 2 || k == nodes / 2 || count[i] <= count[k] + 2);
        free(taken);
    }
    assert_int_equal(tb_borrow_section(&x.config, l, 1), 0);
    fixture_stop(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_has_its_own),
        cmocka_unit_test(test_what_lies_outside_is_refused),
        cmocka_unit_test(test_what_is_late_changes_nothing),
        cmocka_unit_test(test_memory_is_given_back),
        cmocka_unit_test(test_nothing_is_lent),
        cmocka_unit_test(test_each_buffer_has_its_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
