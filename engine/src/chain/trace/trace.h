/*
 * The trace layer: the storage side of a trace, over the chain of one place.
 * TIERBENCH_TRACE puts it into every chain of a process.
 *
 * Its times are the model's where the place has one: device time that is reserved
 * under the engine's locks counts with the operation, though it is paid later.
 */
#ifndef TB_IO_TRACE_H
#define TB_IO_TRACE_H

#include "io/io_layer.h"

/* Where the process records the storage side: it has read TIERBENCH_TRACE by itself. */
struct tb_io *tb_io_trace_new(const struct tb_io_place *place, const char *text, struct tb_io *next);

#endif
