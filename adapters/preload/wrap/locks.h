/* Locks by fcntl. */
#ifndef TB_PRELOAD_LOCKS_H
#define TB_PRELOAD_LOCKS_H

#include <stdbool.h>

struct flock;
bool tb_is_lock_command(int command);
int tb_fcntl_lock(int fd, int command, struct flock *range);

#endif
