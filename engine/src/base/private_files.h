/*
 * Files that are this user's alone.
 *
 * All users may be able to write to a directory tier (node-local scratch is such a
 * place), and to /dev/shm.  So another user can make any name there that the engine
 * looks for.  Therefore a directory is entered only if it belongs to this user, is no
 * symbolic link, and no other user can change its names. What is in it is opened relative
 * to it, never by a path that another user could change in between.
 */
#ifndef TB_PRIVATE_FILES_H
#define TB_PRIVATE_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* A descriptor of the directory, or -errno: -EPERM it is another user's or others may change its names, -ELOOP a link. */
int tb_private_directory(const char *path);

/*
 * A regular file of this user in it: `flags` as of open.  -EPERM it is another
 * user's, -ELOOP a symbolic link.  Never waits for a fifo's other side.
 */
int tb_private_file(int directory, const char *name, int flags);

/* Make a file of that size, which must not be there yet: its descriptor or -errno. */
int tb_private_make(int directory, const char *name, uint64_t bytes);

/*
 * A new file beside `file`, of which `part` becomes the name: it gets its own name by rename
 * when it is whole. No other user can foresee that name, and no link that has it is followed.
 * NULL and errno.
 */
FILE *tb_part_open(const char *file, char *part, size_t size);

/* How often the descriptor's file is linked: 0 when it was removed. */
bool tb_file_is_linked(int fd);

#endif
