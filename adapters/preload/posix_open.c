/* Descriptors: made, copied, closed. */
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "adapter.h"

#define MODE_OF(flags, last)                                                                                                     \
    mode_t mode = 0;                                                                                                             \
    if ((flags) & (O_CREAT | O_TMPFILE)) {                                                                                       \
        va_list args;                                                                                                            \
        va_start(args, last);                                                                                                    \
        mode = va_arg(args, mode_t);                                                                                             \
        va_end(args);                                                                                                            \
    }

static int open_at(int dirfd, const char *path, int flags, mode_t mode)
{
    struct tb_path p;
    if (!tb_path_find(dirfd, path, &p))
        return REAL(openat)(dirfd, path, flags, mode);
    int fd = (int)TB_CALL(p.io, open, p.path, flags, mode);
    if (fd >= 0)
        tb_fd_set(fd, p.io);
    return fd;
}

TB_WRAPPER int open(const char *path, int flags, ...)
{
    MODE_OF(flags, flags)
    return open_at(AT_FDCWD, path, flags, mode);
}

TB_WRAPPER int open64(const char *path, int flags, ...)
{
    MODE_OF(flags, flags)
    return open_at(AT_FDCWD, path, flags, mode);
}

TB_WRAPPER int openat(int dirfd, const char *path, int flags, ...)
{
    MODE_OF(flags, flags)
    return open_at(dirfd, path, flags, mode);
}

TB_WRAPPER int openat64(int dirfd, const char *path, int flags, ...)
{
    MODE_OF(flags, flags)
    return open_at(dirfd, path, flags, mode);
}

/* What fortified programs call. */
int __open_2(const char *path, int flags);
int __open64_2(const char *path, int flags);
int __openat_2(int dirfd, const char *path, int flags);
int __openat64_2(int dirfd, const char *path, int flags);
TB_WRAPPER int __open_2(const char *path, int flags) { return open_at(AT_FDCWD, path, flags, 0); }
TB_WRAPPER int __open64_2(const char *path, int flags) { return open_at(AT_FDCWD, path, flags, 0); }
TB_WRAPPER int __openat_2(int dirfd, const char *path, int flags) { return open_at(dirfd, path, flags, 0); }
TB_WRAPPER int __openat64_2(int dirfd, const char *path, int flags) { return open_at(dirfd, path, flags, 0); }

TB_WRAPPER int creat(const char *path, mode_t mode)
{
    return open_at(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode);
}

TB_WRAPPER int creat64(const char *path, mode_t mode)
{
    return creat(path, mode);
}

/* libc makes the unique name and the file; it is opened again, managed, under the same number. */
static int adopt(int fd, const char *path, int flags)
{
    struct tb_path p;
    if (fd < 0 || !tb_path_find(AT_FDCWD, path, &p))
        return fd;
    int again = open_at(AT_FDCWD, path, O_RDWR | flags, 0600);
    if (again >= 0)
        REAL(close)(fd);
    return again;
}

TB_WRAPPER int mkstemp(char *template) { return adopt(REAL(mkstemp)(template), template, 0); }
TB_WRAPPER int mkstemp64(char *template) { return adopt(REAL(mkstemp64)(template), template, 0); }
TB_WRAPPER int mkostemp(char *template, int flags) { return adopt(REAL(mkostemp)(template, flags), template, flags); }
TB_WRAPPER int mkostemp64(char *template, int flags) { return adopt(REAL(mkostemp64)(template, flags), template, flags); }
TB_WRAPPER int mkstemps(char *template, int suffix) { return adopt(REAL(mkstemps)(template, suffix), template, 0); }
TB_WRAPPER int mkostemps(char *template, int suffix, int flags)
{
    return adopt(REAL(mkostemps)(template, suffix, flags), template, flags);
}

TB_WRAPPER int close(int fd)
{
    struct tb_io *io = tb_fd_io(fd);
    if (!io)
        return REAL(close)(fd);
    tb_fd_set(fd, NULL); /* before the number can be given out again */
    return (int)TB_CALL(io, close, fd);
}

TB_WRAPPER int close_range(unsigned first, unsigned last, int flags)
{
    if (!tb_inside && !(flags & CLOSE_RANGE_CLOEXEC))
        for (unsigned fd = first; fd <= last && fd < 65536; fd++)
            if (tb_fd_io((int)fd))
                close((int)fd);
    return REAL(close_range)(first, last, flags);
}

TB_WRAPPER void closefrom(int first)
{
    close_range(first < 0 ? 0 : (unsigned)first, UINT_MAX, 0);
}

static void note_dup(struct tb_io *io, int oldfd, int newfd)
{
    struct tb_io *replaced = tb_fd_io(newfd);
    int saved = errno;
    if (io || replaced)
        TB_CALL(io ? io : replaced, dup, oldfd, newfd);
    tb_fd_set(newfd, io);
    errno = saved;
}

TB_WRAPPER int dup(int oldfd)
{
    int fd = REAL(dup)(oldfd);
    if (fd >= 0 && tb_fd_io(oldfd))
        note_dup(tb_fd_io(oldfd), oldfd, fd);
    return fd;
}

TB_WRAPPER int dup2(int oldfd, int newfd)
{
    int fd = REAL(dup2)(oldfd, newfd);
    if (fd >= 0 && oldfd != newfd && !tb_inside)
        note_dup(tb_fd_io(oldfd), oldfd, newfd);
    return fd;
}

TB_WRAPPER int dup3(int oldfd, int newfd, int flags)
{
    int fd = REAL(dup3)(oldfd, newfd, flags);
    if (fd >= 0 && !tb_inside)
        note_dup(tb_fd_io(oldfd), oldfd, newfd);
    return fd;
}

static int fcntl_with(int fd, int command, void *arg)
{
    int rc = REAL(fcntl)(fd, command, arg);
    if (rc >= 0 && (command == F_DUPFD || command == F_DUPFD_CLOEXEC) && tb_fd_io(fd))
        note_dup(tb_fd_io(fd), fd, rc);
    return rc;
}

TB_WRAPPER int fcntl(int fd, int command, ...)
{
    va_list args;
    va_start(args, command);
    void *arg = va_arg(args, void *);
    va_end(args);
    return fcntl_with(fd, command, arg);
}

TB_WRAPPER int fcntl64(int fd, int command, ...)
{
    va_list args;
    va_start(args, command);
    void *arg = va_arg(args, void *);
    va_end(args);
    return fcntl_with(fd, command, arg);
}
