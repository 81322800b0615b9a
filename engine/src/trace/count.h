/*
 * What every module counts of a call, on the path of every one of them: inline, and
 * without a branch that the program's next size or offset decides where that can be.
 */
#ifndef TB_TRACE_COUNT_H
#define TB_TRACE_COUNT_H

#include "trace/file.h"

/* A killed process may have left any number: the sum wraps around, and is never undefined. */
static inline int64_t tb_trace_sum(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a + (uint64_t)b);
}

static inline void tb_trace_add(int64_t *sum, int64_t n)
{
    *sum = tb_trace_sum(*sum, n);
}

/* Time without overlap: what several threads spend at once counts once. */
static inline void tb_trace_add_time(double *sum, double *until, struct tb_trace_time t)
{
    if (t.end <= *until)
        return;
    *sum += t.end - (t.start > *until ? t.start : *until);
    *until = t.end;
}

static inline void tb_trace_note_first_last(double *first, double *last, struct tb_trace_time t)
{
    if (*first == 0 || *first > t.start)
        *first = t.start;
    *last = t.end;
}

static inline void tb_trace_note_longest(double *longest, int64_t *size, int64_t n, struct tb_trace_time t)
{
    if (*longest >= t.end - t.start)
        return;
    *longest = t.end - t.start;
    *size = n;
}

static inline void tb_trace_count_size(int64_t *bins, int64_t n, uint32_t times)
{
    static const int64_t ends[] = {100, 1 << 10, 10 << 10, 100 << 10, 1 << 20, 4 << 20, 10 << 20, 100 << 20, 1 << 30};
    int i = 0;
    while (i < 9 && n > ends[i])
        i++;
    tb_trace_add(&bins[i], times);
}

static inline uint8_t tb_trace_new_value(struct tb_trace_common *c, uint32_t place, int64_t value)
{
    c->place[place] = (uint8_t)++c->n;
    c->value[c->n] = value;
    return (uint8_t)c->n;
}

/*
 * The first values that come are counted each on its own, all later ones together. Neither
 * a person nor the processor can predict whether a value is one of the first. So nothing
 * branches on it, only on a rare case: two values that have one place.
 */
static inline void tb_trace_count_common(struct tb_trace_common *c, int64_t value, uint32_t times)
{
    uint32_t place = (uint32_t)((uint64_t)value * 0x9e3779b97f4a7c15ull >> 56);
    _Static_assert(sizeof(c->place) == 256 && TB_TRACE_COMMON < 128, "eight bits, and most places stay free");
    uint8_t i = c->place[place];
    while ((c->value[i] ^ value) & -(int64_t)(i != 0)) {
        place = (place + 1) % sizeof(c->place);
        i = c->place[place];
    }
    if (c->n < TB_TRACE_COMMON && i == 0)
        i = tb_trace_new_value(c, place, value);
    c->count[i] += times;
}

#endif
