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
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/xattr.h>
#include <unistd.h>
#include <utime.h>

#include "core/adapter.h"
#include "wrap/async.h"
#include "wrap/mmap.h"
#include "wrap/open.h"

/* Newer than the headers of some systems. */
#define NUMBER_FCHMODAT2 452
#define NUMBER_SETXATTRAT 463
#define NUMBER_GETXATTRAT 464
#define NUMBER_LISTXATTRAT 465
#define NUMBER_REMOVEXATTRAT 466
#define NUMBER_FILE_GETATTR 468
#define NUMBER_FILE_SETATTR 469

#define INT(i) ((int)a[i])
#define SIZE(i) ((size_t)a[i])
#define POINTER(i) ((void *)a[i])
/* What can't be a string is the kernel's to refuse; libc's functions take NULL for other things. */
#define IS_NAME(i) (a[i] >= 4096 && *(const char *)POINTER(i))

static long by_kernel(long number, const long *a)
{
    return REAL(syscall)(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

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
    long pid = by_kernel(number, a);
    if (told)
        tb_fork_ends((pid_t)pid);
    return pid;
}

/* The kernel takes a descriptor without a name for the file itself. */
static long times_by_number(long number, const long *a)
{
    switch (number) {
    case SYS_utime: return IS_NAME(0) ? utime(POINTER(0), POINTER(1)) : by_kernel(number, a);
    case SYS_utimes: return IS_NAME(0) ? utimes(POINTER(0), POINTER(1)) : by_kernel(number, a);
    case SYS_futimesat:
        if (IS_NAME(1))
            return futimesat(INT(0), POINTER(1), POINTER(2));
        return !a[1] && INT(0) >= 0 ? futimes(INT(0), POINTER(2)) : by_kernel(number, a);
    default:
        if (a[1] >= 4096)
            return utimensat(INT(0), POINTER(1), POINTER(2), INT(3));
        return !a[1] && !a[3] && INT(0) >= 0 ? futimens(INT(0), POINTER(2)) : by_kernel(number, a);
    }
}

/* fchmodat2: an older libc refuses an empty name. */
static long chmod_by_number(const long *a)
{
    struct tb_path p;
    bool itself = !IS_NAME(1) && a[3] & AT_EMPTY_PATH;
    if (itself && (tb_fd_io(INT(0)) || tb_path_of_pfs(INT(0), &p)))
        return fchmod(INT(0), (mode_t)a[2]);
    return IS_NAME(1) ? fchmodat(INT(0), POINTER(1), (mode_t)a[2], INT(3)) : by_kernel(NUMBER_FCHMODAT2, a);
}

/* A call that libc has no function for: the kernel is given the place of the name. */
static long at_place(long number, const long *a, long flags, unsigned use)
{
    struct tb_path p;
    int at = INT(0);
    const char *path = POINTER(1);
    if (!tb_path_real(&at, &path, use | (flags & AT_SYMLINK_NOFOLLOW ? TB_NAME_NOFOLLOW : 0), &p))
        return -1;
    return REAL(syscall)(number, at, path, a[2], a[3], a[4], a[5]);
}

/* The kernel's own word for a directory that has no name, or no room for it. */
static long getcwd_by_number(const long *a)
{
    if (a[0] < 4096)
        return by_kernel(SYS_getcwd, a);
    return getcwd(POINTER(0), SIZE(1)) ? (long)strlen(POINTER(0)) + 1 : -1;
}

/* libc's returns its error. */
static long advise_by_number(const long *a)
{
    return tb_result(-posix_fadvise(INT(0), a[1], a[2], INT(3)));
}

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
    case SYS_creat: return creat(POINTER(0), (mode_t)a[1]);
    case SYS_open_by_handle_at: return open_by_handle_at(INT(0), POINTER(1), INT(2));
    case SYS_name_to_handle_at: return name_to_handle_at(INT(0), POINTER(1), POINTER(2), POINTER(3), INT(4));
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
    case SYS_sync: return sync(), 0;
    case SYS_syncfs: return syncfs(INT(0));
    case SYS_sync_file_range: return sync_file_range(INT(0), a[1], a[2], (unsigned)a[3]);
    case SYS_fadvise64: return advise_by_number(a);
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
    case SYS_mknod: return mknod(POINTER(0), (mode_t)a[1], (dev_t)a[2]);
    case SYS_mknodat: return mknodat(INT(0), POINTER(1), (mode_t)a[2], (dev_t)a[3]);
    case SYS_chmod: return chmod(POINTER(0), (mode_t)a[1]);
    case SYS_fchmod: return fchmod(INT(0), (mode_t)a[1]);
    case SYS_fchmodat: return fchmodat(INT(0), POINTER(1), (mode_t)a[2], 0);
    case NUMBER_FCHMODAT2: return chmod_by_number(a);
    case SYS_fchown: return fchown(INT(0), (uid_t)a[1], (gid_t)a[2]);
    case SYS_chown: return chown(POINTER(0), (uid_t)a[1], (gid_t)a[2]);
    case SYS_lchown: return lchown(POINTER(0), (uid_t)a[1], (gid_t)a[2]);
    case SYS_fchownat: return fchownat(INT(0), POINTER(1), (uid_t)a[2], (gid_t)a[3], INT(4));
    case SYS_utime:
    case SYS_utimes:
    case SYS_futimesat:
    case SYS_utimensat: return times_by_number(number, a);
    case SYS_setxattr: return setxattr(POINTER(0), POINTER(1), POINTER(2), SIZE(3), INT(4));
    case SYS_lsetxattr: return lsetxattr(POINTER(0), POINTER(1), POINTER(2), SIZE(3), INT(4));
    case SYS_fsetxattr: return fsetxattr(INT(0), POINTER(1), POINTER(2), SIZE(3), INT(4));
    case SYS_fremovexattr: return fremovexattr(INT(0), POINTER(1));
    case SYS_getxattr: return getxattr(POINTER(0), POINTER(1), POINTER(2), SIZE(3));
    case SYS_lgetxattr: return lgetxattr(POINTER(0), POINTER(1), POINTER(2), SIZE(3));
    case SYS_listxattr: return listxattr(POINTER(0), POINTER(1), SIZE(2));
    case SYS_llistxattr: return llistxattr(POINTER(0), POINTER(1), SIZE(2));
    case SYS_removexattr: return removexattr(POINTER(0), POINTER(1));
    case SYS_lremovexattr: return lremovexattr(POINTER(0), POINTER(1));
    case NUMBER_SETXATTRAT:
    case NUMBER_REMOVEXATTRAT: return at_place(number, a, a[2], TB_NAME_CHANGE);
    case NUMBER_GETXATTRAT:
    case NUMBER_LISTXATTRAT: return at_place(number, a, a[2], TB_NAME_LOOK);
    case NUMBER_FILE_SETATTR: return at_place(number, a, a[4], TB_NAME_CHANGE);
    case NUMBER_FILE_GETATTR: return at_place(number, a, a[4], TB_NAME_LOOK);
    case SYS_statfs: return statfs(POINTER(0), POINTER(1));
    case SYS_inotify_add_watch: return inotify_add_watch(INT(0), POINTER(1), (uint32_t)a[2]);
    case SYS_chdir: return chdir(POINTER(0));
    case SYS_fchdir: return fchdir(INT(0));
    case SYS_getcwd: return getcwd_by_number(a);
    case SYS_getdents64: return getdents64(INT(0), POINTER(1), SIZE(2));
    case SYS_execve: return execve(POINTER(0), POINTER(1), POINTER(2));
    case SYS_execveat: return execveat(INT(0), POINTER(1), POINTER(2), POINTER(3), INT(4));
    case SYS_mmap: return (long)tb_mmap(POINTER(0), SIZE(1), INT(2), INT(3), INT(4), a[5]);
    case SYS_munmap: return tb_munmap(POINTER(0), SIZE(1));
    case SYS_mremap: return (long)tb_mremap(POINTER(0), SIZE(1), SIZE(2), INT(3), POINTER(4));
    case SYS_ioctl: return ioctl(INT(0), (unsigned long)a[1], POINTER(2));
    case SYS_bind: return bind(INT(0), POINTER(1), (socklen_t)a[2]);
    case SYS_connect: return connect(INT(0), POINTER(1), (socklen_t)a[2]);
    case SYS_sendto: return sendto(INT(0), POINTER(1), SIZE(2), INT(3), POINTER(4), (socklen_t)a[5]);
    case SYS_sendmsg: return sendmsg(INT(0), POINTER(1), INT(2));
    case SYS_sendmmsg: return sendmmsg(INT(0), POINTER(1), (unsigned)a[2], INT(3));
    case SYS_getsockname: return getsockname(INT(0), POINTER(1), POINTER(2));
    case SYS_getpeername: return getpeername(INT(0), POINTER(1), POINTER(2));
    case SYS_sendfile: return sendfile(INT(0), INT(1), POINTER(2), SIZE(3));
    case SYS_copy_file_range: return copy_file_range(INT(0), POINTER(1), INT(2), POINTER(3), SIZE(4), (unsigned)a[5]);
    case SYS_splice: return splice(INT(0), POINTER(1), INT(2), POINTER(3), SIZE(4), (unsigned)a[5]);
    case SYS_io_submit: return tb_io_submit(a[0], a[1], POINTER(2));
    case SYS_io_uring_setup: return tb_ring_begins() ? -1 : REAL(syscall)(number, a[0], a[1]);
#ifdef SYS_fork
    case SYS_fork: return _Fork();
    case SYS_vfork: return _Fork();
#endif
    case SYS_clone:
    case SYS_clone3: return clone_by_number(number, a);
    default: return by_kernel(number, a);
    }
}
