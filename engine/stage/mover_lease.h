/* The lock that says which mover lives (mover.h), and the rules of politeness that hold for its whole process. */
#ifndef TB_STAGE_MOVER_LEASE_H
#define TB_STAGE_MOVER_LEASE_H

#include <limits.h>
#include <stdbool.h>

#include "config/stage.h"

struct tb_mover_lease {
    int fd;
    char path[PATH_MAX];
};

/* 0, -EBUSY: another process holds it, or -errno. */
int tb_mover_lease_take(struct tb_mover_lease *lease, const char *folder, const char *host, const char *from);
void tb_mover_lease_give_back(struct tb_mover_lease *lease);
bool tb_mover_lease_is_held(const char *folder, const char *host, const char *from);

/* Processors and priority of this process and its threads to come. 0 or -errno. */
int tb_be_polite(const struct tb_config_stage *settings);

#endif
