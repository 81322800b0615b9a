/*
 * Pass-through operations (io/io_layer.h). They and the gaps are made from the one list of
 * operations, so that a new one cannot be missing in a layer that was there before.
 */
#include "io/io_layer.h"

#include <assert.h>
#include <stddef.h>

#define PASS(type, op, parameters, ...)      \
    static type pass_##op parameters         \
    {                                        \
        return TB_NEXT(io, op, __VA_ARGS__); \
    }
TB_IO_OPERATIONS(PASS)

/* Not `free`: a layer that has none owns nothing, and must not free what is below it. */
void tb_io_layer_init(struct tb_io *io, struct tb_io_ops *table, const struct tb_io_ops *own, struct tb_io *next)
{
    assert(next != NULL && own->name != NULL); /* the last layer is written by hand */
    *table = *own;
#define FILL(type, op, parameters, ...) \
    if (table->op == NULL)              \
        table->op = pass_##op;
    TB_IO_OPERATIONS(FILL)
    io->ops = table;
    io->next = next;
}
