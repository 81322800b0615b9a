/* An instance as JSON and as a table: the same numbers either way. */
#include "common/show.h"

#include <string.h>

#include "base/process.h"
#include "base/report.h"
#include "common/ctl.h"
#include "config/placement.h"
#include "instance/stats.h"

#define MIB (1024.0 * 1024.0)
#define MAX_WAITS 64
#define MAX_SAMPLES 4096

static json_t *tier_json(const struct tb_tier_stats *t)
{
    return json_pack("{s:s s:I s:I s:I s:I s:I s:I s:I s:I s:I s:I}", "name", t->name, "capacity", (json_int_t)t->capacity, "used",
                     (json_int_t)t->used, "dirty", (json_int_t)t->dirty, "bytes_in", (json_int_t)t->bytes_in, "bytes_out",
                     (json_int_t)t->bytes_out, "writes", (json_int_t)t->writes, "hits", (json_int_t)t->hits, "moved_in",
                     (json_int_t)t->moved_in, "flushed", (json_int_t)t->flushed, "waits", (json_int_t)t->waits);
}

static void add_error(void *arg, const struct tb_file_report *r)
{
    json_array_append_new(arg, json_pack("{s:s s:s}", "path", r->path, "error", strerror(-r->error)));
}

/* One counter of `n` samples in order of time, given by its place in the first sample. */
static json_t *series(const uint64_t *first, int n)
{
    json_t *out = json_array();
    for (int i = 0; i < n; i++)
        json_array_append_new(out, json_integer((json_int_t)first[(size_t)i * (sizeof(struct tb_sample) / sizeof(*first))]));
    return out;
}

/* From tier to tier, those between which nothing moved left out. */
static json_t *moves_json(const struct tb_config *c, const struct tb_sample *samples, int n)
{
    json_t *out = json_object();
    for (uint32_t t = 0; t < c->n_tiers; t++) {
        json_t *from = json_object();
        for (uint32_t to = 0; to < c->n_tiers; to++)
            if (to != t && samples[n - 1].tier[t].moved_to[to])
                json_object_set_new(from, c->tiers[to].name, series(&samples->tier[t].moved_to[to], n));
        json_object_set_new(out, c->tiers[t].name, from);
    }
    return out;
}

static json_t *samples_json(tb_engine *e)
{
    static struct tb_sample samples[MAX_SAMPLES];
    const struct tb_config *c = tb_instance_config(e);
    int n = tb_instance_samples(e, samples, MAX_SAMPLES);
    json_t *seconds = json_array(), *tiers[] = {json_object(), json_object(), json_object(), json_object(), json_object()};
    for (int i = 0; i < n; i++)
        json_array_append_new(seconds, json_real(samples[i].seconds));
    for (uint32_t t = 0; t < c->n_tiers; t++) {
        const char *name = c->tiers[t].name;
        json_object_set_new(tiers[0], name, series(&samples->tier[t].used, n));
        json_object_set_new(tiers[1], name, series(&samples->tier[t].dirty, n));
        json_object_set_new(tiers[2], name, series(&samples->tier[t].bytes_in, n));
        json_object_set_new(tiers[3], name, series(&samples->tier[t].bytes_out, n));
        json_object_set_new(tiers[4], name, series(&samples->tier[t].flushed, n));
    }
    return json_pack("{s:o s:o s:o s:o s:o s:o s:o s:o s:o s:o s:o}", "seconds", seconds, "used", tiers[0], "dirty", tiers[1], "bytes_in",
                     tiers[2], "bytes_out", tiers[3], "flushed", tiers[4], "moved", moves_json(c, samples, n), "pfs_bytes_written",
                     series(&samples->pfs_bytes_written, n), "pfs_bytes_read", series(&samples->pfs_bytes_read, n), "spilled",
                     series(&samples->spilled, n), "staged", series(&samples->staged, n));
}

static json_t *waits_json(tb_engine *e)
{
    struct tb_waiting_process waits[MAX_WAITS];
    json_t *out = json_array();
    for (int i = 0, n = tb_instance_waits(e, waits, MAX_WAITS); i < n; i++)
        json_array_append_new(out, json_pack("{s:i s:i s:b s:f}", "pid", waits[i].pid, "for", waits[i].for_pid, "stopped",
                                             tb_process_is_stopped(waits[i].for_pid), "seconds", waits[i].seconds));
    return out;
}

void ctl_print_waits(tb_engine *e, FILE *out)
{
    struct tb_waiting_process waits[MAX_WAITS];
    for (int i = 0, n = tb_instance_waits(e, waits, MAX_WAITS); i < n; i++) {
        char who[128], whom[128];
        tb_wait_describe(waits[i].pid, who, sizeof(who));
        tb_wait_describe(waits[i].for_pid, whom, sizeof(whom));
        fprintf(out, "%s has waited %.0f s for %s\n", who, waits[i].seconds, whom);
    }
}

static bool is_modelled(const struct tb_config *c)
{
    bool modelled = c->pfs.modelled;
    for (uint32_t t = 0; t < c->n_tiers; t++)
        modelled |= c->tiers[t].modelled;
    return modelled;
}

json_t *ctl_instance_json(tb_engine *e, bool samples)
{
    const struct tb_config *c = tb_instance_config(e);
    struct tb_instance_info info;
    struct tb_stats s;
    tb_engine_stats(e, &s);
    tb_instance_info(e, &info);
    json_t *tiers = json_array(), *errors = json_array();
    for (uint32_t t = 0; t < s.n_tiers; t++)
        json_array_append_new(tiers, tier_json(&s.tier[t]));
    tb_instance_errors(e, add_error, errors);
    json_t *out =
        json_pack("{s:s s:s s:b s:s s:s s:s s:b s:i s:i s:o s:{s:I s:I} s:I s:I s:I s:I s:I s:i s:i s:o s:{s:I s:s}}", "instance",
                  info.name, "config", info.config_file, "modelled", is_modelled(c), "fsync", tb_fsync_name(c->fsync), "policy",
                  tb_policy_name(c->placement.policy), "mode", c->n_prefixes ? tb_mode_name(c->prefixes[0].mode) : "none", "daemon_alive",
                  info.daemon_alive, "daemon_pid", (int)info.daemon_pid, "clients", (int)info.n_clients, "tiers", tiers, "pfs",
                  "bytes_written", (json_int_t)s.pfs_bytes_written, "bytes_read", (json_int_t)s.pfs_bytes_read, "spilled",
                  (json_int_t)s.spilled, "staged", (json_int_t)s.staged, "prefetched", (json_int_t)s.prefetched, "fsyncs",
                  (json_int_t)s.fsyncs, "passed", (json_int_t)s.passed, "files", (int)s.n_files, "dirty_files", (int)s.n_dirty_files,
                  "errors", errors, "region", "bytes", (json_int_t)info.region_bytes, "huge_pages", tb_huge_pages_name(info.huge_pages));
    json_object_set_new(out, "waits", waits_json(e));
    if (samples)
        json_object_set_new(out, "samples", samples_json(e));
    return out;
}

void ctl_print_tiers(tb_engine *e, FILE *out)
{
    struct tb_stats s;
    tb_engine_stats(e, &s);
    fprintf(out, "%-10s %12s %12s %12s %12s %12s %12s %10s\n", "tier", "capacity", "used", "dirty", "written", "read", "flushed", "writes");
    for (uint32_t t = 0; t < s.n_tiers; t++) {
        const struct tb_tier_stats *x = &s.tier[t];
        fprintf(out, "%-10s %9.1fMiB %9.1fMiB %9.1fMiB %9.1fMiB %9.1fMiB %9.1fMiB %10llu\n", x->name, (double)x->capacity / MIB,
                (double)x->used / MIB, (double)x->dirty / MIB, (double)x->bytes_in / MIB, (double)x->bytes_out / MIB,
                (double)x->flushed / MIB, (unsigned long long)x->writes);
    }
    fprintf(out, "%-10s %12s %12s %12s %9.1fMiB %9.1fMiB  spilled %.1f MiB, staged %.1f MiB, fsyncs %llu, files %u (%u dirty)\n", "pfs", "",
            "", "", (double)s.pfs_bytes_written / MIB, (double)s.pfs_bytes_read / MIB, (double)s.spilled / MIB, (double)s.staged / MIB,
            (unsigned long long)s.fsyncs, s.n_files, s.n_dirty_files);
    if (s.passed)
        fprintf(out, "%llu opens passed through unbuffered: max_files %u was reached; raise it in %s\n", (unsigned long long)s.passed,
                tb_instance_config(e)->max_files, tb_instance_config(e)->file);
}
