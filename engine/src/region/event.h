/*
 * A counter in the region that grows when something has happened, and threads that sleep
 * until then, in any process (futex). A waiting thread reads the counter first, then looks whether
 * there is something to do, then sleeps: what happens in between wakes it at once.
 */
#ifndef TB_REGION_EVENT_H
#define TB_REGION_EVENT_H

#include <limits.h>
#include <linux/futex.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static inline void tb_event_wake(_Atomic uint32_t *event)
{
    syscall(SYS_futex, event, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* One of them, the one that has slept longest. */
static inline void tb_event_wake_one(_Atomic uint32_t *event)
{
    syscall(SYS_futex, event, FUTEX_WAKE, 1, NULL, NULL, 0);
}

/* Until it is no longer `seen`, or so long; may end early. Less than a second. */
static inline void tb_event_wait(_Atomic uint32_t *event, uint32_t seen, long limit_ns)
{
    struct timespec limit = {0, limit_ns};
    syscall(SYS_futex, event, FUTEX_WAIT, seen, &limit, NULL, 0);
}

#endif
