/*
 * Requirements of a user in XML, as HPDC'18's user-defined schemas, read as the rules of the
 * user-defined policy:
 *
 *   <requirements>
 *     <requirement file="/lustre/me/restart.h5" tiers="nvme"/>
 *     <requirement pattern="*.log" size_at_most="1MiB" tiers="ram nvme"/>
 *     <requirement file="/lustre/me/out.{rank:8}" rank="0-63" tiers="bb"/>
 *   </requirements>
 */
#ifndef TB_CTL_REQUIREMENTS_H
#define TB_CTL_REQUIREMENTS_H

#include "config/config.h"

/* The first character that is no blank is a `<`.  False also for a file that can't be read. */
bool ctl_requirements_is_xml(const char *file);

/*
 * Into policy and rules of `config`; with `has_tiers` their names must be those of its tiers.  0, or -EINVAL / -errno with `err`
 * naming file, line, element, value and what is allowed; then the configuration is as it was.
 */
int ctl_requirements_read(const char *file, bool has_tiers, struct tb_config *config, struct tb_error *err);

#endif
