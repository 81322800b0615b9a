/*
 * Operations of the engine's layer for which a name needs nothing but its place: no file
 * record knows of a mode, a symlink's text or a directory's entries.
 */
#ifndef TB_PLACED_H
#define TB_PLACED_H

#include <tierbench/io.h>

ssize_t tb_placed_readlink(struct tb_io *io, const char *path, char *text, size_t n);
int tb_placed_symlink(struct tb_io *io, const char *text, const char *path);
int tb_placed_realpath(struct tb_io *io, const char *path, char *out);
int tb_placed_access(struct tb_io *io, const char *path, int mode, int flags);
int tb_placed_chmod(struct tb_io *io, const char *path, mode_t mode, int flags);
int tb_placed_chown(struct tb_io *io, const char *path, uid_t user, gid_t group, int flags);
int tb_placed_utimens(struct tb_io *io, const char *path, const struct timespec times[2], int flags);
int tb_placed_mknod(struct tb_io *io, const char *path, mode_t mode, dev_t device);
int tb_placed_mkdir(struct tb_io *io, const char *path, mode_t mode);
int tb_placed_statx(struct tb_io *io, const char *path, int flags, unsigned mask, struct statx *out);
int tb_placed_statfs(struct tb_io *io, const char *path, struct statfs *out);
int tb_placed_statvfs(struct tb_io *io, const char *path, struct statvfs *out);
int tb_placed_pathconf(struct tb_io *io, const char *path, int name, long *out);
ssize_t tb_placed_getxattr(struct tb_io *io, const char *path, const char *key, void *out, size_t n, int flags);
ssize_t tb_placed_listxattr(struct tb_io *io, const char *path, char *out, size_t n, int flags);
int tb_placed_setxattr(struct tb_io *io, const char *path, const char *key, const void *value, size_t n, int how, int flags);
int tb_placed_removexattr(struct tb_io *io, const char *path, const char *key, int flags);
int tb_placed_watch(struct tb_io *io, const char *path, int fd, uint32_t mask);
/* The entries that are there: those of a stub's directory, without deferred names (tb_engine_waiting). */
int tb_placed_opendir(struct tb_io *io, const char *path, DIR **out);
int tb_placed_readdir(struct tb_io *io, DIR *directory, struct dirent **out);
int tb_placed_closedir(struct tb_io *io, DIR *directory);

#endif
