/*
 * What a file looks like: size, blocks and times of writing are the engine's, everything else
 * the backing file's. Times of reading, owner and rights are as the file system has them. A
 * file is found by its name or by its descriptor; both ways give the same numbers.
 */
#include <fcntl.h>
#include <sys/ipc.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/adapter.h"

/*
 * *managed is false where the call is libc's. By descriptor alone the open file is meant, whatever its name is by now: then
 * p->io is NULL. One that only names a file has no bytes, so its file is looked at by its name.
 */
static int stat_at(int dirfd, const char *path, struct stat *st, int flags, struct tb_path *p, bool *managed)
{
    int fd = tb_path_meant(dirfd, path, flags);
    p->io = NULL;
    *managed = tb_fd_io(fd) || tb_path_of_place(fd, p) || tb_path_find(dirfd, path, p);
    if (tb_fd_io(fd))
        return (int)TB_CALL(tb_fd_io(fd), fstat, fd, st);
    return *managed ? (int)TB_CALL(p->io, stat, p->path, st, flags & AT_SYMLINK_NOFOLLOW) : 0;
}

TB_WRAPPER int stat(const char *path, struct stat *st)
{
    bool managed;
    struct tb_path p;
    int rc = stat_at(AT_FDCWD, path, st, 0, &p, &managed);
    return managed ? rc : REAL(stat)(path, st);
}

TB_WRAPPER int lstat(const char *path, struct stat *st)
{
    bool managed;
    struct tb_path p;
    int rc = stat_at(AT_FDCWD, path, st, AT_SYMLINK_NOFOLLOW, &p, &managed);
    return managed ? rc : REAL(lstat)(path, st);
}

TB_WRAPPER int fstatat(int dirfd, const char *path, struct stat *st, int flags)
{
    bool managed;
    struct tb_path p;
    int rc = stat_at(dirfd, path, st, flags, &p, &managed);
    return managed ? rc : REAL(fstatat)(dirfd, path, st, flags);
}

TB_WRAPPER int fstat(int fd, struct stat *st)
{
    struct tb_io *io = tb_fd_io(fd);
    if (!io && tb_has_place && fd >= 0)
        return fstatat(fd, "", st, AT_EMPTY_PATH);
    return io ? (int)TB_CALL(io, fstat, fd, st) : REAL(fstat)(fd, st);
}

/* On this architecture both structures are one. */
_Static_assert(sizeof(struct stat) == sizeof(struct stat64), "64-bit off_t");
/* clang-format off: one line each */
TB_WRAPPER int stat64(const char *path, struct stat64 *st)
{
    return stat(path, (struct stat *)st);
}
TB_WRAPPER int lstat64(const char *path, struct stat64 *st)
{
    return lstat(path, (struct stat *)st);
}
TB_WRAPPER int fstat64(int fd, struct stat64 *st)
{
    return fstat(fd, (struct stat *)st);
}
/* clang-format on */
TB_WRAPPER int fstatat64(int dirfd, const char *path, struct stat64 *st, int flags)
{
    return fstatat(dirfd, path, (struct stat *)st, flags);
}

/* What programs built before glibc 2.33 call. */
int __xstat(int version, const char *path, struct stat *st);
int __lxstat(int version, const char *path, struct stat *st);
int __fxstat(int version, int fd, struct stat *st);
int __fxstatat(int version, int dirfd, const char *path, struct stat *st, int flags);
int __xstat64(int version, const char *path, struct stat64 *st);
int __lxstat64(int version, const char *path, struct stat64 *st);
int __fxstat64(int version, int fd, struct stat64 *st);
int __fxstatat64(int version, int dirfd, const char *path, struct stat64 *st, int flags);
#define IGNORE(version) ((void)(version))
/* clang-format off: one line each */
TB_WRAPPER int __xstat(int v, const char *path, struct stat *st)
{
    return IGNORE(v), stat(path, st);
}
TB_WRAPPER int __lxstat(int v, const char *path, struct stat *st)
{
    return IGNORE(v), lstat(path, st);
}
TB_WRAPPER int __fxstat(int v, int fd, struct stat *st)
{
    return IGNORE(v), fstat(fd, st);
}
TB_WRAPPER int __fxstatat(int v, int d, const char *path, struct stat *st, int flags)
{
    return IGNORE(v), fstatat(d, path, st, flags);
}
TB_WRAPPER int __xstat64(int v, const char *path, struct stat64 *st)
{
    return IGNORE(v), stat64(path, st);
}
TB_WRAPPER int __lxstat64(int v, const char *path, struct stat64 *st)
{
    return IGNORE(v), lstat64(path, st);
}
TB_WRAPPER int __fxstat64(int v, int fd, struct stat64 *st)
{
    return IGNORE(v), fstat64(fd, st);
}
TB_WRAPPER int __fxstatat64(int v, int d, const char *path, struct stat64 *st, int flags)
{
    return IGNORE(v), fstatat64(d, path, st, flags);
}
/* clang-format on */

/* The fields that the engine knows better replace the file system's; the rest is as asked for. */
TB_WRAPPER int statx(int dirfd, const char *path, int flags, unsigned mask, struct statx *x)
{
    struct stat st;
    struct tb_path p;
    bool managed;
    int sized = stat_at(dirfd, path, &st, flags, &p, &managed);
    if (!managed)
        return REAL(statx)(dirfd, path, flags, mask, x);
    if (sized)
        return -1;
    int rc = p.io ? (int)TB_CALL(p.io, statx, p.path, flags, mask, x) : REAL(statx)(dirfd, path, flags, mask, x);
    if (rc == 0) {
        x->stx_size = (unsigned long long)st.st_size;
        x->stx_blocks = (unsigned long long)st.st_blocks;
        x->stx_mtime = (struct statx_timestamp){.tv_sec = st.st_mtim.tv_sec, .tv_nsec = (unsigned)st.st_mtim.tv_nsec};
        x->stx_ctime = (struct statx_timestamp){.tv_sec = st.st_ctim.tv_sec, .tv_nsec = (unsigned)st.st_ctim.tv_nsec};
    }
    return rc;
}

/* As libc, which looks past the wrapper. */
TB_WRAPPER key_t ftok(const char *path, int id)
{
    struct stat st;
    return stat(path, &st) ? -1 : (key_t)((st.st_ino & 0xffff) | (st.st_dev & 0xff) << 16 | ((unsigned)id & 0xff) << 24);
}

/* By the real user, eaccess by the effective one: the flags say which. */
TB_WRAPPER int access(const char *path, int mode)
{
    struct tb_path p;
    return tb_path_find(AT_FDCWD, path, &p) ? (int)TB_CALL(p.io, access, p.path, mode, 0) : REAL(access)(path, mode);
}

TB_WRAPPER int eaccess(const char *path, int mode)
{
    struct tb_path p;
    return tb_path_find(AT_FDCWD, path, &p) ? (int)TB_CALL(p.io, access, p.path, mode, AT_EACCESS) : REAL(eaccess)(path, mode);
}

TB_WRAPPER int euidaccess(const char *path, int mode)
{
    return eaccess(path, mode);
}

TB_WRAPPER int faccessat(int dirfd, const char *path, int mode, int flags)
{
    struct tb_path p;
    return tb_path_find(dirfd, path, &p) ? (int)TB_CALL(p.io, access, p.path, mode, flags) : REAL(faccessat)(dirfd, path, mode, flags);
}
