/* What an instance is made of: how the rest of it goes once it is void. */
#ifndef TB_INSTANCE_MAKE_H
#define TB_INSTANCE_MAKE_H

#include "instance/instance.h"

/* Everything of a void instance with that id, which the caller holds the lease of alone or is ending; the lease last. */
void tb_instance_remove(const struct tb_config *config, const char *host, const char *name, uint64_t id);

/*
 * Remove what was never ready or is void already, left by a start or a stop that was killed.
 * Leaves alone what somebody uses and what may hold promised bytes.
 */
void tb_instance_sweep(const struct tb_config *config, const char *host, const char *name);

/*
 * Make and touch the region, make the tiers' directories and slab files.
 * -EEXIST an instance of that name is there, alive or dead; -ENOTEMPTY a directory is, of one that was not recovered
 * or of which the region is not made yet.  Removes what it made itself when it fails, and nothing else.
 */
int tb_instance_create(const struct tb_config *config, const char *name, struct tb_io *base, tb_progress *progress,
                       void *arg, tb_engine **out, struct tb_error *err);

/*
 * Remove region, tier directories and shadow.  What is still dirty is lost: drain first.  Frees the handle.
 * -EBUSY another process is doing it; -ENOENT one has done it.
 */
int tb_instance_destroy(tb_engine *engine);

/*
 * What its lease in a tier says of an instance, wherever its region is: 1 somebody uses it; 0 nobody does, and it may hold
 * bytes that are not on the PFS; -ENOENT there is none, or all of it is; -EPERM its directory is another user's; else -errno.
 */
int tb_instance_is_used(const struct tb_config *config, const char *name);

/* The command that recovers what it left in its tiers, with the configuration and the mode that it had. */
void tb_instance_recovery(const struct tb_config *config, const char *name, char *out, size_t size);

#endif
