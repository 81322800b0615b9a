/*
 * The clocks of a trace.  Two looks at the time-stamp counter cost half of two at
 * CLOCK_MONOTONIC, and each call is looked at twice.  The counter is believed where it is
 * invariant and the kernel itself keeps time by it; its rate is measured against
 * CLOCK_MONOTONIC by tierctl.  A process for which the two no longer agree (it runs
 * elsewhere, the machine was suspended or migrated) keeps to CLOCK_MONOTONIC.
 */
#ifndef TB_TRACE_CLOCK_H
#define TB_TRACE_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"

struct tb_trace_job;

static inline uint64_t tb_trace_ticks(void)
{
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#else
    return 0;
#endif
}

/* Both clocks at one moment, as near as a few looks get. */
struct tb_trace_moment {
    uint64_t ns, ticks;
};
struct tb_trace_moment tb_trace_moment(void);

/* From two moments; 0: this machine has no counter that can be believed. */
double tb_trace_seconds_a_tick(struct tb_trace_moment from, struct tb_trace_moment to);

/* How far the counter is off CLOCK_MONOTONIC by now, seconds; 0 where it is not used. */
double tb_trace_clock_error(const struct tb_trace_job *job);
/* More than rates drift apart by themselves. */
bool tb_trace_clocks_agree(const struct tb_trace_job *job);

/* This process's clock from now on: tb_trace_now. */
void tb_trace_clock_begin(const struct tb_trace_job *job);

#endif
