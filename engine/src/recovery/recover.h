#ifndef TB_INSTANCE_RECOVER_H
#define TB_INSTANCE_RECOVER_H

#include "base/error.h"
#include "base/report.h"
#include "config/config.h"

/*
 * Put what a dead instance of `config` promised on the PFS: attach a region that
 * survived, else replay the journals found in the directory tiers.  Removes each
 * instance that is then wholly on the PFS.  Reports every file, every torn or
 * flipped record with error -EBADMSG, and every instance that a process still uses
 * (region/lease.h), which it leaves as it is.  Returns the number of instances
 * recovered (0: there was nothing), or the first error.
 */
int tb_instance_recover(const struct tb_config *config, struct tb_io *base, tb_progress *progress, tb_file_reporter *report, void *arg,
                        struct tb_error *err);

/*
 * Remove an instance that has lost the tier directory with its lease, together with bytes
 * that are not on the PFS.
 * -EEXIST: the directory is there. -EBUSY: a process still uses it. -ENOENT: there is no
 * such instance.
 */
int tb_instance_discard(const char *name);

#endif
