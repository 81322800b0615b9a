/*
 * libc's `syscall`: many programs and language runtimes call by number, most of
 * all what glibc lacked for long.  Numbers that have to do with managed files go
 * to the wrappers; all others are the kernel's, as asked.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdarg.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "adapter.h"

/* Its restrictions are the kernel's to keep: where there are some, the kernel opens the file first. */
static long open_how(int dirfd, const char *path, const struct open_how *how, size_t size)
{
    struct tb_path p;
    const char *place = path;
    struct open_how uncut = *how;
    if (how->resolve == 0)
        return openat(dirfd, path, (int)how->flags, (mode_t)how->mode);
    tb_path_real(&(int){dirfd}, &place, how->flags & O_CREAT ? TB_NAME_MAKE : TB_NAME_WRITE, &p);
    path = (intptr_t)path >= 4096 && path[0] == '/' ? place : path; /* a relative one has a real directory; what it names is real now */
    uncut.flags &= ~(uint64_t)O_TRUNC;
    long fd = REAL(syscall)(SYS_openat2, dirfd, path, size == sizeof(uncut) ? &uncut : how, size);
    return tb_open_again((int)fd, (int)how->flags);
}

#define INT(i) ((int)a[i])
#define SIZE(i) ((size_t)a[i])
#define POINTER(i) ((void *)a[i])

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
    default:
        return REAL(syscall)(number, a[0], a[1], a[2], a[3], a[4], a[5]);
    }
}
