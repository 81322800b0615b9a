/*
 * Bytes that were promised to a file which another program, one that does not go
 * through the engine, has removed or replaced since.  They can't be put back: the
 * name is gone or another file's.  A recovery that only said so would say it for
 * ever, so it puts them into a file of their own,
 *
 *   TIER/tierbench.lost.UID/INSTANCE.INODE.NAME
 *
 * at the offsets that they had, says that once, and is done.
 *
 * Limit: only where the PFS is the one that the instance was started with.  Before
 * it is mounted every file seems to be gone.
 */
#ifndef TB_LOST_H
#define TB_LOST_H

#include <tierbench/io.h>

#include "config/config.h"
#include "file/file.h"
#include "io/identity.h"

struct tb_lost {
    const struct tb_config *config;
    const char *name; /* of the instance */
    struct tb_io *pfs;
    struct tb_identity root; /* of the PFS, when the instance was started: inode and birth time */
    _Atomic int n;           /* files made */
    _Atomic int n_borrowed;  /* files with bytes that were only in other nodes' memory: nothing is kept of these */
};

/* Does that error of opening a file say that it is not there any more? */
bool tb_lost_is_gone(int error);
/* A descriptor for writing the bytes of that file, or -errno; its path is put into `kept`. */
int tb_lost_open(struct tb_lost *l, const char *path, uint64_t inode, char *kept, size_t size);
/* The report's words for it. */
void tb_lost_say(const char *kept, uint64_t bytes, char *why, size_t size);

#endif
