/*
 * The queue of a tier is one time, written without a lock. If two threads reserve at once,
 * one reservation is lost; the next look corrects that.  What a thread placed before is done
 * when it places again, or is in a model's clock, so its own reservations do not count.
 */
#include "placement/queue.h"

#include <assert.h>
#include <tierbench/engine.h>

/* A real tier that is faster than its figures must not look busier with each write. */
#define QUEUE_MAX_NS UINT64_C(1000000000)

static _Thread_local uint64_t reserved_by_me[TB_MAX_TIERS];

static uint64_t busy_until(const _Atomic uint64_t *all, uint32_t tier, uint64_t now)
{
    uint64_t until = all[tier];
    return until > now && until != reserved_by_me[tier] ? until : now;
}

double tb_queue_seconds(const _Atomic uint64_t *until, uint32_t tier, uint64_t now)
{
    return (double)(busy_until(until, tier, now) - now) * 1e-9;
}

void tb_queue_reserve(_Atomic uint64_t *until, uint32_t tier, uint64_t now, double seconds)
{
    assert(seconds >= 0 && tier < TB_MAX_TIERS);
    uint64_t end = busy_until(until, tier, now) + (uint64_t)(seconds * 1e9);
    if (end > now + QUEUE_MAX_NS)
        end = now + QUEUE_MAX_NS;
    until[tier] = reserved_by_me[tier] = end;
}
