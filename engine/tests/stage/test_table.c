/* A table against a plain array: what was added is found, also after a gap that a removal closed. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>

#include "stage/log/table.h"

enum { NAMES = 2000, STEPS = 100000 };

static void test_what_is_in_it_is_found(void **state)
{
    static char name[NAMES][24];
    static int is_in[NAMES];
    struct tb_table table = {0};
    size_t n = 0;
    (void)state;
    srandom(7);
    for (int i = 0; i < NAMES; i++)
        snprintf(name[i], sizeof(name[i]), "/pfs/%08d", i);
    for (int step = 0; step < STEPS; step++) {
        long i = random() % NAMES, looked = random() % NAMES;
        if (is_in[i])
            tb_table_remove(&table, name[i]);
        else
            assert_int_equal(tb_table_add(&table, name[i], &is_in[i]), 0);
        is_in[i] = !is_in[i];
        n += is_in[i] ? 1 : (size_t)-1;
        assert_ptr_equal(tb_table_find(&table, name[looked]), is_in[looked] ? &is_in[looked] : NULL);
        assert_int_equal(table.n, n);
    }
    tb_table_end(&table, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_what_is_in_it_is_found)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
