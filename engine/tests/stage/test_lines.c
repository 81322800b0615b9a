/* Names of any bytes come back from the log as they went into it, in both kinds of lines. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "stage/log/lines.h"

static const char *const names[] = {
    "/pfs/plain", "", "\t", "\n", "\\", "\\t", "a\tb", "\na", "a\\", "\\\\n\t\t\n", "/pfs/\xff\x01 %s", "ends in a \\\\",
};
#define N_NAMES (sizeof(names) / sizeof(names[0]))

static size_t facts, spectrals;

static void take_fact(void *arg, const char *word, char **field, int n)
{
    (void)arg;
    assert_string_equal(word, "gone");
    assert_int_equal(n, 3);
    assert_string_equal(field[0], "host");
    assert_string_equal(field[1], names[facts]);
    assert_string_equal(field[2], names[N_NAMES - 1 - facts]);
    facts++;
}

static void take_spectral(void *arg, const char *word, char **field, int n)
{
    (void)arg;
    (void)n;
    assert_string_equal(word, "DONE");
    assert_string_equal(field[0], names[spectrals++]);
}

static void test_names_come_back(void **state)
{
    char folder[] = "/tmp/tb-lines.XXXXXX", path[64];
    struct tb_lines lines = {0};
    struct tb_log log;
    (void)state;
    assert_non_null(mkdtemp(folder));
    assert_int_equal(tb_log_open(&log, folder), 0);
    for (size_t i = 0; i < N_NAMES; i++) {
        tb_lines_fact(&lines, "gone", "host", names[i], names[N_NAMES - 1 - i], NULL);
        tb_lines_spectral(&lines, "DONE", names[i]);
    }
    assert_int_equal(tb_log_append(&log, &lines), 0);
    assert_int_equal(tb_log_read(&log, take_spectral, take_fact, NULL), 0);
    assert_int_equal(facts, N_NAMES);
    assert_int_equal(spectrals, N_NAMES);
    tb_lines_free(&lines);
    tb_log_close(&log);
    snprintf(path, sizeof(path), "%s/%s", folder, TB_LOG_NAME);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(folder), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_names_come_back)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
