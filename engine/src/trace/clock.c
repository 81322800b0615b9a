/*
 * The clock of a trace: the time-stamp counter if the kernel itself keeps time by it, else
 * CLOCK_MONOTONIC (trace/clock.h). A traced call needs two times, so what a look costs counts.
 */
#include "trace/clock.h"

#include <fcntl.h>
#include <math.h>
#include <string.h>
#include <sys/syscall.h>
#include <tierbench/trace.h>
#include <time.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "trace/file.h"

#define LOOKS 16
#define DRIFT 500e-6 /* of a second in a second: what NTP may bend CLOCK_MONOTONIC by */
#define SLACK 1e-3   /* seconds: a look at both may be interrupted */

struct tb_trace_clock tb_trace_clock;
static uint64_t start_ns;
static bool libc_is_wrong;

/* By a system call and not by libc: a library between libc and the program may falsify the clock, and a trace must show that. */
static uint64_t kernel_ns(void)
{
    struct timespec t = {0, 0};
    syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* The slower clock, for processes and machines where the counter cannot be believed; by way of libc it costs least. */
double tb_trace_now_by_kernel(void)
{
    uint64_t now = libc_is_wrong ? kernel_ns() : tb_now_ns();
    return start_ns ? (double)(int64_t)(now - start_ns) * 1e-9 : 0;
}

/* The shortest of several looks is the most exact: the others were interrupted. */
struct tb_trace_moment tb_trace_moment(void)
{
    struct tb_trace_moment best = {0, 0};
    for (uint64_t i = 0, shortest = UINT64_MAX; i < LOOKS; i++) {
        uint64_t before = tb_trace_ticks(), ns = kernel_ns(), took = tb_trace_ticks() - before;
        if (took >= shortest)
            continue;
        shortest = took;
        best = (struct tb_trace_moment){ns, before + took / 2};
    }
    return best;
}

/*
 * Does the counter run at one rate on all cores?  The kernel uses it as its own clock only
 * then. It may change its mind later: then tb_trace_clocks_agree finds that they differ.
 */
static bool counter_is_clock(void)
{
#if defined(__x86_64__)
    char source[32] = "";
    unsigned a, b, c, d = 0;
    int fd = open("/sys/devices/system/clocksource/clocksource0/current_clocksource", O_RDONLY | O_CLOEXEC);
    if (fd < 0 || read(fd, source, sizeof(source) - 1) < 0)
        source[0] = 0;
    if (fd >= 0)
        close(fd);
    return strcmp(source, "tsc\n") == 0 && __get_cpuid(0x80000007, &a, &b, &c, &d) && d & 1u << 8;
#else
    return false;
#endif
}

/* Two moments of the job's start. 0: the counter is not used, and nothing divides by it. */
double tb_trace_seconds_a_tick(struct tb_trace_moment from, struct tb_trace_moment to)
{
    if (!counter_is_clock() || to.ticks <= from.ticks || to.ns <= from.ns)
        return 0;
    return (double)(to.ns - from.ns) * 1e-9 / (double)(to.ticks - from.ticks);
}

/* By how much the counter is ahead now. Signed, since the job's start may be in the future of a clock that lags. */
double tb_trace_clock_error(const struct tb_trace_job *job)
{
    struct tb_trace_moment now = tb_trace_moment();
    if (!(job->seconds_a_tick > 0))
        return 0;
    return (double)(int64_t)(now.ticks - job->start_ticks) * job->seconds_a_tick - (double)(int64_t)(now.ns - job->start_ns) * 1e-9;
}

/* More than rates drift apart by themselves means that the counter cannot be believed. */
bool tb_trace_clocks_agree(const struct tb_trace_job *job)
{
    double lasted = (double)(int64_t)(kernel_ns() - job->start_ns) * 1e-9;
    return fabs(tb_trace_clock_error(job)) <= SLACK + DRIFT * fabs(lasted);
}

void tb_trace_clock_begin(const struct tb_trace_job *job)
{
    start_ns = job->start_ns;
    libc_is_wrong = fabs((double)(int64_t)(tb_now_ns() - kernel_ns()) * 1e-9) > SLACK;
    tb_trace_clock = (struct tb_trace_clock){job->start_ticks, tb_trace_clocks_agree(job) ? job->seconds_a_tick : 0};
}
