/*
 * Names.  Those that change a file's identity are chain operations; the rest
 * only need to know where the name really stands.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/xattr.h>
#include <unistd.h>
#include <utime.h>

#include "adapter.h"

TB_WRAPPER int unlinkat(int dirfd, const char *path, int flags)
{
    struct tb_path p;
    return tb_path_find(dirfd, path, &p) ? (int)TB_CALL(p.io, unlink, p.path, flags) : REAL(unlinkat)(dirfd, path, flags);
}

TB_WRAPPER int unlink(const char *path) { return unlinkat(AT_FDCWD, path, 0); }
TB_WRAPPER int rmdir(const char *path) { return unlinkat(AT_FDCWD, path, AT_REMOVEDIR); }

TB_WRAPPER int remove(const char *path)
{
    int saved = errno;
    if (unlinkat(AT_FDCWD, path, 0) == 0)
        return 0;
    if (errno != EISDIR && errno != EPERM)
        return -1;
    errno = saved;
    return unlinkat(AT_FDCWD, path, AT_REMOVEDIR);
}

/* Between a managed and an unmanaged place the file moves by copy, as between file systems. */
TB_WRAPPER int renameat2(int from_dir, const char *from, int to_dir, const char *to, unsigned flags)
{
    struct tb_path p, q;
    bool managed = tb_path_find(from_dir, from, &p), into = tb_path_find(to_dir, to, &q);
    if (!managed && !into)
        return REAL(renameat2)(from_dir, from, to_dir, to, flags);
    if (managed != into || p.io != q.io)
        return (int)tb_result(-EXDEV);
    return (int)TB_CALL(p.io, rename, p.path, q.path, flags);
}

TB_WRAPPER int rename(const char *from, const char *to) { return renameat2(AT_FDCWD, from, AT_FDCWD, to, 0); }
TB_WRAPPER int renameat(int from_dir, const char *from, int to_dir, const char *to)
{
    return renameat2(from_dir, from, to_dir, to, 0);
}

TB_WRAPPER int linkat(int from_dir, const char *from, int to_dir, const char *to, int flags)
{
    struct tb_path p, q;
    bool managed = tb_path_find(from_dir, from, &p), into = tb_path_find(to_dir, to, &q);
    if (!managed && !into)
        return REAL(linkat)(from_dir, from, to_dir, to, flags);
    if (managed != into || p.io != q.io)
        return (int)tb_result(-EXDEV);
    return (int)TB_CALL(p.io, link, p.path, q.path);
}

TB_WRAPPER int link(const char *from, const char *to) { return linkat(AT_FDCWD, from, AT_FDCWD, to, 0); }

TB_WRAPPER int mkdirat(int dirfd, const char *path, mode_t mode)
{
    struct tb_path p;
    return tb_path_find(dirfd, path, &p) ? (int)TB_CALL(p.io, mkdir, p.path, mode) : REAL(mkdirat)(dirfd, path, mode);
}

TB_WRAPPER int mkdir(const char *path, mode_t mode) { return mkdirat(AT_FDCWD, path, mode); }

/* The name as libc shall see it. */
static const char *real_name(int dirfd, const char *path, struct tb_path *p, int *at)
{
    if (!tb_path_find(dirfd, path, p))
        return path;
    *at = AT_FDCWD;
    return p->real;
}

#define BY_NAME(type, name, parameters, ...)                                                                                     \
    TB_WRAPPER type name parameters                                                                                              \
    {                                                                                                                            \
        struct tb_path p;                                                                                                        \
        int at = AT_FDCWD;                                                                                                       \
        path = real_name(at, path, &p, &at);                                                                                     \
        return REAL(name)(__VA_ARGS__);                                                                                          \
    }

#define BY_NAME_AT(type, name, parameters, ...)                                                                                  \
    TB_WRAPPER type name parameters                                                                                              \
    {                                                                                                                            \
        struct tb_path p;                                                                                                        \
        path = real_name(at, path, &p, &at);                                                                                     \
        return REAL(name)(__VA_ARGS__);                                                                                          \
    }

BY_NAME(DIR *, opendir, (const char *path), path)
BY_NAME(int, chdir, (const char *path), path)
BY_NAME(int, chmod, (const char *path, mode_t mode), path, mode)
BY_NAME(int, chown, (const char *path, uid_t user, gid_t group), path, user, group)
BY_NAME(int, lchown, (const char *path, uid_t user, gid_t group), path, user, group)
BY_NAME(int, utime, (const char *path, const struct utimbuf *times), path, times)
BY_NAME(int, utimes, (const char *path, const struct timeval times[2]), path, times)
BY_NAME(int, lutimes, (const char *path, const struct timeval times[2]), path, times)
BY_NAME(ssize_t, readlink, (const char *path, char *out, size_t n), path, out, n)
BY_NAME(ssize_t, getxattr, (const char *path, const char *key, void *out, size_t n), path, key, out, n)
BY_NAME(ssize_t, lgetxattr, (const char *path, const char *key, void *out, size_t n), path, key, out, n)
BY_NAME(ssize_t, listxattr, (const char *path, char *out, size_t n), path, out, n)
BY_NAME(ssize_t, llistxattr, (const char *path, char *out, size_t n), path, out, n)
BY_NAME(int, setxattr, (const char *path, const char *key, const void *value, size_t n, int flags), path, key, value, n, flags)
BY_NAME(int, lsetxattr, (const char *path, const char *key, const void *value, size_t n, int flags), path, key, value, n, flags)
BY_NAME(int, removexattr, (const char *path, const char *key), path, key)
BY_NAME(int, mkfifo, (const char *path, mode_t mode), path, mode)
BY_NAME(int, mknod, (const char *path, mode_t mode, dev_t device), path, mode, device)
BY_NAME_AT(int, mknodat, (int at, const char *path, mode_t mode, dev_t device), at, path, mode, device)
BY_NAME_AT(int, fchmodat, (int at, const char *path, mode_t mode, int flags), at, path, mode, flags)
BY_NAME_AT(int, fchownat, (int at, const char *path, uid_t user, gid_t group, int flags), at, path, user, group, flags)
BY_NAME_AT(ssize_t, readlinkat, (int at, const char *path, char *out, size_t n), at, path, out, n)

/* A name without a path means the descriptor itself. */
TB_WRAPPER int utimensat(int at, const char *path, const struct timespec times[2], int flags)
{
    struct tb_path p;
    path = real_name(at, path, &p, &at); /* NULL comes back as it is */
    return REAL(utimensat)(at, path, times, flags);
}

TB_WRAPPER int symlink(const char *target, const char *path)
{
    struct tb_path p;
    int at = AT_FDCWD;
    path = real_name(at, path, &p, &at);
    return REAL(symlink)(target, path);
}

TB_WRAPPER int symlinkat(const char *target, int at, const char *path)
{
    struct tb_path p;
    path = real_name(at, path, &p, &at);
    return REAL(symlinkat)(target, at, path);
}
