/*
 * Files that are this user's alone.
 *
 * A directory tier may be writable for everybody (node-local scratch is), and so
 * is /dev/shm.  Whoever can make names there can make any name the engine looks
 * for.  So a directory is entered only where it is this user's, no symbolic link,
 * and no other user can change its names; and what lies in it is opened relative
 * to it, never by a path that somebody could change in between.
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
