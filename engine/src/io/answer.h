/* What a failed operation on a name says: something of the name, or that the file system failed. */
#ifndef TB_IO_ANSWER_H
#define TB_IO_ANSWER_H

#include <errno.h>
#include <stdbool.h>

/*
 * Did the file system fail (an I/O error, no room, no memory)?  A look at a name that
 * failed so says nothing of the name: a caller that takes it for "not there" makes a second
 * file of that name, or removes what is in use.
 */
static inline bool tb_io_failed(long rc)
{
    switch (rc) {
    case -ENOENT:
    case -ENOTDIR:
    case -EISDIR:
    case -EACCES:
    case -EPERM:
    case -ELOOP:
    case -ENAMETOOLONG:
    case -EXDEV:
    case -EEXIST:
    case -ENOTEMPTY:
    case -EINVAL: /* readlink of what is no symlink */
    case -EROFS: return false;
    default: return rc < 0;
    }
}

#endif
