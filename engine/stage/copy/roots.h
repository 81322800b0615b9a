/*
 * Folders that were there when a mover began. Where one is missing later, or leads to another file system, what it was on is not
 * mounted any more, and files would go to what is below the mount point.
 */
#ifndef TB_STAGE_ROOTS_H
#define TB_STAGE_ROOTS_H

#include <stdbool.h>
#include <sys/stat.h>

#include "stage/log/table.h"

struct tb_roots {
    struct tb_table table; /* by path */
};

/* A folder that is there and stays the same one, or of the path the lowest that is there: it may be made again. 0 or -errno. */
int tb_roots_add(struct tb_roots *roots, const char *folder);
int tb_roots_add_above(struct tb_roots *roots, const char *path);
/* Those that this path is in: by any thread, after the last one was added. */
bool tb_roots_are_there(const struct tb_roots *roots, const char *path);
void tb_roots_end(struct tb_roots *roots);

/* The lowest folder at this path or above it. 0 or -errno. */
int tb_root_above(const char *path, char *folder, struct stat *st);
/* Is that folder, of which device and inode are known, or what is there in its place now, on its file system? */
bool tb_root_is_there(const char *folder, dev_t device, ino_t inode);

#endif
