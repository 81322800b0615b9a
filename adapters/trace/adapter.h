/*
 * The application side of a trace: every call a program makes on its files, with
 * or without the engine below.
 *
 * A library of its own, in front of all others in LD_PRELOAD: each wrapper looks at
 * the clock, calls the next function of that name (the preload adapter's, or
 * libc's), looks again and tells the trace.  A run without a trace doesn't load it
 * and pays nothing.  The calls are those that Darshan counts, and what fortified
 * and newer programs call instead of them.
 *
 * Limits: raw system calls, io_uring and static programs are not seen; what libc
 * does for a stream is the stream's, not the descriptor's.
 */
#ifndef TB_TRACE_ADAPTER_H
#define TB_TRACE_ADAPTER_H

#include <stdatomic.h>
#include <tierbench/trace.h>

#include "../wrap.h"

/* Looked up once: a trace lives as long as the process, and where there is none this library does little. */
extern tb_trace *_Atomic tb_application_found;
static inline tb_trace *tb_application(void)
{
    tb_trace *t = atomic_load_explicit(&tb_application_found, memory_order_relaxed);
    if (!t)
        tb_application_found = t = tb_trace_of(TB_TRACE_APPLICATION);
    return t;
}

/* Never backwards, should the counters of two cores differ. */
static inline struct tb_trace_time tb_since(double start)
{
    double end = tb_trace_now();
    return (struct tb_trace_time){start, end > start ? end : start};
}

/* `result` of `call`; where it `went` well, `record` it with its time `t`. */
#define TB_TRACED(type, call, went, record)           \
    do {                                              \
        double start = tb_trace_now();                \
        type result = call;                           \
        if (went) {                                   \
            struct tb_trace_time t = tb_since(start); \
            record;                                   \
        }                                             \
        return result;                                \
    } while (0)

#endif
