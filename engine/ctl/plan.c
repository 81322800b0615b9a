/*
 * plan, check and import-hermes: what a configuration means, before anything is made. `plan` computes from the text alone and
 * looks at no path; `check` also looks at the paths and the machine.
 */
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "common/ctl.h"
#include "common/show.h"
#include "config/check.h"
#include "config/placement.h"
#include "config/write.h"
#include "plan/promises.h"
#include "plan/svg.h"
#include "plan/writes.h"
#include "requirements/requirements.h"
#include "text/sizes.h"

struct options {
    const char *file, *fragment, *svg, *mode, *pfs, *output, *writes;
    bool json;
};

/* Values are checked where they are used, with the configuration at hand. */
static int take(void *into, char key, const char *value)
{
    struct options *o = into;
    switch (key) {
    case 'J': o->json = true; return 0;
    case 'V': o->svg = value; return ctl_check_output("--svg", value);
    case 'M': o->mode = value; return 0;
    case 'P': o->pfs = value; return 0;
    case 'o': o->output = value; return ctl_check_output("-o", value);
    default: o->writes = value; return 0;
    }
}

/* The configuration is a word without an option, as is its fragment. */
static int parse(const struct ctl_command *self, int argc, char **argv, struct options *o)
{
    memset(o, 0, sizeof(*o));
    int rc = ctl_parse(self, argc, argv, take, o);
    o->file = optind < argc ? argv[optind++] : NULL;
    o->fragment = optind < argc ? argv[optind] : NULL;
    return rc || o->file ? rc : ctl_misused(self, "needs a configuration");
}

/* --mode counts as if the configuration had said it: what is planned is what would run. */
static int read_config(const struct options *o, struct tb_config *c)
{
    struct tb_error err = {""};
    int rc = o->fragment ? tb_config_read_merged(o->file, o->fragment, c, &err) : tb_config_read(o->file, c, &err);
    if (!rc && o->mode)
        rc = tb_config_set_mode(c, o->mode, &err);
    return rc ? ctl_fail("%s", err.text) : 0;
}

/* A row for each slab; what belongs to the whole tier is only in its first row. */
static void print_slabs(const struct tb_config *c, const struct tb_layout *l)
{
    printf("%-10s %-10s %12s %12s  %-5s %14s %10s\n", "tier", "medium", "capacity", "for buffers", "slab", "buffer bytes", "buffers");
    for (uint32_t s = 0; s < l->n_slabs; s++) {
        const struct tb_config_tier *t = &c->tiers[l->slab[s].tier];
        uint32_t in_tier = s - l->tier_first_slab[l->slab[s].tier];
        if (in_tier == 0)
            printf("%-10s %-10s %9.2fMiB %9.2fMiB", t->name, tb_medium_name(t->medium), (double)t->capacity / TB_MIB,
                   (double)tb_layout_tier_bytes(l, l->slab[s].tier) / TB_MIB);
        else
            printf("%-10s %-10s %12s %12s", "", "", "", "");
        printf("  %-5u %14llu %10u\n", in_tier, (unsigned long long)l->slab[s].buffer_size, l->slab[s].n_buffers);
    }
    printf("%-10s %-10s %12s %12s  %-5s %14s %10u\n\n", "total", "", "", "", "", "", l->n_buffers);
}

/* To the byte, because the first memory tier pays for all metadata out of its own capacity, and users ask where it went. */
static void print_region(const struct tb_config *c, const struct tb_layout *l)
{
    printf("the region, paid by the first memory tier out of its capacity:\n");
    for (int s = 0; s < TB_N_SECTIONS; s++)
        if (s != TB_SECTION_DATA)
            printf("  %-18s %10llu x %8llu = %12llu bytes (whole pages)\n", tb_section_name((enum tb_section)s),
                   (unsigned long long)l->section[s].count, (unsigned long long)l->section[s].each,
                   (unsigned long long)l->section[s].bytes);
    printf("  %-18s %36llu bytes\n", "metadata", (unsigned long long)l->section[TB_SECTION_DATA].offset);
    for (uint32_t s = 0; s < l->n_slabs; s++)
        if (c->tiers[l->slab[s].tier].medium == TB_MEDIUM_MEMORY)
            printf("  %-18s %10u x %8llu = %12llu bytes\n", "memory buffers", l->slab[s].n_buffers,
                   (unsigned long long)l->slab[s].buffer_size, (unsigned long long)l->slab[s].n_buffers * l->slab[s].buffer_size);
    printf("  %-18s %36llu bytes\n", "region", (unsigned long long)l->total_bytes);
    for (uint32_t t = 0; t < c->n_tiers; t++)
        if (c->tiers[t].medium == TB_MEDIUM_MEMORY) {
            printf("  %-18s %36llu bytes, of which the rest does not fill a buffer\n", "capacity",
                   (unsigned long long)c->tiers[t].capacity);
            break;
        }
}

/* Besides the region, and not counted in any tier's capacity: in memory of the daemon. */
static void print_lent(const struct tb_config *c)
{
    uint32_t t = tb_config_remote_tier(c);
    if (t < c->n_tiers)
        printf(
            "lent to other nodes, for their %s, in memory of the daemon: %llu bytes, and what makes equal shares of whole buffers of it\n",
            c->tiers[t].name, (unsigned long long)c->tiers[t].capacity);
}

/* What is printed is computed as the daemon computes it, so a plan and an instance agree to the byte. */
static void print_plan(const struct tb_config *c, const struct tb_layout *l)
{
    printf("%s: fsync %s, placement %s, flush %s%s, at most %u files\n\n", c->file, tb_fsync_name(c->fsync),
           tb_policy_name(c->placement.policy), tb_flush_name(c->flush.policy), c->flush.background ? " in the background" : "",
           c->max_files);
    print_slabs(c, l);
    print_region(c, l);
    print_lent(c);
}

/* null: the place is as fast as it is. */
static json_t *model_json(bool modelled, const struct tb_device *d)
{
    if (!modelled)
        return json_null();
    return json_pack("{s:s s:f s:f s:f s:f s:f s:f s:f s:i}", "name", d->name, "read_bandwidth", d->read_bandwidth, "write_bandwidth",
                     d->write_bandwidth, "read_latency", d->read_latency, "write_latency", d->write_latency, "sync_time", d->sync_time,
                     "open_time", d->open_time, "metadata_time", d->metadata_time, "channels", (int)d->channels);
}

/* All sizes in bytes. `usable_bytes` is what buffers take; `capacity_bytes` is what the user gave. */
static json_t *tier_json(const struct tb_config *c, const struct tb_layout *l, uint32_t i)
{
    const struct tb_config_tier *t = &c->tiers[i];
    json_t *slabs = json_array();
    for (uint32_t s = l->tier_first_slab[i]; tb_is_slab_of(l, s, i); s++)
        json_array_append_new(
            slabs, json_pack("{s:I s:I}", "buffer_bytes", (json_int_t)l->slab[s].buffer_size, "count", (json_int_t)l->slab[s].n_buffers));
    return json_pack("{s:o s:s s:o s:b s:I s:I s:o s:o}", "name", ctl_text_json(t->name), "medium", tb_medium_name(t->medium), "path",
                     ctl_text_json(t->path), "shared", t->shared, "capacity_bytes", (json_int_t)t->capacity, "usable_bytes",
                     (json_int_t)tb_layout_tier_bytes(l, i), "slabs", slabs, "model", model_json(t->modelled, &t->model));
}

/*
 * The digest is what an instance of this configuration would have: a reader can match plan and
 * run.
 */
static json_t *plan_json(const struct tb_config *c, const struct tb_layout *l)
{
    char digest[32];
    json_t *tiers = json_array(), *sections = json_array();
    snprintf(digest, sizeof(digest), "%016llx", (unsigned long long)tb_config_digest(c));
    for (uint32_t t = 0; t < c->n_tiers; t++)
        json_array_append_new(tiers, tier_json(c, l, t));
    for (int s = 0; s < TB_N_SECTIONS; s++)
        json_array_append_new(sections, json_pack("{s:s s:I s:I s:I}", "name", tb_section_name((enum tb_section)s), "count",
                                                  (json_int_t)l->section[s].count, "each_bytes", (json_int_t)l->section[s].each, "bytes",
                                                  (json_int_t)l->section[s].bytes));
    uint32_t remote = tb_config_remote_tier(c);
    return json_pack(
        "{s:o s:s s:s s:s s:s s:i s:{s:s s:b s:i s:f s:f} s:{s:o s:o} s:o s:{s:I s:o} s:i s:I}", "config", ctl_text_json(c->file), "digest",
        digest, "mode", tb_mode_name(c->prefixes[0].mode), "fsync", tb_fsync_name(c->fsync), "policy", tb_policy_name(c->placement.policy),
        "max_files", (int)c->max_files, "flush", "policy", tb_flush_name(c->flush.policy), "background", c->flush.background, "threads",
        (int)c->flush.threads, "high", c->flush.high, "low", c->flush.low, "pfs", "path", ctl_text_json(c->pfs.path), "model",
        model_json(c->pfs.modelled, &c->pfs.model), "tiers", tiers, "region", "total_bytes", (json_int_t)l->total_bytes, "sections",
        sections, "total_buffers", (int)l->n_buffers, "lent_bytes", (json_int_t)(remote < c->n_tiers ? c->tiers[remote].capacity : 0));
}

/* All that can be wrong is found before anything is written; `w` is NULL where no writes were asked for. */
static int show_plan(const struct tb_config *c, const struct tb_layout *l, const struct options *o, const struct plan_writes *w)
{
    int rc = o->svg ? tb_plan_svg(c, l, w, o->svg) : 0;
    if (rc)
        return rc;
    if (o->json) {
        json_t *j = plan_json(c, l);
        if (w)
            json_object_set_new(j, "writes", tb_plan_writes_json(c, w));
        json_dumpf(j, stdout, JSON_INDENT(2));
        puts("");
        json_decref(j);
        return ctl_output_ends();
    }
    print_plan(c, l);
    tb_plan_promises_print(c, l, stdout, "");
    if (w)
        tb_plan_writes_print(c, w);
    return ctl_output_ends();
}

/* Makes nothing but the file of --svg. The configuration is large, so it is not on the stack. */
int tb_plan_command(const struct ctl_command *self, int argc, char **argv)
{
    struct options o;
    struct tb_error err = {""};
    struct tb_layout layout;
    int rc = parse(self, argc, argv, &o);
    if (rc)
        return rc;
    struct tb_config *c = calloc(1, sizeof(*c));
    struct plan_writes *w = calloc(1, sizeof(*w));
    if (!c || !w)
        return free(w), free(c), ctl_fail("no memory");
    if (!(rc = read_config(&o, c)) && tb_layout_compute(c, &layout, &err))
        rc = ctl_fail("%s", err.text);
    if (!rc && o.writes && !(rc = tb_plan_writes_parse(o.writes, w)))
        rc = tb_plan_writes(c, &layout, w);
    if (!rc)
        rc = show_plan(c, &layout, &o, o.writes ? w : NULL);
    free(w);
    free(c);
    return rc;
}

/*
 * Unlike plan it looks at the paths: may they be written, and is there enough room? Warnings
 * do not fail it.
 */
int tb_check_command(const struct ctl_command *self, int argc, char **argv)
{
    struct options o;
    struct tb_error err = {""};
    struct tb_layout layout;
    int rc = parse(self, argc, argv, &o);
    struct tb_config *c = rc ? NULL : calloc(1, sizeof(*c));
    if (!c || (rc = read_config(&o, c)))
        return free(c), rc ? rc : ctl_fail("no memory");
    rc = tb_layout_compute(c, &layout, &err);
    if (!rc)
        rc = tb_config_check_paths(c, layout.total_bytes, &err);
    for (uint32_t t = 0; t < c->n_tiers && !rc; t++) {
        if (tb_config_warn_of_tier(c, t, &err))
            fprintf(stderr, "tierctl: warning: %s\n", err.text);
        if (tb_config_warn_of_order(c, t, &err))
            fprintf(stderr, "tierctl: warning: %s\n", err.text);
    }
    if (!rc)
        tb_plan_promises_print(c, &layout, stderr, "tierctl: warning: ");
    if (rc)
        rc = ctl_fail("%s", err.text[0] ? err.text : strerror(-rc));
    else
        printf("%s: ok\n", o.file);
    free(c);
    return rc;
}

/*
 * Rules alone: they become the placement of a configuration that has the tiers. The result is a part of a configuration,
 * to be given as a second file after the one with the tiers.
 */
static int import_rules(const struct options *o, struct tb_config *c)
{
    struct tb_error err = {""};
    if (o->fragment)
        return ctl_fail("%s: is no tier configuration; allowed: FILE.xml alone, or after FILE.conf", o->file);
    int rc = ctl_requirements_read(o->file, false, c, &err);
    rc = rc ? rc : tb_config_write_placement(&c->placement, o->output, &err);
    return rc ? ctl_fail("%s", err.text) : 0;
}

/* The .conf names no PFS, so the option does. */
static int import_tiers(const struct options *o, struct tb_config *c)
{
    struct tb_error err = {""};
    bool has_rules = o->fragment && ctl_requirements_is_xml(o->fragment);
    struct options tiers = *o;
    if (has_rules)
        tiers.fragment = NULL;
    int rc = read_config(&tiers, c);
    if (rc)
        return rc;
    if (o->pfs)
        snprintf(c->pfs.path, sizeof(c->pfs.path), "%s", o->pfs);
    if (has_rules)
        rc = ctl_requirements_read(o->fragment, true, c, &err);
    rc = rc ? rc : tb_config_write(c, o->output, &err);
    return rc ? ctl_fail("%s", err.text) : 0;
}

/* The kind of the first file is known by its first character, not by its name. */
int tb_import_hermes_command(const struct ctl_command *self, int argc, char **argv)
{
    struct options o;
    int rc = parse(self, argc, argv, &o);
    struct tb_config *c = rc ? NULL : calloc(1, sizeof(*c));
    if (!rc)
        rc = !c ? ctl_fail("no memory") : ctl_requirements_is_xml(o.file) ? import_rules(&o, c) : import_tiers(&o, c);
    free(c);
    return rc;
}
