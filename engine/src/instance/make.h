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

#endif
