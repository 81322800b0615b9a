/*
 * The counters of an instance, each once: what JSON calls it, its column of the table, and its metric.
 */
#ifndef TB_CTL_COMMON_COUNTERS_H
#define TB_CTL_COMMON_COUNTERS_H

#include <stddef.h>
#include <stdint.h>

enum ctl_unit { CTL_BYTES, CTL_NUMBER };
enum ctl_kind { CTL_TOTAL, CTL_GAUGE }; /* a total never falls while the instance lives */

struct ctl_counter {
    const char *name;    /* in JSON, as the schema of stats.json repeats it */
    const char *heading; /* of a column of the table, or NULL */
    const char *metric;  /* in OpenMetrics, without "tierbench_" and what its unit and kind append */
    enum ctl_kind kind;
    enum ctl_unit unit;
    size_t offset, size;
    const char *help;
};
#define CTL_COUNTER(struct, field, name, heading, metric, kind, unit, help) \
    {name, heading, metric, kind, unit, offsetof(struct, field), sizeof(((struct *)0)->field), help}

/* Of a struct tb_tier_stats; of a struct tb_stats the other two. The last row of each has no name. */
extern const struct ctl_counter ctl_tier_counters[], ctl_pfs_counters[], ctl_counters[];

/* Of the struct that the row is of. */
uint64_t ctl_counter_value(const struct ctl_counter *counter, const void *from);

#endif
