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

#include <errno.h>
#include <tierbench/trace.h>

#include "../wrap.h"

static inline tb_trace *tb_application(void)
{
    return tb_trace_of(TB_TRACE_APPLICATION);
}

static inline struct tb_trace_time tb_since(double start)
{
    return (struct tb_trace_time){start, tb_trace_now()};
}

/* `result` of `call`; where it `went` well, `record` it with its time `t`.  What the program finds in errno is the call's. */
#define TB_TRACED(type, call, went, record)                                                                                      \
    do {                                                                                                                         \
        double start = tb_trace_now();                                                                                           \
        type result = call;                                                                                                      \
        if (went) {                                                                                                              \
            struct tb_trace_time t = tb_since(start);                                                                            \
            int saved = errno;                                                                                                   \
            record;                                                                                                              \
            errno = saved;                                                                                                       \
        }                                                                                                                        \
        return result;                                                                                                           \
    } while (0)

#endif
