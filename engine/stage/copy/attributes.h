/*
 * What a file has besides its bytes: owner (where this user may give it), mode, extended
 * attributes with the ACLs, and times.
 */
#ifndef TB_STAGE_ATTRIBUTES_H
#define TB_STAGE_ATTRIBUTES_H

#include <stdbool.h>
#include <sys/stat.h>

/* From `in` to `out`; `st` is what `in` had before it was read. `gives_owner`: also whose it is. 0 or -errno. */
int tb_attributes_copy(int in, int out, const struct stat *st, bool gives_owner);

#endif
