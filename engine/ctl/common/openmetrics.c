/*
 * OpenMetrics text: one family of metrics after the other, each with the samples of all instances.
 *
 * It is also Prometheus' older text format, which node_exporter's textfile collector reads: no time stamps, and no types
 * that only OpenMetrics has, as it refuses the whole file for one of them. So what is known of an instance is a gauge of 1
 * with labels.
 */
#include "common/openmetrics.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/private_files.h"
#include "base/report.h"
#include "common/copies.h"
#include "common/counters.h"
#include "common/ctl.h"
#include "common/show.h"
#include "config/placement.h"
#include "instance/attach.h"

#define MAX_WAITS 64
#define GOES_SECONDS 1.0
#define LOOK_NS 10000000

/* An instance at one moment. */
struct state {
    struct tb_instance_info info;
    struct tb_stats stats;
    uint32_t daemon_up, waiting;
    const char *fsync, *placement, *mode, *devices;
    char copy[CTL_COPY_WORDS];
};
#define STATE(field, metric, unit, help) CTL_COUNTER(struct state, field, metric, NULL, metric, CTL_GAUGE, CTL_##unit, help)

/* What JSON has in other places. */
static const struct ctl_counter state_counters[] = {
    STATE(daemon_up, "daemon_up", NUMBER, "1: its daemon runs, 0: it is gone"),
    STATE(info.n_clients, "clients", NUMBER, "Processes that are attached"),
    STATE(waiting, "waiting_processes", NUMBER, "Processes that wait for another process"),
    STATE(stats.n_errors, "failed_files", NUMBER, "Files with a failed last flush"),
    STATE(info.region_bytes, "region", BYTES, "Bytes of shared memory that the instance takes"),
    {0},
};

/* All that is printed of an instance is copied at once: families come one after the other, and a second look could differ. */
static void take(tb_engine *e, struct state *s)
{
    struct tb_waiting_process waits[MAX_WAITS];
    const struct tb_config *c = tb_instance_config(e);
    tb_instance_info(e, &s->info);
    tb_engine_stats(e, &s->stats);
    s->daemon_up = s->info.daemon_alive;
    s->waiting = (uint32_t)tb_instance_waits(e, waits, MAX_WAITS);
    s->fsync = tb_fsync_name(c->fsync);
    s->placement = tb_policy_name(c->placement.policy);
    s->mode = ctl_mode(c);
    ctl_copy_words(&e->header->copy, s->copy);
    s->devices = ctl_is_modelled(c) ? "modelled" : "real";
}

/* It has ended, is half made, or is held alone by the recovery that ends it. */
static bool is_none(int looked)
{
    return looked == -ENOENT || looked == -ESTALE || looked == -EBUSY;
}

/*
 * An instance goes piece by piece: one that lacks a piece is looked at again until then, and
 * is mostly none by then.
 */
static int look(const char *name, double until, tb_engine **e)
{
    int rc = tb_instance_look(name, tb_io_libc(), e);
    while (rc && !is_none(rc) && ctl_now() < until) {
        nanosleep(&(struct timespec){0, LOOK_NS}, NULL);
        rc = tb_instance_look(name, tb_io_libc(), e);
    }
    return rc;
}

/* Those of this user that are there and whole. */
static int take_all(const struct tb_instance_info *all, int found, struct state *out, int *n)
{
    int rc = 0;
    double until = ctl_now() + GOES_SECONDS; /* for all together: many may have been left without their tiers */
    for (int i = 0; i < found; i++) {
        tb_engine *e;
        int looked = look(all[i].name, until, &e);
        if (looked == 0) {
            take(e, &out[(*n)++]);
            tb_engine_detach(e);
        } else if (!is_none(looked)) {
            rc = ctl_fail("instance %s: cannot attach: %s", all[i].name, tb_engine_refusal());
        }
    }
    return rc;
}

/* Detached at once, so the scrape holds no place in the table of clients while it prints. */
static int take_one(const char *instance, struct state *out, int *n)
{
    tb_engine *e;
    int rc = ctl_look(instance, &e);
    if (rc)
        return rc;
    take(e, &out[(*n)++]);
    tb_engine_detach(e);
    return 0;
}

/* The value of a label. A path may hold any byte: what is not plain text is shown as '?'. */
static void print_label(FILE *out, const char *name, const char *value)
{
    fprintf(out, "%s=\"", name);
    for (; *value; value++) {
        if (*value == '"' || *value == '\\')
            putc('\\', out);
        putc(*value >= 0x20 && *value < 0x7f ? *value : '?', out);
    }
    putc('"', out);
}

/*
 * Names follow the convention: a prefix, then the unit; `_total` is added to each sample of a
 * counter.
 */
static void print_head(FILE *out, const struct ctl_counter *c, char *family, size_t size)
{
    snprintf(family, size, "tierbench_%s%s", c->metric, c->unit == CTL_BYTES ? "_bytes" : "");
    fprintf(out, "# HELP %s %s\n# TYPE %s %s\n", family, c->help, family, c->kind == CTL_TOTAL ? "counter" : "gauge");
    if (c->unit == CTL_BYTES)
        fprintf(out, "# UNIT %s bytes\n", family);
}

static void print_sample(FILE *out, const char *family, const struct ctl_counter *c, const struct state *s, const char *tier,
                         const void *from)
{
    fprintf(out, "%s%s{", family, c->kind == CTL_TOTAL ? "_total" : "");
    print_label(out, "instance", s->info.name);
    if (tier) {
        putc(',', out);
        print_label(out, "tier", tier);
    }
    fprintf(out, "} %llu\n", (unsigned long long)ctl_counter_value(c, from));
}

/* `offset`: of the struct that the rows are of, in a struct state. */
static void print_table(FILE *out, const struct ctl_counter *rows, size_t offset, const struct state *all, int n)
{
    char family[64];
    for (; rows->name; rows++) {
        print_head(out, rows, family, sizeof(family));
        for (int i = 0; i < n; i++)
            print_sample(out, family, rows, &all[i], NULL, (const char *)&all[i] + offset);
    }
}

/* A family must be in one piece: all tiers of all instances under one head. */
static void print_tiers(FILE *out, const struct state *all, int n)
{
    char family[64];
    for (const struct ctl_counter *c = ctl_tier_counters; c->name; c++) {
        print_head(out, c, family, sizeof(family));
        for (int i = 0; i < n; i++)
            for (uint32_t t = 0; t < all[i].stats.n_tiers; t++)
                print_sample(out, family, c, &all[i], all[i].stats.tier[t].name, &all[i].stats.tier[t]);
    }
}

/* As Prometheus' conventions ask, what is text is labels of a metric that is always 1. */
static void print_known(FILE *out, const struct state *all, int n)
{
    fputs("# HELP tierbench_instance_info How an instance is configured; always 1\n# TYPE tierbench_instance_info gauge\n", out);
    for (int i = 0; i < n; i++) {
        const char *labels[][2] = {
            {"instance", all[i].info.name}, {"config", all[i].info.config_file}, {"fsync", all[i].fsync}, {"placement", all[i].placement},
            {"mode", all[i].mode},          {"devices", all[i].devices},         {"copy", all[i].copy}};
        for (size_t k = 0; k < sizeof(labels) / sizeof(*labels); k++) {
            fputs(k ? "," : "tierbench_instance_info{", out);
            print_label(out, labels[k][0], labels[k][1]);
        }
        fputs("} 1\n", out);
    }
}

/* 0, or -errno: a full disk is met at the latest when the text leaves the buffers of stdio. */
static int print_all(FILE *out, const struct state *all, int n)
{
    print_known(out, all, n);
    print_table(out, state_counters, 0, all, n);
    print_table(out, ctl_counters, offsetof(struct state, stats), all, n);
    print_table(out, ctl_pfs_counters, offsetof(struct state, stats), all, n);
    print_tiers(out, all, n);
    fputs("# EOF\n", out);
    errno = 0;
    return fflush(out) || ferror(out) ? -(errno ? errno : EIO) : 0;
}

/* Its own name until it is whole: the collector reads only names that end in ".prom". A kill leaves FILE.RANDOM.part. */
static int replace(const char *file, const struct state *all, int n)
{
    char part[PATH_MAX];
    FILE *out = tb_part_open(file, part, sizeof(part));
    if (!out)
        return -errno;
    int rc = print_all(out, all, n);
    if (fclose(out) && !rc)
        rc = -errno;
    if (!rc && rename(part, file))
        rc = -errno;
    if (rc)
        unlink(part);
    return rc;
}

/* One instance that cannot be looked at does not keep back the others; the status says so. */
int ctl_openmetrics(const char *instance, const char *file)
{
    struct tb_instance_info *listed = NULL;
    int n = 0, found = instance ? 1 : tb_instance_list(&listed);
    struct state *all = found < 0 ? NULL : calloc((size_t)found + 1, sizeof(*all));
    if (!all)
        return free(listed), ctl_fail("no memory"), 1;
    int rc = instance ? take_one(instance, all, &n) : take_all(listed, found, all, &n);
    free(listed);
    int written = file ? replace(file, all, n) : print_all(stdout, all, n);
    free(all);
    if (written)
        return ctl_fail("%s: cannot write: %s", file ? file : "stdout", strerror(-written));
    return rc;
}
