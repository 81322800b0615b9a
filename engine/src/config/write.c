/*
 * A configuration as the YAML that tb_config_read reads: for `import`, so it writes what a
 * Hermes file can say, and leaves out what has its default.
 */
#include "config/write.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "config/config.h"
#include "config/placement.h"
#include "text/sizes.h"

/* Sizes are written by the largest unit that divides them, so that reading them again gives the same bytes. */
static void write_tier(FILE *out, const struct tb_config_tier *t)
{
    char capacity[32], block[32];
    fprintf(out, "  - name: %s\n    medium: %s\n", t->name, tb_medium_name(t->medium));
    if (t->medium == TB_MEDIUM_DIRECTORY)
        fprintf(out, "    path: %s\n", t->path[0] ? t->path : "\"\"  # set before use");
    fprintf(out, "    capacity: %s\n    block: %s\n    slabs:\n", tb_format_size(t->capacity, capacity, sizeof(capacity)),
            tb_format_size(t->block, block, sizeof(block)));
    for (uint32_t s = 0; s < t->n_slabs; s++)
        fprintf(out, "      - {units: %u, share: %g}\n", t->slabs[s].units, t->slabs[s].share);
    if (t->profiled)
        fprintf(out, "    profile: {name: %s, write_bandwidth: %.9gMiB/s}\n", t->profile.name, t->profile.write_bandwidth / TB_MIB);
    if (t->shared)
        fputs("    shared: true\n", out);
}

/* In single quotes nothing but they themselves means anything in YAML. */
static void write_quoted(FILE *out, const char *text)
{
    fputc('\'', out);
    for (; *text; text++)
        fputs(*text == '\'' ? "''" : (const char[]){*text, '\0'}, out);
    fputc('\'', out);
}

static void write_rule(FILE *out, const struct tb_config_rule *r)
{
    char size[32];
    fputs("    - {pattern: ", out);
    write_quoted(out, r->pattern);
    if (r->at_least)
        fprintf(out, ", size_at_least: %s", tb_format_size(r->at_least, size, sizeof(size)));
    if (r->at_most != UINT64_MAX)
        fprintf(out, ", size_at_most: %s", tb_format_size(r->at_most, size, sizeof(size)));
    for (uint32_t t = 0; t < r->n_tiers; t++)
        fprintf(out, "%s%s", t ? ", " : ", tiers: [", r->name[t]);
    fputs("]}\n", out);
}

static void write_placement(FILE *out, const struct tb_config_placement *p)
{
    fprintf(out, "placement:\n  policy: %s\n%s", tb_policy_name(p->policy), p->n_rules ? "  rules:\n" : "");
    for (uint32_t i = 0; i < p->n_rules; i++)
        write_rule(out, &p->rules[i]);
}

static int refuse_to_write(const char *path, struct tb_error *err)
{
    int rc = -errno;
    snprintf(err->text, sizeof(err->text), "%.900s: cannot write: %s", path, strerror(errno));
    return rc;
}

/* fclose is checked: a full disk shows itself there. */
static int close_written(FILE *out, const char *path, struct tb_error *err)
{
    return path && fclose(out) ? refuse_to_write(path, err) : 0;
}

int tb_config_write_placement(const struct tb_config_placement *placement, const char *path, struct tb_error *err)
{
    FILE *out = path ? fopen(path, "w") : stdout;
    if (!out)
        return refuse_to_write(path, err);
    write_placement(out, placement);
    return close_written(out, path, err);
}

/* What the import cannot know (paths of the PFS and of tiers) is written as a place to fill in. */
int tb_config_write(const struct tb_config *c, const char *path, struct tb_error *err)
{
    FILE *out = path ? fopen(path, "w") : stdout;
    if (!out)
        return refuse_to_write(path, err);
    assert(c->n_prefixes == 1 && c->n_tiers > 0); /* `import` has no more to say than one mode */
    fprintf(out, "# imported from %s\nversion: 1\nmax_files: %u\npfs: {path: %s}\nmode: %s\nfsync: %s\n", c->file, c->max_files,
            c->pfs.path[0] ? c->pfs.path : "\"${TB_ROOT}/pfs\"", tb_mode_name(c->prefixes[0].mode), tb_fsync_name(c->fsync));
    fprintf(out, "flush: {policy: %s, threads: %u}\n", tb_flush_name(c->flush.policy), c->flush.threads);
    write_placement(out, &c->placement);
    fputs("tiers:\n", out);
    for (uint32_t t = 0; t < c->n_tiers; t++)
        write_tier(out, &c->tiers[t]);
    return close_written(out, path, err);
}
