/* The chain as a whole: which layers it has, in which order, and what is freed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "chain/chain.h"
#include "chain/model/device_clock.h"
#include "io/io_layer.h"

static const struct tb_device device;
static struct tb_device_clock device_clock;

/* From the top down; the base is the last and has no next. */
static void assert_layers(struct tb_io *io, const char *const names[], size_t n)
{
    for (size_t i = 0; i < n; i++, io = io->next) {
        assert_non_null(io);
        assert_string_equal(io->ops->name, names[i]);
    }
    assert_null(io);
}

static void what_is_not_asked_for_is_not_there(void **state)
{
    static const char *const names[] = {"libc"};
    (void)state;
    struct tb_io *io = tb_chain_new(NULL, NULL, tb_io_libc());
    assert_layers(io, names, 1);
    tb_chain_free(io, tb_io_libc());
}

/* The order of the table in chain.c. The trace layer is not among them: a process that is not traced has none. */
static void layers_lie_in_their_order(void **state)
{
    static const char *const names[] = {"fault", "undo", "model", "libc"};
    char log[64];
    (void)state;
    snprintf(log, sizeof(log), "/tmp/tierbench-chain-%d", (int)getpid());
    setenv("TB_FAULT", "op=fsync,errno=EIO", 1);
    setenv("TB_UNDO", log, 1);
    struct tb_io *io = tb_chain_new(&device, &device_clock, tb_io_libc());
    assert_layers(io, names, 4);
    tb_chain_free(io, tb_io_libc());
    setenv("TB_FAULT", "", 1);
    setenv("TB_UNDO", "", 1);
    assert_ptr_equal(tb_chain_new(NULL, NULL, tb_io_libc()), tb_io_libc()); /* empty is not set */
    unsetenv("TB_FAULT");
    unsetenv("TB_UNDO");
    unlink(log);
}

static int n_freed;

static void count_free(struct tb_io *io)
{
    (void)io;
    n_freed++;
}

/* A program may hand over a base that is a layer itself. */
static void the_base_stays(void **state)
{
    static const struct tb_io_ops own = {.name = "base", .free = count_free};
    struct tb_io_ops table;
    struct tb_io base;
    (void)state;
    tb_io_layer_init(&base, &table, &own, tb_io_libc());
    tb_chain_free(tb_chain_new(&device, &device_clock, &base), &base);
    setenv("TB_FAULT", "op=no such", 1); /* a chain that fails half made */
    assert_null(tb_chain_new(&device, &device_clock, &base));
    unsetenv("TB_FAULT");
    assert_int_equal(n_freed, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_not_asked_for_is_not_there),
        cmocka_unit_test(layers_lie_in_their_order),
        cmocka_unit_test(the_base_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
