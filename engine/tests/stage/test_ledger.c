/* A ledger that only counts has the numbers of a whole one after each line, and the files when it is read as a whole. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "stage/log/ledger.h"

/* WORD, then SOURCE (its destination is "to SOURCE"), and bytes. */
static const struct {
    const char *word, *source, *bytes;
} told[] = {
    {"queued", "a", "100"},  {"queued", "b", "5"},   {"moving", "a", "30"}, {"moved", "b", "5"},    {"moving", "a", "60"},
    {"queued", "c", "7"},    {"failed", "c", "why"}, {"moved", "a", "100"}, {"queued", "d", "200"}, {"moving", "d", "150"},
    {"failed", "d", "torn"}, {"gone", "e", "6"},     {"queued", "b", "6"},  {"moved", "b", "6"},    {"queued", "f", "1"},
};
#define N_TOLD (sizeof(told) / sizeof(told[0]))

static void tell(struct tb_ledger *l, size_t i)
{
    struct tb_lines lines = {0};
    char to[16];
    snprintf(to, sizeof(to), "to %s", told[i].source);
    tb_lines_fact(&lines, told[i].word, i % 2 ? "n1" : "n2", told[i].source, to, told[i].bytes, "sum", "1", "2", NULL);
    assert_int_equal(tb_ledger_append(l, &lines), 0);
    tb_lines_free(&lines);
}

static void name(void *arg, const struct tb_entry *e)
{
    char *all = arg;
    sprintf(all + strlen(all), "%s:%s %s;", e->host, e->source, e->reason ? e->reason : "");
}

static void assert_same_counts(const struct tb_ledger *a, const struct tb_ledger *b)
{
    assert_int_equal(a->bytes_queued, b->bytes_queued);
    assert_int_equal(a->bytes_moved, b->bytes_moved);
}

static void test_counts_are_those_of_all(void **state)
{
    char folder[] = "/tmp/tb-ledger.XXXXXX", path[64], left[200] = "";
    struct tb_ledger whole, counts;
    struct stat st = {.st_size = 6, .st_mtim = {0, 1}, .st_ctim = {0, 2}};
    (void)state;
    assert_non_null(mkdtemp(folder));
    assert_int_equal(tb_ledger_open(&whole, folder), 0);
    assert_int_equal(tb_ledger_open_counts(&counts, folder), 0);
    for (size_t i = 0; i < N_TOLD; i++) {
        tell(&whole, i);
        assert_int_equal(tb_ledger_refresh(&counts), 0);
        assert_same_counts(&whole, &counts);
    }
    assert_int_equal(counts.table.n, 2); /* those that were told while they were moved */
    assert_true(tb_ledger_has_moved(&whole, "n2", "b", "to b", &st) != tb_ledger_has_moved(&whole, "n1", "b", "to b", &st));
    assert_int_equal(tb_ledger_read_all(&counts), 0);
    assert_same_counts(&whole, &counts);
    assert_int_equal(counts.table.n, whole.table.n);
    tb_ledger_each_left(&counts, name, left);
    assert_string_equal(left, "n2:c why;n2:d torn;n2:f ;");
    tb_ledger_close(&counts);
    tb_ledger_close(&whole);
    snprintf(path, sizeof(path), "%s/%s", folder, TB_LOG_NAME);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(folder), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_counts_are_those_of_all)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
