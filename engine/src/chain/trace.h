/*
 * The trace layer: the storage side of a trace, over the chain of one place.
 * TIERBENCH_TRACE puts it into every chain of a process.
 *
 * Its times are the model's where the place has one: device time that is reserved
 * under the engine's locks counts with the operation, though it is paid later.
 */
#ifndef TB_IO_TRACE_H
#define TB_IO_TRACE_H

#include <tierbench/io.h>
#include <tierbench/trace.h>

/* A layer over `next`.  NULL: no memory. */
struct tb_io *tb_io_trace_new(tb_trace *trace, struct tb_io *next);
void tb_io_trace_free(struct tb_io *io);

#endif
