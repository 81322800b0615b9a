/*
 * libc's `syscall`: many programs and language runtimes call by number, most of
 * all what glibc lacked for long.  Numbers that have to do with managed files go
 * to the wrappers; all others are the kernel's, as asked.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdarg.h>
#include <linux/openat2.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "core/adapter.h"
#include "wrap/async.h"
#include "wrap/open.h"

/* Only the kernel can keep the restrictions of openat2 (`resolve`) at every step of a path. */
static int open_kernel(int dirfd, const char *path, const struct open_how *how, size_t size)
{
    return (int)REAL(syscall)(SYS_openat2, dirfd, path, how, size);
}

/* A file that must be new, or has no name, is not looked for. */
static int open_found(int dirfd, const char *path, const struct open_how *how)
{
    struct open_how place = {.flags = O_PATH | O_CLOEXEC | (how->flags & (O_NOFOLLOW | O_DIRECTORY)), .resolve = how->resolve};
    bool may_be =
        !(how->flags & O_PATH) && (how->flags & O_TMPFILE) != O_TMPFILE && (how->flags & (O_CREAT | O_EXCL)) != (O_CREAT | O_EXCL);
    return may_be ? tb_open_place(open_kernel(dirfd, path, &place, sizeof(place)), (int)how->flags) : TB_NOT_MANAGED;
}

/* In scratch mode names that are relative begin in the shadow; else -1. */
static int shadow_directory(int dirfd, const char *path)
{
    struct tb_path p;
    const char *here = ".";
    if ((intptr_t)path < 4096 || path[0] == '/' || !tb_path_find(dirfd, here, &p) || p.mode != TB_MODE_SCRATCH ||
        !tb_path_real(&dirfd, &here, TB_NAME_ENTER, &p))
        return -1;
    int low = REAL(open)(here, O_PATH | O_DIRECTORY | O_CLOEXEC), high = REAL(fcntl)(low, F_DUPFD_CLOEXEC, tb_fd_own_from());
    if (low >= 0)
        REAL(close)(low); /* the program's descriptor has this number */
    return high;
}

/* Its restrictions are the kernel's to keep: where there are some, the kernel finds the file first, or makes it. */
static long open_in(int dirfd, const char *path, const struct open_how *how, size_t size)
{
    struct tb_path p;
    const char *place = path;
    int saved = errno;
    tb_path_real(&(int){dirfd}, &place, how->flags & O_CREAT ? TB_NAME_MAKE : TB_NAME_WRITE, &p);
    bool elsewhere = place == p.real;
    if (elsewhere && p.mode != TB_MODE_SCRATCH)
        tb_path_flush(&p); /* a name that waits takes its place on the PFS, where the kernel looks */
    else if (elsewhere && path[0] == '/')
        path = place; /* a relative one has a real directory; what it names is real now */
    int fd = open_found(dirfd, path, how), made;
    errno = fd == TB_NOT_MANAGED ? saved : errno;
    if (fd != TB_NOT_MANAGED || !(how->flags & O_CREAT))
        return fd == TB_NOT_MANAGED ? open_kernel(dirfd, path, how, size) : fd;
    if ((made = open_kernel(dirfd, path, how, size)) < 0)
        return made;
    struct open_how found = *how;
    found.flags &= ~(uint64_t)(O_CREAT | O_EXCL);
    fd = open_found(dirfd, path, &found);
    if (fd < 0)
        return made;
    close(made); /* a new file, on which there are no locks */
    return fd;
}

/* Without restrictions it is openat, which buffers serve. */
static long open_how(int dirfd, const char *path, const struct open_how *how, size_t size)
{
    if (how->resolve == 0)
        return openat(dirfd, path, (int)how->flags, (mode_t)how->mode);
    int shadow = shadow_directory(dirfd, path);
    long fd = open_in(shadow < 0 ? dirfd : shadow, path, how, size);
    int error = errno;
    if (shadow >= 0)
        REAL(close)(shadow);
    errno = error;
    return fd;
}

/* -1: of a thread, or of a call that fails. Those of clone3 are the first word of its arguments. */
static long clone_flags(long number, const long *a)
{
    uint64_t flags = (uint64_t)a[0];
    if (number == SYS_clone3 && (a[0] < 4096 || a[1] < (long)sizeof(flags)))
        return -1;
    if (number == SYS_clone3)
        memcpy(&flags, (const void *)a[0], sizeof(flags));
    return flags & (CLONE_VM | CLONE_SETTLS) ? -1 : (long)flags;
}

/* As libc's clone (wrap/process.c). */
static long clone_by_number(long number, const long *a)
{
    if (number == SYS_clone && a[0] == SIGCHLD && !a[1])
        return _Fork();
    bool told = clone_flags(number, a) >= 0 && tb_fork_begins(true);
    long pid = REAL(syscall)(number, a[0], a[1], a[2], a[3], a[4], a[5]);
    if (told)
        tb_fork_ends((pid_t)pid);
    return pid;
}

#define INT(i) ((int)a[i])
#define SIZE(i) ((size_t)a[i])
#define POINTER(i) ((void *)a[i])

/*
 * Six arguments are read whatever the call takes: what is too much is not looked at. Inside,
 * all numbers are the kernel's.
 */
TB_WRAPPER long syscall(long number, ...)
{
    long a[6];
    va_list args;
    va_start(args, number);
    for (int i = 0; i < 6; i++)
        a[i] = va_arg(args, long);
    va_end(args);
    switch (tb_inside ? -1 : number) {
    case SYS_read: return read(INT(0), POINTER(1), SIZE(2));
    case SYS_write: return write(INT(0), POINTER(1), SIZE(2));
    case SYS_pread64: return pread(INT(0), POINTER(1), SIZE(2), a[3]);
    case SYS_pwrite64: return pwrite(INT(0), POINTER(1), SIZE(2), a[3]);
    case SYS_readv: return readv(INT(0), POINTER(1), INT(2));
    case SYS_writev: return writev(INT(0), POINTER(1), INT(2));
    case SYS_preadv: return preadv(INT(0), POINTER(1), INT(2), a[3]);
    case SYS_pwritev: return pwritev(INT(0), POINTER(1), INT(2), a[3]);
    case SYS_preadv2: return preadv2(INT(0), POINTER(1), INT(2), a[3], INT(5));
    case SYS_pwritev2: return pwritev2(INT(0), POINTER(1), INT(2), a[3], INT(5));
    case SYS_open: return open(POINTER(0), INT(1), (mode_t)a[2]);
    case SYS_openat: return openat(INT(0), POINTER(1), INT(2), (mode_t)a[3]);
    case SYS_openat2: return open_how(INT(0), POINTER(1), POINTER(2), SIZE(3));
    case SYS_close: return close(INT(0));
    case SYS_close_range: return close_range((unsigned)a[0], (unsigned)a[1], INT(2));
    case SYS_dup: return dup(INT(0));
    case SYS_dup2: return dup2(INT(0), INT(1));
    case SYS_dup3: return dup3(INT(0), INT(1), INT(2));
    case SYS_fcntl: return fcntl(INT(0), INT(1), POINTER(2));
    case SYS_lseek: return lseek(INT(0), a[1], INT(2));
    case SYS_ftruncate: return ftruncate(INT(0), a[1]);
    case SYS_truncate: return truncate(POINTER(0), a[1]);
    case SYS_fallocate: return fallocate(INT(0), INT(1), a[2], a[3]);
    case SYS_fsync: return fsync(INT(0));
    case SYS_fdatasync: return fdatasync(INT(0));
    case SYS_stat: return stat(POINTER(0), POINTER(1));
    case SYS_lstat: return lstat(POINTER(0), POINTER(1));
    case SYS_fstat: return fstat(INT(0), POINTER(1));
    case SYS_newfstatat: return fstatat(INT(0), POINTER(1), POINTER(2), INT(3));
    case SYS_statx: return statx(INT(0), POINTER(1), INT(2), (unsigned)a[3], POINTER(4));
    case SYS_unlink: return unlink(POINTER(0));
    case SYS_unlinkat: return unlinkat(INT(0), POINTER(1), INT(2));
    case SYS_rename: return rename(POINTER(0), POINTER(1));
    case SYS_renameat: return renameat(INT(0), POINTER(1), INT(2), POINTER(3));
    case SYS_renameat2: return renameat2(INT(0), POINTER(1), INT(2), POINTER(3), (unsigned)a[4]);
    case SYS_mkdir: return mkdir(POINTER(0), (mode_t)a[1]);
    case SYS_mkdirat: return mkdirat(INT(0), POINTER(1), (mode_t)a[2]);
    case SYS_rmdir: return rmdir(POINTER(0));
    case SYS_link: return link(POINTER(0), POINTER(1));
    case SYS_linkat: return linkat(INT(0), POINTER(1), INT(2), POINTER(3), INT(4));
    case SYS_symlink: return symlink(POINTER(0), POINTER(1));
    case SYS_symlinkat: return symlinkat(POINTER(0), INT(1), POINTER(2));
    case SYS_readlink: return readlink(POINTER(0), POINTER(1), SIZE(2));
    case SYS_readlinkat: return readlinkat(INT(0), POINTER(1), POINTER(2), SIZE(3));
    case SYS_access: return access(POINTER(0), INT(1));
    case SYS_faccessat: return faccessat(INT(0), POINTER(1), INT(2), 0);
    case SYS_faccessat2: return faccessat(INT(0), POINTER(1), INT(2), INT(3));
    case SYS_chdir: return chdir(POINTER(0));
    case SYS_fchdir: return fchdir(INT(0));
    case SYS_getcwd: return getcwd(POINTER(0), SIZE(1)) ? (long)strlen(POINTER(0)) + 1 : -1;
    case SYS_getdents64: return getdents64(INT(0), POINTER(1), SIZE(2));
    case SYS_execve: return execve(POINTER(0), POINTER(1), POINTER(2));
    case SYS_execveat: return execveat(INT(0), POINTER(1), POINTER(2), POINTER(3), INT(4));
    case SYS_mmap: return (long)mmap(POINTER(0), SIZE(1), INT(2), INT(3), INT(4), a[5]);
    case SYS_sendfile: return sendfile(INT(0), INT(1), POINTER(2), SIZE(3));
    case SYS_copy_file_range: return copy_file_range(INT(0), POINTER(1), INT(2), POINTER(3), SIZE(4), (unsigned)a[5]);
    case SYS_splice: return splice(INT(0), POINTER(1), INT(2), POINTER(3), SIZE(4), (unsigned)a[5]);
    case SYS_io_submit: return tb_io_submit(a[0], a[1], POINTER(2));
    case SYS_io_uring_setup: return tb_ring_begins() ? -1 : REAL(syscall)(number, a[0], a[1]);
#ifdef SYS_fork
    case SYS_fork: return _Fork();
#endif
    case SYS_clone:
    case SYS_clone3: return clone_by_number(number, a);
    default: return REAL(syscall)(number, a[0], a[1], a[2], a[3], a[4], a[5]);
    }
}
