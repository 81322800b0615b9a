/*
 * An instance as JSON and as a table: the same numbers either way, because both walk the
 * tables of counters.h. What JSON holds is read by the analysis and by users' scripts: names
 * are added, and never changed.
 */
#include "common/show.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/huge_place.h"
#include "base/process.h"
#include "base/report.h"
#include "common/copies.h"
#include "common/counters.h"
#include "common/ctl.h"
#include "config/placement.h"
#include "instance/stats.h"
#include "region/handle.h"
#include "text/sizes.h"

#define MAX_WAITS 64
#define MAX_SAMPLES 4096

/* The counters of a sample, by the names that JSON gives them. */
struct series {
    const char *name;
    size_t offset;
};
#define SERIES(struct, field) {#field, offsetof(struct, field)}
#define N(table) (sizeof(table) / sizeof(*(table)))

static const struct series sampled_of_tier[] = {
    SERIES(struct tb_tier_sample, used),      SERIES(struct tb_tier_sample, dirty),   SERIES(struct tb_tier_sample, bytes_in),
    SERIES(struct tb_tier_sample, bytes_out), SERIES(struct tb_tier_sample, flushed),
};

static const struct series sampled[] = {
    SERIES(struct tb_sample, pfs_bytes_written),
    SERIES(struct tb_sample, pfs_bytes_read),
    SERIES(struct tb_sample, spilled),
    SERIES(struct tb_sample, staged),
};

/* In the order of the table. */
static void add_counters(json_t *to, const struct ctl_counter *rows, const void *from)
{
    for (; rows->name; rows++)
        json_object_set_new(to, rows->name, json_integer((json_int_t)ctl_counter_value(rows, from)));
}

json_t *ctl_text_json(const char *text)
{
    json_t *whole = json_string(text);
    char *shown = whole ? NULL : strdup(text);
    for (char *c = shown; c && *c; c++)
        *c = (unsigned char)*c < 0x80 ? *c : '?';
    if (shown)
        whole = json_string(shown);
    free(shown);
    return whole;
}

/* Names and order are those of the table of counters, as in the text. */
static json_t *tier_json(const struct tb_tier_stats *t)
{
    json_t *out = json_pack("{s:o}", "name", ctl_text_json(t->name));
    add_counters(out, ctl_tier_counters, t);
    return out;
}

/* For the list of files that are not on the PFS; `error` in words, as strerror has it. */
static void add_error(void *arg, const struct tb_file_report *r)
{
    json_array_append_new(arg, json_pack("{s:o s:s}", "path", ctl_text_json(r->path), "error", strerror(-r->error)));
}

/* A counter of `n` samples in order of time, given by its place in the first sample. */
static json_t *series(const void *first, int n)
{
    json_t *out = json_array();
    for (int i = 0; i < n; i++) {
        const char *at = (const char *)first + (size_t)i * sizeof(struct tb_sample);
        json_array_append_new(out, json_integer((json_int_t) * (const uint64_t *)(const void *)at));
    }
    return out;
}

/* One list a tier, each as long as the list of seconds. */
static json_t *series_by_tier(const struct series *row, const struct tb_config *c, const struct tb_sample *samples, int n)
{
    json_t *out = json_object();
    for (uint32_t t = 0; t < c->n_tiers; t++)
        json_object_set_new(out, c->tiers[t].name, series((const char *)&samples->tier[t] + row->offset, n));
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

/*
 * One array for each counter, all of the same length: a plot needs no other form. Static,
 * because the samples are too many for a stack.
 */
static json_t *samples_json(tb_engine *e)
{
    static struct tb_sample samples[MAX_SAMPLES];
    const struct tb_config *c = tb_instance_config(e);
    int n = tb_instance_samples(e, samples, MAX_SAMPLES);
    json_t *seconds = json_array(), *out = json_pack("{s:o}", "seconds", seconds);
    for (int i = 0; i < n; i++)
        json_array_append_new(seconds, json_real(samples[i].seconds));
    for (size_t i = 0; i < N(sampled_of_tier); i++)
        json_object_set_new(out, sampled_of_tier[i].name, series_by_tier(&sampled_of_tier[i], c, samples, n));
    json_object_set_new(out, "moved", moves_json(c, samples, n));
    for (size_t i = 0; i < N(sampled); i++)
        json_object_set_new(out, sampled[i].name, series((const char *)samples + sampled[i].offset, n));
    return out;
}

/* At most MAX_WAITS: a stopped process may have all the others of a node waiting for it. */
static json_t *waits_json(tb_engine *e)
{
    struct tb_waiting_process waits[MAX_WAITS];
    json_t *out = json_array();
    for (int i = 0, n = tb_instance_waits(e, waits, MAX_WAITS); i < n; i++)
        json_array_append_new(out, json_pack("{s:i s:i s:b s:f}", "pid", waits[i].pid, "for", waits[i].for_pid, "stopped",
                                             tb_process_is_stopped(waits[i].for_pid), "seconds", waits[i].seconds));
    return out;
}

/* As the daemon noted it at its last look. Of more nodes than TB_NODES_SHOWN only the first are shown. */
static json_t *nodes_json(const struct tb_asking *a)
{
    json_t *out = json_array();
    for (uint32_t i = 0; i < a->n_nodes && i < TB_NODES_SHOWN; i++)
        json_array_append_new(out, json_pack("{s:s s:b s:I s:I s:I s:I s:I s:I s:I s:I s:I s:I}", "node", a->node[i].name, "alive",
                                             (int)a->node[i].is_alive, "dirty_bytes", (json_int_t)a->node[i].dirty, "extents",
                                             (json_int_t)a->node[i].extents, "kept_bytes", (json_int_t)a->node[i].kept_bytes, "answered",
                                             (json_int_t)a->node[i].answered, "lends_bytes", (json_int_t)a->node[i].lends, "lent_bytes",
                                             (json_int_t)a->node[i].lent, "borrows_bytes", (json_int_t)a->node[i].borrows, "lost_bytes",
                                             (json_int_t)a->node[i].lost, "copies_bytes", (json_int_t)a->node[i].copies,
                                             "copies_memory_bytes", (json_int_t)a->node[i].copies_most));
    return out;
}

/* Of the remote tier. What is lost with a node was on no PFS. */
static void print_lending(const struct tb_asking *a, uint32_t i, FILE *out)
{
    char lends[32], lent[32], borrows[32], lost[32];
    tb_format_size(a->node[i].lends, lends, sizeof(lends));
    tb_format_size(a->node[i].lent, lent, sizeof(lent));
    tb_format_size(a->node[i].borrows, borrows, sizeof(borrows));
    if (a->node[i].lends || a->node[i].borrows)
        fprintf(out, ", lends %s (%s used), has %s in other nodes' memory", lends, lent, borrows);
    if (a->node[i].lost)
        fprintf(out, ", of which %s are lost with their node", tb_format_size(a->node[i].lost, lost, sizeof(lost)));
}

/* Of `copies: 2`. */
static void print_copies(const struct tb_asking *a, uint32_t i, FILE *out)
{
    char copies[32], most[32];
    if (a->node[i].copies_most)
        fprintf(out, ", keeps copies of %s (of %s)", tb_format_size(a->node[i].copies, copies, sizeof(copies)),
                tb_format_size(a->node[i].copies_most, most, sizeof(most)));
}

/* Of `nodes: shared`: all of them, as this node's daemon saw them last, and the last bytes that were asked for and lost. */
void ctl_print_nodes(tb_engine *e, FILE *out)
{
    const struct tb_asking *a = &e->header->asking;
    char size[32];
    for (uint32_t i = 0; i < a->n_nodes && i < TB_NODES_SHOWN; i++) {
        fprintf(out, "node %s %s, %s not on the PFS, keeps %llu extents", a->node[i].name, a->node[i].is_alive ? "lives" : "is lost",
                tb_format_size(a->node[i].dirty, size, sizeof(size)), (unsigned long long)a->node[i].extents);
        print_lending(a, i, out);
        print_copies(a, i, out);
        putc('\n', out);
    }
    if (a->n_nodes > TB_NODES_SHOWN)
        fprintf(out, "and %u nodes more; %u of %u live\n", a->n_nodes - TB_NODES_SHOWN, a->n_alive, a->n_nodes);
    if (a->lost[0])
        fprintf(out, "lost: %s\n", a->lost);
}

/* For a user who sees a hanging program: which process has to be continued or ended. */
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

/* One modelled place is enough: then no time of this instance is the machine's own. */
bool ctl_is_modelled(const struct tb_config *c)
{
    bool modelled = c->pfs.modelled;
    for (uint32_t t = 0; t < c->n_tiers; t++)
        modelled |= c->tiers[t].modelled;
    return modelled;
}

/* Of several prefixes it is the first one's. */
const char *ctl_mode(const struct tb_config *c)
{
    return c->n_prefixes ? tb_mode_name(c->prefixes[0].mode) : "none";
}

/* Which instance it is, and how it is configured. */
static json_t *identity_json(const struct tb_instance_info *info, const struct tb_config *c)
{
    return json_pack("{s:o s:o s:b s:s s:s s:s s:b s:i s:i}", "instance", ctl_text_json(info->name), "config",
                     ctl_text_json(info->config_file), "modelled", ctl_is_modelled(c), "fsync", tb_fsync_name(c->fsync), "policy",
                     tb_policy_name(c->placement.policy), "mode", ctl_mode(c), "daemon_alive", info->daemon_alive, "daemon_pid",
                     (int)info->daemon_pid, "clients", (int)info->n_clients);
}

/* Tiers as a list in their order, then the PFS, then what is of no place. */
static void add_stats(json_t *out, const struct tb_stats *s)
{
    json_t *tiers = json_array(), *pfs = json_object();
    for (uint32_t t = 0; t < s->n_tiers; t++)
        json_array_append_new(tiers, tier_json(&s->tier[t]));
    add_counters(pfs, ctl_pfs_counters, s);
    json_object_set_new(out, "tiers", tiers);
    json_object_set_new(out, "pfs", pfs);
    add_counters(out, ctl_counters, s);
}

json_t *ctl_instance_json(tb_engine *e, bool samples)
{
    struct tb_instance_info info;
    struct tb_stats s;
    tb_engine_stats(e, &s);
    tb_instance_info(e, &info);
    json_t *out = identity_json(&info, tb_instance_config(e)), *errors = json_array();
    add_stats(out, &s);
    tb_instance_errors(e, add_error, errors);
    json_object_set_new(out, "errors", errors);
    json_object_set_new(out, "region",
                        json_pack("{s:I s:s s:s?}", "bytes", (json_int_t)info.region_bytes, "huge_pages",
                                  tb_huge_pages_name(info.huge_pages), "enable_huge_pages",
                                  info.huge_pages == TB_HUGE_NONE ? TB_HUGE_ENABLE : NULL));
    json_object_set_new(out, "copy", ctl_copy_json(&e->header->copy));
    json_object_set_new(out, "waits", waits_json(e));
    if (e->header->asking.n_nodes)
        json_object_set_new(out, "peers", nodes_json(&e->header->asking));
    if (samples)
        json_object_set_new(out, "samples", samples_json(e));
    return out;
}

/* The widths are those of print_counters. */
static void print_headings(FILE *out, enum ctl_unit unit)
{
    for (const struct ctl_counter *c = ctl_tier_counters; c->name; c++)
        if (c->heading && c->unit == unit)
            fprintf(out, unit == CTL_BYTES ? " %12s" : " %10s", c->heading);
}

static void print_counters(FILE *out, enum ctl_unit unit, const struct tb_tier_stats *t)
{
    for (const struct ctl_counter *c = ctl_tier_counters; c->name; c++) {
        if (!c->heading || c->unit != unit)
            continue;
        if (unit == CTL_BYTES)
            fprintf(out, " %9.1fMiB", (double)ctl_counter_value(c, t) / TB_MIB);
        else
            fprintf(out, " %10llu", (unsigned long long)ctl_counter_value(c, t));
    }
}

void ctl_print_tiers(tb_engine *e, FILE *out)
{
    struct tb_stats s;
    tb_engine_stats(e, &s);
    fprintf(out, "%-10s", "tier");
    print_headings(out, CTL_BYTES);
    print_headings(out, CTL_NUMBER);
    for (uint32_t t = 0; t < s.n_tiers; t++) {
        fprintf(out, "\n%-10s", s.tier[t].name);
        print_counters(out, CTL_BYTES, &s.tier[t]);
        print_counters(out, CTL_NUMBER, &s.tier[t]);
    }
    putc('\n', out);
    fprintf(out, "%-10s %12s %12s %12s %9.1fMiB %9.1fMiB  spilled %.1f MiB, staged %.1f MiB, fsyncs %llu, files %u (%u dirty)\n", "pfs", "",
            "", "", (double)s.pfs_bytes_written / TB_MIB, (double)s.pfs_bytes_read / TB_MIB, (double)s.spilled / TB_MIB,
            (double)s.staged / TB_MIB, (unsigned long long)s.fsyncs, s.n_files, s.n_dirty_files);
    if (s.fallbacks)
        fprintf(out, "pfs        files that fell back to it: %llu (mapped, inherited, a name went, ...: docs/compatibility.md)\n",
                (unsigned long long)s.fallbacks);
    if (s.passed)
        fprintf(out, "%llu opens passed through unbuffered: max_files %u was reached; raise it in %s\n", (unsigned long long)s.passed,
                tb_instance_config(e)->max_files, tb_instance_config(e)->file);
}
