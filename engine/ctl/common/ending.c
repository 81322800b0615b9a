/*
 * What is the same wherever an instance ends: `run`, `stop`, and `run` on several nodes. The
 * drain is timed here, and its numbers go to the file of --stats.
 */
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "base/private_files.h"
#include "common/ending.h"
#include "common/show.h"

/* By the counters of the tiers: what the drain is about to write, or could not. */
static uint64_t dirty_bytes(tb_engine *e)
{
    struct tb_stats s;
    uint64_t n = 0;
    tb_engine_stats(e, &s);
    for (uint32_t t = 0; t < s.n_tiers; t++)
        n += s.tier[t].dirty;
    return n;
}

/* `bytes` is what was dirty before the drain; the time is in seconds. */
struct ctl_ending ctl_drain_measured(tb_engine *engine, const char *retry)
{
    struct ctl_ending end = {.bytes = dirty_bytes(engine)};
    double start = ctl_now();
    end.rc = ctl_drain(engine, retry);
    end.drain_s = ctl_now() - start;
    return end;
}

json_t *ctl_stats_json(tb_engine *engine, const struct ctl_ending *ending)
{
    json_t *j = ctl_instance_json(engine, true);
    json_object_set_new(j, "drain_s", json_real(ending->drain_s));
    json_object_set_new(j, "drained_bytes", json_integer((json_int_t)ending->bytes));
    json_object_set_new(j, "durable_s", json_real(ending->drain_s));
    return j;
}

/* Renamed once it is whole, so that a reader never finds half a file. A kill may leave PATH.RANDOM.part. */
int ctl_stats_write(const char *path, json_t *stats)
{
    char part[PATH_MAX];
    FILE *out = tb_part_open(path, part, sizeof(part));
    int rc = out ? json_dumpf(stats, out, JSON_INDENT(1)) : -1;
    if (out && fclose(out))
        rc = -1;
    rc = rc ? rc : rename(part, path);
    if (rc && out)
        unlink(part);
    return rc ? ctl_fail("--stats %s: cannot write: %s", path, strerror(errno)) : 0;
}
