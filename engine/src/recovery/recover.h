#ifndef TB_INSTANCE_RECOVER_H
#define TB_INSTANCE_RECOVER_H

#include "base/error.h"
#include "base/report.h"
#include "config/config.h"

/*
 * Put what a dead instance of `config` promised on the PFS: attach a region that
 * survived, else replay the journals found in the directory tiers.  Removes each
 * instance that is then wholly on the PFS.  Reports every file, every torn or
 * flipped record with error -EBADMSG, and every instance that somebody still uses
 * (region/lease.h), which it leaves as it is.  Returns the number of instances
 * recovered (0: there was nothing), or the first error.
 */
int tb_instance_recover(const struct tb_config *config, struct tb_io *base, tb_progress *progress,
                        tb_file_reporter *report, void *arg, struct tb_error *err);

/*
 * Remove what is left of an instance of which a tier's directory is gone with its lease, with what was not on the PFS.
 * -EEXIST it is not so; -EBUSY somebody still uses it; -ENOENT there is none.
 */
int tb_instance_discard(const char *name);

#endif
