/* What an instance owns outside its region: where it is, by the configuration and the name alone. */
#ifndef TB_REGION_DIRECTORIES_H
#define TB_REGION_DIRECTORIES_H

#include "region/region.h"

/* "PATH/tierbench.UID.HOST.NAME": what an instance owns in a directory tier. */
void tb_tier_directory(const struct tb_config_tier *tier, const char *host, const char *name, char *out, size_t size);
/* One file per slab in it: its name there. */
#define TB_SLAB_NAME_MAX 24
void tb_slab_file(uint32_t slab, char out[TB_SLAB_NAME_MAX]);

/* The tier of the journal: the first directory tier, or TB_NONE. */
uint32_t tb_journal_tier(const struct tb_config *config);

/* "PFS/.tierbench.UID.HOST.NAME": the hidden directory of names that wait (namespace/deferred.h). */
void tb_waiting_directory(const struct tb_config *c, const char *host, const char *name, char *out, size_t size);

#endif
