/*
 * File systems, limits, what extended attributes say, and watches by name. A managed name goes through its chain, which finds its
 * place; any other is libc's with the caller's own arguments. The forms for 32 and 64 bits are one operation, as both have
 * the same layout here.
 */
#include <assert.h>
#include <fcntl.h>
#include <sys/inotify.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "core/adapter.h"

#define BY_CHAIN(type, name, parameters, libc, op, ...)                                                           \
    TB_WRAPPER type name parameters                                                                               \
    {                                                                                                             \
        struct tb_path p;                                                                                         \
        return tb_path_find(AT_FDCWD, path, &p) ? (type)TB_CALL(p.io, op, p.path, __VA_ARGS__) : REAL(name) libc; \
    }
#define ITSELF AT_SYMLINK_NOFOLLOW

/* Offsets have 64 bits in both. */
static_assert(sizeof(struct statfs) == sizeof(struct statfs64) && sizeof(struct statvfs) == sizeof(struct statvfs64), "one layout");
BY_CHAIN(int, statfs, (const char *path, struct statfs *out), (path, out), statfs, out)
BY_CHAIN(int, statfs64, (const char *path, struct statfs64 *out), (path, out), statfs, (struct statfs *)out)
BY_CHAIN(int, statvfs, (const char *path, struct statvfs *out), (path, out), statvfs, out)
BY_CHAIN(int, statvfs64, (const char *path, struct statvfs64 *out), (path, out), statvfs, (struct statvfs *)out)
BY_CHAIN(int, inotify_add_watch, (int fd, const char *path, uint32_t mask), (fd, path, mask), watch, fd, mask)
BY_CHAIN(ssize_t, getxattr, (const char *path, const char *key, void *out, size_t n), (path, key, out, n), getxattr, key, out, n, 0)
BY_CHAIN(ssize_t, lgetxattr, (const char *path, const char *key, void *out, size_t n), (path, key, out, n), getxattr, key, out, n, ITSELF)
BY_CHAIN(ssize_t, listxattr, (const char *path, char *out, size_t n), (path, out, n), listxattr, out, n, 0)
BY_CHAIN(ssize_t, llistxattr, (const char *path, char *out, size_t n), (path, out, n), listxattr, out, n, ITSELF)

/* No limit is -1 as well, with errno as it was. */
TB_WRAPPER long pathconf(const char *path, int name)
{
    struct tb_path p;
    long limit;
    if (!tb_path_find(AT_FDCWD, path, &p))
        return REAL(pathconf)(path, name);
    return TB_CALL(p.io, pathconf, p.path, name, &limit) ? -1 : limit;
}
