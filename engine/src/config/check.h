/*
 * Whether what a configuration names is there, and as it has to be.
 */
#ifndef TB_CONFIG_CHECK_H
#define TB_CONFIG_CHECK_H

#include "config/config.h"

/*
 * Check what the file system says: paths exist and are writable; directory tiers have room
 * for their capacity, and not every user may rename in them; `fsync: tier` has a file
 * system that is not volatile (unless allow_volatile); this node has the memory that it lends; /dev/shm or the region's directory
 * can hold the region of `region_bytes` (see region/layout.h).
 */
int tb_config_check_paths(const struct tb_config *config, uint64_t region_bytes, struct tb_error *err);
/* A tier and the next one, of which one is in other nodes' memory, are in the wrong order by their figures. False: not, or not known. */
bool tb_config_warn_of_order(const struct tb_config *config, uint32_t tier, struct tb_error *out);
/* Which other users could take a tier's directory away: a site may want it, and its user should know. False: none. */
bool tb_config_warn_of_tier(const struct tb_config *config, uint32_t tier, struct tb_error *out);

#endif
