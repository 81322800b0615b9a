/*
 * The organizer's part in the daemon: time as heat knows it, and demotion.
 *
 * Bytes that the PFS has count as room: a write that needs a buffer reclaims the coldest.
 * Bytes that it lacks do not. If they fill a tier above `organizer.high`, the coldest of
 * them are moved down until `organizer.low`.  That is done while programs compute, a few
 * MiB at a time: during their I/O it would only take bandwidth from the tier below, which
 * takes what overflows anyway.
 */
#ifndef TB_ORGANIZER_H
#define TB_ORGANIZER_H

#include "region/handle.h"

#define TB_ORGANIZER_TICK_NS 10000000

struct tb_organizer {
    uint64_t traffic, epoch_traffic; /* bytes that programs moved: at the last tick, when the epoch began */
    uint32_t quiet;                  /* ticks without any */
    struct {
        bool full;       /* was above high, and not yet below low */
        uint32_t limit;  /* what is colder goes down now */
        uint32_t hand;   /* where the tier is looked at next, */
        uint32_t passed; /* and how many buffers since the last that moved */
    } tier[TB_MAX_TIERS];
};

/* One tick; true where there is more to do at once. */
bool tb_organizer_tick(tb_engine *e, struct tb_organizer *o);

#endif
