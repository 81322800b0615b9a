/* What an instance is made of: how the rest of it goes once it is void. */
#ifndef TB_INSTANCE_MAKE_H
#define TB_INSTANCE_MAKE_H

#include "instance/instance.h"

/* Everything of a void instance with that id, which the caller holds the lease of alone or is ending; the lease last. */
void tb_instance_remove(const struct tb_config *config, const char *host, const char *name, uint64_t id);

/*
 * Remove what was never ready or is void already, left by a start or a stop that was killed.
 * Leaves alone what a process uses and what may hold promised bytes.
 */
void tb_instance_sweep(const struct tb_config *config, const char *host, const char *name);

/*
 * Remove every region of this user that was never ready and whose maker is dead, and tell its name: memory that a start takes
 * until it is killed, and that no configuration leads to. Returns how many.
 */
int tb_instance_sweep_unready(void (*removed)(const char *name));

/* 0; -EINVAL, with one message that names it and what is allowed: it becomes a part of names of files. */
int tb_instance_check_name(const char *name, struct tb_error *err);

/*
 * Make and touch the region, make the tiers' directories and slab files. Removes what it
 * made if it fails, and nothing else.
 * -EINVAL: what tb_instance_check_name says. -EEXIST: an instance of that name exists, alive or dead. -ENOTEMPTY: a directory exists,
 * of an instance that was not recovered, or that has no region not made yet.
 */
int tb_instance_create(const struct tb_config *config, const char *name, struct tb_io *base, tb_progress *progress, void *arg,
                       tb_engine **out, struct tb_error *err);

/*
 * Remove region, tier directories and shadow.  What is still dirty is lost: drain first.  Frees the handle.
 * -EBUSY another process is doing it; -ENOENT one has done it.
 */
int tb_instance_destroy(tb_engine *engine);

/*
 * What the lease in a tier says of an instance, wherever its region is. 1: a process uses
 * it. 0: no process uses it, and it may hold bytes that are not on the PFS. -ENOENT: there
 * is no such instance, or all its bytes are on the PFS.
 * -EPERM: its directory belongs to another user. Else -errno.
 */
int tb_instance_is_used(const struct tb_config *config, const char *name);

/* All of it is on the PFS, or was given up, although processes that outlived it may still hold the lease. */
bool tb_instance_is_over(const struct tb_config *config, const char *name);

/* The command that recovers what it left in its tiers, with the configuration and the mode that it had. */
void tb_instance_recovery(const struct tb_config *config, const char *name, char *out, size_t size);

#endif
