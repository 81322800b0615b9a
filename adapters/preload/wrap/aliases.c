/*
 * Other names by which libc exports the same calls: older programs, and some libraries, use
 * them. Each goes to the wrapper of the usual name. A name that is missing here passes the
 * engine by: the program would write to the backing file, past newer buffers.
 */
#include <aio.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "core/adapter.h"

#define ALIAS(type, name, parameters, call) \
    type name parameters;                   \
    TB_WRAPPER type name parameters         \
    {                                       \
        return call;                        \
    }

ALIAS(ssize_t, __read, (int fd, void *buf, size_t n), read(fd, buf, n))
ALIAS(ssize_t, __write, (int fd, const void *buf, size_t n), write(fd, buf, n))
ALIAS(ssize_t, __pread64, (int fd, void *buf, size_t n, off64_t offset), pread(fd, buf, n, offset))
ALIAS(ssize_t, __pwrite64, (int fd, const void *buf, size_t n, off64_t offset), pwrite(fd, buf, n, offset))
ALIAS(off_t, __lseek, (int fd, off_t offset, int whence), lseek(fd, offset, whence))
ALIAS(int, __close, (int fd), close(fd))
ALIAS(int, __dup2, (int oldfd, int newfd), dup2(oldfd, newfd))
ALIAS(pid_t, __fork, (void), fork())
ALIAS(pid_t, __vfork, (void), fork())
ALIAS(int, __sigaction, (int sig, const struct sigaction *act, struct sigaction *old), sigaction(sig, act, old))
ALIAS(FILE *, _IO_fopen, (const char *path, const char *mode), fopen(path, mode))
ALIAS(FILE *, _IO_fdopen, (int fd, const char *mode), fdopen(fd, mode))

/* The last argument is there where libc's own would look for it, and harmless elsewhere. */
#define LAST_ARGUMENT(type, name, last) \
    va_list args;                       \
    va_start(args, last);               \
    type name = va_arg(args, type);     \
    va_end(args);

int __open(const char *path, int flags, ...);
TB_WRAPPER int __open(const char *path, int flags, ...)
{
    LAST_ARGUMENT(mode_t, mode, flags)
    return open(path, flags, mode);
}

int __open64(const char *path, int flags, ...);
TB_WRAPPER int __open64(const char *path, int flags, ...)
{
    LAST_ARGUMENT(mode_t, mode, flags)
    return open(path, flags, mode);
}

int __fcntl(int fd, int command, ...);
TB_WRAPPER int __fcntl(int fd, int command, ...)
{
    LAST_ARGUMENT(void *, argument, command)
    return fcntl(fd, command, argument);
}
