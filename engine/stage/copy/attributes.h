/*
 * What a file has besides its bytes: owner (where this user may give it), mode, extended
 * attributes with the ACLs, and times.
 */
#ifndef TB_STAGE_ATTRIBUTES_H
#define TB_STAGE_ATTRIBUTES_H

#include <stdbool.h>
#include <sys/stat.h>

/* Has it extended attributes, which ACLs are too? Also where that cannot be said. */
bool tb_attributes_has_extended(int fd);

/*
 * From `in` to `out`; `st` is what `in` had before it was read. `gives_owner`: also its owner; `extended`: those too. 0,
 * TB_BYTES_DIFFER: the sizes do, or -errno.
 */
int tb_attributes_copy(int in, int out, const struct stat *st, bool gives_owner, bool extended);

#endif
