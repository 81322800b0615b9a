/*
 * The names of what an instance owns outside the region: directories in tiers, slab files,
 * the hidden directory of deferred names. They follow from configuration, host and
 * instance name alone, so recovery finds them without a region.
 */
#include "region/directories.h"

#include <assert.h>
#include <stdio.h>
#include <unistd.h>

void tb_tier_directory(const struct tb_config_tier *tier, const char *host, const char *name, char *out, size_t size)
{
    snprintf(out, size, "%s/tierbench.%u.%s.%s", tier->path, (unsigned)getuid(), host, name);
}

/* Numbers of slabs are those of the layout, so the digest in the lease says whether they still mean the same. */
void tb_slab_file(uint32_t slab, char out[TB_SLAB_NAME_MAX])
{
    assert(slab < TB_MAX_TIERS * TB_MAX_SLABS);
    snprintf(out, TB_SLAB_NAME_MAX, "slab-%u", slab);
}

/* The fastest one: the journal's syncs are what an fsync waits for. */
uint32_t tb_journal_tier(const struct tb_config *config)
{
    for (uint32_t t = 0; t < config->n_tiers; t++)
        if (config->tiers[t].medium == TB_MEDIUM_DIRECTORY)
            return t;
    return TB_NONE;
}

void tb_waiting_directory(const struct tb_config *c, const char *host, const char *name, char *out, size_t size)
{
    snprintf(out, size, "%s/.tierbench.%u.%s.%s", c->pfs.path, (unsigned)getuid(), host, name);
}
