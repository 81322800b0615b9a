/* Pass-through operations; see io/io_layer.h. */
#include "io/io_layer.h"

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
    *table = *own;
#define FILL(type, op, parameters, ...) \
    if (table->op == NULL)              \
        table->op = pass_##op;
    TB_IO_OPERATIONS(FILL)
    io->ops = table;
    io->next = next;
}
