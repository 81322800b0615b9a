/*
 * Names that are texts: symlinks, real paths, sockets.  What a scratch prefix
 * stores of them are places in its shadow; programs read their own names.
 */
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "core/adapter.h"

/* What no symlink can be made of (a name with a slash at the end, no text) is the kernel's to refuse. */
TB_WRAPPER int symlinkat(const char *target, int at, const char *path)
{
    struct tb_path p;
    if (!tb_path_find(at, path, &p))
        return REAL(symlinkat)(target, at, path);
    if (!tb_path_is_directory(path) && (intptr_t)target >= 4096)
        return (int)TB_CALL(p.io, symlink, target, p.path);
    return tb_path_real_of(&at, &path, TB_NAME_MAKE, &p) ? REAL(symlinkat)(target, at, path) : -1;
}

TB_WRAPPER int symlink(const char *target, const char *path)
{
    return symlinkat(target, AT_FDCWD, path);
}

/*
 * Outside every prefix a text may lead into a shadow too (/proc/self/fd): programs are told
 * their own name.
 */
TB_WRAPPER ssize_t readlinkat(int at, const char *path, char *out, size_t n)
{
    struct tb_path p;
    char text[PATH_MAX], shown[PATH_MAX];
    tb_engine *e = tb_inside ? NULL : tb_adapter_engine_for(path);
    if (tb_path_find(at, path, &p))
        return (ssize_t)TB_CALL(p.io, readlink, p.path, out, n);
    ssize_t length = e ? REAL(readlinkat)(at, path, text, sizeof(text) - 1) : -1;
    if (length < 0)
        return REAL(readlinkat)(at, path, out, n);
    text[length] = 0;
    if (!tb_engine_shown(e, text, shown, sizeof(shown)))
        return REAL(readlinkat)(at, path, out, n);
    length = (ssize_t)strlen(shown);
    length = length < (ssize_t)n ? length : (ssize_t)n;
    memcpy(out, shown, (size_t)length);
    return length;
}

ssize_t __readlink_chk(const char *path, char *out, size_t n, size_t room);
ssize_t __readlinkat_chk(int at, const char *path, char *out, size_t n, size_t room);
TB_WRAPPER ssize_t readlink(const char *path, char *out, size_t n)
{
    return readlinkat(AT_FDCWD, path, out, n);
}
TB_WRAPPER ssize_t __readlink_chk(const char *path, char *out, size_t n, size_t room)
{
    return __readlinkat_chk(AT_FDCWD, path, out, n, room);
}
TB_WRAPPER ssize_t __readlinkat_chk(int at, const char *path, char *out, size_t n, size_t room)
{
    if (n > room)
        abort();
    return readlinkat(at, path, out, n);
}

/* `out` has room for PATH_MAX bytes, as libc asks; without it the caller frees what is returned. */
TB_WRAPPER char *realpath(const char *path, char *out)
{
    struct tb_path p;
    char name[PATH_MAX], shown[PATH_MAX];
    tb_engine *e = tb_inside ? NULL : tb_adapter_engine_for(path);
    bool managed = tb_path_find(AT_FDCWD, path, &p);
    if (!e)
        return REAL(realpath)(path, out);
    if (managed ? TB_CALL(p.io, realpath, p.path, name) != 0 : REAL(realpath)(path, name) == NULL)
        return managed ? NULL : REAL(realpath)(path, out);
    if (tb_engine_shown(e, name, shown, sizeof(shown)))
        strcpy(name, shown);
    return out ? strcpy(out, name) : strdup(name);
}

char *__realpath_chk(const char *path, char *out, size_t room);
TB_WRAPPER char *canonicalize_file_name(const char *path)
{
    return realpath(path, NULL);
}
TB_WRAPPER char *__realpath_chk(const char *path, char *out, size_t room)
{
    if (room < PATH_MAX)
        abort();
    return realpath(path, out);
}

/* A socket's address holds 107 characters: a place with a longer name is reached by a descriptor of its directory. */
struct address {
    struct sockaddr_un un;
    const struct sockaddr *given;
    socklen_t length;
    int directory; /* to be closed, -1 none */
};

/* The descriptor stays open until the call is made: leave_address closes it. */
static bool fill(struct address *a, const char *place)
{
    size_t n = strlen(place);
    const char *slash = strrchr(place, '/');
    char above[PATH_MAX];
    a->un.sun_family = AF_UNIX;
    if (n >= sizeof(a->un.sun_path)) {
        snprintf(above, sizeof(above), "%.*s", (int)(slash - place), place);
        a->directory = REAL(open)(above, O_PATH | O_DIRECTORY | O_CLOEXEC);
        n = (size_t)snprintf(a->un.sun_path, sizeof(a->un.sun_path), "/proc/self/fd/%d%s", a->directory, slash);
        if (a->directory < 0 || n >= sizeof(a->un.sun_path))
            return errno = a->directory < 0 ? errno : ENAMETOOLONG, false;
    } else {
        memcpy(a->un.sun_path, place, n + 1);
    }
    a->given = (const struct sockaddr *)&a->un;
    a->length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n + 1);
    return true;
}

/*
 * True: `a` holds what the kernel is to be given, the program's own address or a place in a
 * shadow. Abstract names and other families stay as they are. False with errno.
 */
static bool find_address(struct address *a, const struct sockaddr *given, socklen_t length, unsigned use)
{
    struct tb_path p;
    char name[sizeof(a->un.sun_path) + 1] = "";
    const char *path = name;
    *a = (struct address){.given = given, .length = length, .directory = -1};
    if (!given || length <= offsetof(struct sockaddr_un, sun_path) || given->sa_family != AF_UNIX || length > sizeof(a->un))
        return true;
    memcpy(name, ((const struct sockaddr_un *)given)->sun_path, length - offsetof(struct sockaddr_un, sun_path));
    if (!name[0] || !tb_path_real(&(int){AT_FDCWD}, &path, use, &p))
        return !name[0];
    return path == name || fill(a, path);
}

/* Keeps the errno of the call. */
static int leave_address(const struct address *a, int rc)
{
    int saved = errno;
    if (a->directory >= 0)
        REAL(close)(a->directory);
    errno = saved;
    return rc;
}

/* The name is made where it really is, and that path may be too long for an address. */
TB_WRAPPER int bind(int fd, const struct sockaddr *address, socklen_t length)
{
    struct address a;
    return leave_address(&a, find_address(&a, address, length, TB_NAME_MAKE) ? REAL(bind)(fd, a.given, a.length) : -1);
}

TB_WRAPPER int connect(int fd, const struct sockaddr *address, socklen_t length)
{
    struct address a;
    return leave_address(&a, find_address(&a, address, length, TB_NAME_LOOK) ? REAL(connect)(fd, a.given, a.length) : -1);
}

TB_WRAPPER ssize_t sendto(int fd, const void *bytes, size_t n, int flags, const struct sockaddr *address, socklen_t length)
{
    struct address a;
    if (!find_address(&a, address, length, TB_NAME_LOOK))
        return leave_address(&a, -1);
    ssize_t sent = REAL(sendto)(fd, bytes, n, flags, a.given, a.length);
    leave_address(&a, 0);
    return sent;
}

/* What bind stored, in the program's words. */
static int shown_address(int rc, struct sockaddr *address, socklen_t *length, socklen_t room)
{
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    char shown[PATH_MAX];
    tb_engine *e = tb_inside ? NULL : tb_adapter_engine();
    if (rc || !e || !address || address->sa_family != AF_UNIX || *length > room || *length <= offsetof(struct sockaddr_un, sun_path))
        return rc;
    memcpy(&un, address, *length < sizeof(un) ? *length : sizeof(un));
    un.sun_path[sizeof(un.sun_path) - 1] = 0;
    if (!tb_engine_shown(e, un.sun_path, shown, sizeof(shown)) || strlen(shown) >= sizeof(un.sun_path))
        return rc;
    strcpy(un.sun_path, shown);
    *length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(shown) + 1);
    memcpy(address, &un, *length < room ? *length : room);
    return rc;
}

TB_WRAPPER int getsockname(int fd, struct sockaddr *address, socklen_t *length)
{
    socklen_t room = length ? *length : 0;
    return shown_address(REAL(getsockname)(fd, address, length), address, length, room);
}

TB_WRAPPER int getpeername(int fd, struct sockaddr *address, socklen_t *length)
{
    socklen_t room = length ? *length : 0;
    return shown_address(REAL(getpeername)(fd, address, length), address, length, room);
}
