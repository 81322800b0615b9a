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
    fprintf(out, "  - name: %s\n    medium: %s\n", t->name, t->medium == TB_MEDIUM_MEMORY ? "memory" : "directory");
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

/*
 * What the import cannot know (paths of the PFS and of tiers) is written as a place to fill
 * in. fclose is checked: a full disk shows itself there.
 */
int tb_config_write(const struct tb_config *c, const char *path, struct tb_error *err)
{
    FILE *out = path ? fopen(path, "w") : stdout;
    if (!out) {
        snprintf(err->text, sizeof(err->text), "%.900s: cannot write: %s", path, strerror(errno));
        return -errno;
    }
    assert(c->n_prefixes == 1 && c->n_tiers > 0); /* `import` has no more to say than one mode */
    fprintf(out, "# imported from %s\nversion: 1\nmax_files: %u\npfs: {path: %s}\nmode: %s\nfsync: %s\n", c->file, c->max_files,
            c->pfs.path[0] ? c->pfs.path : "\"${TB_ROOT}/pfs\"", tb_mode_name(c->prefixes[0].mode), tb_fsync_name(c->fsync));
    fprintf(out, "flush: {policy: %s, threads: %u}\nplacement: {policy: %s}\ntiers:\n", tb_flush_name(c->flush.policy), c->flush.threads,
            tb_policy_name(c->placement.policy));
    for (uint32_t t = 0; t < c->n_tiers; t++)
        write_tier(out, &c->tiers[t]);
    if (path && fclose(out)) {
        snprintf(err->text, sizeof(err->text), "%.900s: cannot write: %s", path, strerror(errno));
        return -errno;
    }
    return 0;
}
