/*
 * From the path of a call to a managed path: absolute, without ".." and links that only the kernel may follow.
 */
#ifndef TB_PRELOAD_PATHS_H
#define TB_PRELOAD_PATHS_H

#include <limits.h>
#include <stdbool.h>
#include <sys/stat.h>

#include <tierbench/engine.h>

/* A managed path, absolute. */
struct tb_path {
    struct tb_io *io;
    enum tb_mode mode;
    char path[PATH_MAX];
    char real[PATH_MAX]; /* room for tb_path_real */
};
/* The absolute name, in out->path or as it was given. NULL: not managed, use libc with the caller's own arguments. */
const char *tb_path_look(int dirfd, const char *path, struct tb_path *out);
/* The same, in out->path. */
bool tb_path_find(int dirfd, const char *path, struct tb_path *out);
/* The absolute name alone, PATH_MAX bytes; false where it can't be said. */
bool tb_path_name(int dirfd, const char *path, char *out);
/* The number in a name that the kernel takes for an open descriptor of this process (/proc/self/fd/3, /dev/stdin); -1: it is no such name. */
int tb_path_descriptor(const char *path);
/* The descriptor whose file is meant and not a name: by an empty name (AT_EMPTY_PATH), or by one of those. -1: none. */
int tb_path_meant(int dirfd, const char *path, int flags);
/* The managed name that the file of any descriptor has now. False: it has none. */
bool tb_path_of_file(int fd, struct stat *st, struct tb_path *out);
/* The same of a descriptor that only names a file (O_PATH). */
bool tb_path_of_place(int fd, struct tb_path *out);
/* The same of a file of the PFS that is open under a scratch prefix. What would change it changes what has its name: a copy. */
bool tb_path_of_pfs(int fd, struct tb_path *out);
/* It ends as only a directory's name may: with a slash, or with a part of dots. */
bool tb_path_is_directory(const char *path);
/*
 * For a call that is no chain operation: what libc is to be given for `use` (enum
 * tb_name_use) instead of the caller's directory and name. Both stay as they are if the
 * name is where it says it is. False: errno says why not.
 */
bool tb_path_real(int *dirfd, const char **path, unsigned use, struct tb_path *room);
/* The same of a name that tb_path_find has found. */
bool tb_path_real_of(int *dirfd, const char **path, unsigned use, struct tb_path *found);
/* Before something that acts on the backing file by name: its dirty bytes first.  Failures show when it is flushed next. */
void tb_path_flush(const struct tb_path *path);
/* Before it goes where the engine can't follow: coherent until the last descriptor of now closes. */
void tb_path_coherent(const struct tb_path *path);

#endif
