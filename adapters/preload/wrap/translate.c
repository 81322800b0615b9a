/*
 * Calls by name that are no chain operation (file systems, extended attributes, watches):
 * libc's, on the name where the file lies. Models, traces and faults do not see them.
 */
#include <fcntl.h>
#include <sys/inotify.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "core/adapter.h"

#define WRAP(type, name, parameters, resolved, ...)               \
    TB_WRAPPER type name parameters                               \
    {                                                             \
        struct tb_path p;                                         \
        return (resolved) ? REAL(name)(__VA_ARGS__) : (type) - 1; \
    }
#define HERE(use) tb_path_real(&(int){AT_FDCWD}, &path, TB_NAME_##use, &p)
#define HERE_ITSELF(use) tb_path_real(&(int){AT_FDCWD}, &path, TB_NAME_##use | TB_NAME_NOFOLLOW, &p)

WRAP(int, statfs, (const char *path, struct statfs *out), HERE(ENTER), path, out)
WRAP(int, statfs64, (const char *path, struct statfs64 *out), HERE(ENTER), path, out)
WRAP(int, statvfs, (const char *path, struct statvfs *out), HERE(ENTER), path, out)
WRAP(int, statvfs64, (const char *path, struct statvfs64 *out), HERE(ENTER), path, out)
WRAP(long, pathconf, (const char *path, int name), HERE(LOOK), path, name)
WRAP(int, inotify_add_watch, (int fd, const char *path, uint32_t mask), HERE(ENTER), fd, path, mask)
WRAP(ssize_t, getxattr, (const char *path, const char *key, void *out, size_t n), HERE(LOOK), path, key, out, n)
WRAP(ssize_t, lgetxattr, (const char *path, const char *key, void *out, size_t n), HERE_ITSELF(LOOK), path, key, out, n)
WRAP(ssize_t, listxattr, (const char *path, char *out, size_t n), HERE(LOOK), path, out, n)
WRAP(ssize_t, llistxattr, (const char *path, char *out, size_t n), HERE_ITSELF(LOOK), path, out, n)
WRAP(int, setxattr, (const char *path, const char *key, const void *value, size_t n, int flags), HERE(CHANGE), path, key, value, n, flags)
WRAP(int, lsetxattr, (const char *path, const char *key, const void *value, size_t n, int flags), HERE_ITSELF(CHANGE), path, key, value, n,
     flags)
WRAP(int, removexattr, (const char *path, const char *key), HERE(CHANGE), path, key)
WRAP(int, lremovexattr, (const char *path, const char *key), HERE_ITSELF(CHANGE), path, key)
