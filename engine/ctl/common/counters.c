/*
 * The tables of counters: one row is a field of the statistics, its name in JSON, its heading
 * in the table of `status` (none: not shown), its name and kind in OpenMetrics. A counter that
 * is added here appears in all three. Columns in bytes come before those in numbers.
 */
#include "common/counters.h"

#include <tierbench/engine.h>

#define TIER(field, heading, metric, kind, unit, help) \
    CTL_COUNTER(struct tb_tier_stats, field, #field, heading, "tier_" metric, CTL_##kind, CTL_##unit, help)
#define PFS(field, name, metric, help) CTL_COUNTER(struct tb_stats, field, name, NULL, "pfs_" metric, CTL_TOTAL, CTL_BYTES, help)
#define OWN(field, name, metric, kind, unit, help) CTL_COUNTER(struct tb_stats, field, name, NULL, metric, CTL_##kind, CTL_##unit, help)

const struct ctl_counter ctl_tier_counters[] = {
    TIER(capacity, "capacity", "capacity", GAUGE, BYTES, "Bytes of buffers in the tier"),
    TIER(used, "used", "used", GAUGE, BYTES, "Bytes of buffers that hold something"),
    TIER(dirty, "dirty", "dirty", GAUGE, BYTES, "Bytes that the PFS does not have yet"),
    TIER(bytes_in, "written", "written", TOTAL, BYTES, "Bytes that programs wrote into buffers"),
    TIER(bytes_out, "read", "read", TOTAL, BYTES, "Bytes that programs read from buffers"),
    TIER(writes, "writes", "writes", TOTAL, NUMBER, "Operations that wrote into buffers"),
    TIER(hits, NULL, "hits", TOTAL, NUMBER, "Reads that the tier served"),
    TIER(moved_in, NULL, "moved_in", TOTAL, BYTES, "Bytes moved here from another tier"),
    TIER(flushed, "flushed", "flushed", TOTAL, BYTES, "Bytes flushed from here to the PFS"),
    TIER(waits, NULL, "waits", TOTAL, NUMBER, "Allocations that found no free buffer"),
    {0},
};

const struct ctl_counter ctl_pfs_counters[] = {
    PFS(pfs_bytes_written, "bytes_written", "written", "Bytes that the engine wrote to the PFS"),
    PFS(pfs_bytes_read, "bytes_read", "read", "Bytes that the engine read from the PFS"),
    {0},
};

const struct ctl_counter ctl_counters[] = {
    OWN(spilled, "spilled", "spilled", TOTAL, BYTES, "Bytes that found the tiers full and went straight to the PFS"),
    OWN(staged, "staged", "staged", TOTAL, BYTES, "Bytes that reads brought into buffers, prefetched ones included"),
    OWN(prefetched, "prefetched", "prefetched", TOTAL, BYTES, "Bytes brought into buffers ahead of a read"),
    OWN(remote_read, "remote_read", "remote_read", TOTAL, BYTES, "Bytes read from the tiers of other nodes"),
    OWN(fsyncs, "fsyncs", "fsyncs", TOTAL, NUMBER, "Calls of fsync"),
    OWN(passed, "passed", "passed_opens", TOTAL, NUMBER, "Opens that passed through unbuffered because max_files was reached"),
    OWN(fallbacks, "fallbacks", "fallbacks", TOTAL, NUMBER, "Times that a file fell back to the PFS until its last close"),
    OWN(n_files, "files", "files", GAUGE, NUMBER, "Files that the instance knows"),
    OWN(n_dirty_files, "dirty_files", "dirty_files", GAUGE, NUMBER, "Files with bytes that the PFS does not have yet"),
    {0},
};

/* Fields are 32 or 64 bits wide; the row knows the size, so no reader has to. */
uint64_t ctl_counter_value(const struct ctl_counter *c, const void *from)
{
    const char *at = (const char *)from + c->offset;
    return c->size == sizeof(uint32_t) ? *(const uint32_t *)(const void *)at : *(const uint64_t *)(const void *)at;
}
