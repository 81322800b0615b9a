/*
 * Listings.  A directory of a shadow holds a symlink for what nobody touched of
 * the PFS; programs are told the type of what it stands for.
 */
#include <dirent.h>
#include <fcntl.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "adapter.h"

TB_WRAPPER DIR *opendir(const char *path)
{
    struct tb_path p;
    return tb_path_real(&(int){AT_FDCWD}, &path, TB_NAME_ENTER, &p) ? REAL(opendir)(path) : NULL;
}

/* libc closes a directory's descriptor past close: it is unmanaged from here on. */
TB_WRAPPER DIR *fdopendir(int fd)
{
    DIR *directory = REAL(fdopendir)(fd);
    if (directory)
        tb_fd_set(fd, NULL);
    return directory;
}

static unsigned char type_of(int fd, const char *name, unsigned char type)
{
    char text[PATH_MAX];
    tb_engine *e = type == DT_LNK && !tb_inside ? tb_adapter_engine() : NULL;
    int saved = errno;
    ssize_t n = e ? REAL(readlinkat)(fd, name, text, sizeof(text) - 1) : -1;
    errno = saved;
    if (n < 0)
        return type;
    text[n] = 0;
    return (unsigned char)tb_engine_entry_type(e, text);
}

static struct dirent *typed(DIR *directory, struct dirent *d)
{
    if (d && d->d_type == DT_LNK)
        d->d_type = type_of(dirfd(directory), d->d_name, DT_LNK);
    return d;
}

_Static_assert(sizeof(struct dirent) == sizeof(struct dirent64), "64-bit off_t");
TB_WRAPPER struct dirent *readdir(DIR *directory) { return typed(directory, REAL(readdir)(directory)); }
TB_WRAPPER struct dirent64 *readdir64(DIR *directory) { return (struct dirent64 *)readdir(directory); }

_Pragma("GCC diagnostic ignored \"-Wdeprecated-declarations\"")
TB_WRAPPER int readdir_r(DIR *directory, struct dirent *entry, struct dirent **result)
{
    int rc = REAL(readdir_r)(directory, entry, result);
    if (rc == 0)
        typed(directory, *result);
    return rc;
}
TB_WRAPPER int readdir64_r(DIR *directory, struct dirent64 *entry, struct dirent64 **result)
{
    return readdir_r(directory, (struct dirent *)entry, (struct dirent **)result);
}

TB_WRAPPER ssize_t getdents64(int fd, void *buffer, size_t size)
{
    ssize_t n = REAL(getdents64)(fd, buffer, size);
    for (ssize_t at = 0; at < n;) {
        struct dirent *d = (struct dirent *)((char *)buffer + at);
        d->d_type = type_of(fd, d->d_name, d->d_type);
        at += d->d_reclen;
    }
    return n;
}

typedef int choose(const struct dirent *);
typedef int compare(const struct dirent **, const struct dirent **);

static void free_list(struct dirent **list, size_t n)
{
    while (n)
        free(list[--n]);
    free(list);
}

/* libc's reads the directory past every wrapper. */
static int scan(DIR *directory, struct dirent ***out, choose *chosen, compare *order)
{
    struct dirent **list = NULL, *copy = NULL;
    size_t n = 0;
    errno = 0;
    for (struct dirent *d; (d = readdir(directory)); errno = 0) {
        if (chosen && !chosen(d))
            continue;
        struct dirent **grown = n & (n - 1) ? list : realloc(list, (n ? 2 * n : 1) * sizeof(*list)); /* room is a power of two */
        list = grown ? grown : list;
        copy = grown ? malloc(d->d_reclen) : NULL;
        if (!copy)
            break;
        list[n++] = memcpy(copy, d, d->d_reclen);
    }
    if (errno) {
        free_list(list, n);
        return -1;
    }
    if (order && n)
        qsort(list, n, sizeof(*list), (int (*)(const void *, const void *))order);
    *out = list ? list : malloc(sizeof(*list));
    return (int)n;
}

TB_WRAPPER int scandirat(int dirfd, const char *path, struct dirent ***list, choose *chosen, compare *order)
{
    int fd = openat(dirfd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC), saved = errno;
    DIR *directory = fd < 0 ? NULL : fdopendir(fd);
    if (!directory)
        return -1;
    errno = saved;
    int n = scan(directory, list, chosen, order);
    closedir(directory);
    return n;
}

TB_WRAPPER int scandir(const char *path, struct dirent ***list, choose *chosen, compare *order)
{
    return scandirat(AT_FDCWD, path, list, chosen, order);
}

TB_WRAPPER int scandir64(const char *path, struct dirent64 ***list, int (*chosen)(const struct dirent64 *),
                         int (*order)(const struct dirent64 **, const struct dirent64 **))
{
    return scandirat(AT_FDCWD, path, (struct dirent ***)list, (choose *)chosen, (compare *)order);
}

TB_WRAPPER int scandirat64(int dirfd, const char *path, struct dirent64 ***list, int (*chosen)(const struct dirent64 *),
                           int (*order)(const struct dirent64 **, const struct dirent64 **))
{
    return scandirat(dirfd, path, (struct dirent ***)list, (choose *)chosen, (compare *)order);
}

/* libc's, on our directories: its own way to be given others. */
_Static_assert(sizeof(glob_t) == sizeof(glob64_t), "64-bit off_t");
static void *glob_open(const char *path) { return opendir(path); }
static struct dirent *glob_read(void *directory) { return readdir(directory); }
static void glob_close(void *directory) { closedir(directory); }

TB_WRAPPER int glob(const char *path, int flags, int (*error)(const char *, int), glob_t *out)
{
    if (tb_inside || !tb_adapter_engine() || flags & GLOB_ALTDIRFUNC)
        return REAL(glob)(path, flags, error, out);
    out->gl_opendir = glob_open;
    out->gl_readdir = glob_read;
    out->gl_closedir = glob_close;
    out->gl_lstat = lstat;
    out->gl_stat = stat;
    int rc = REAL(glob)(path, flags | GLOB_ALTDIRFUNC, error, out);
    out->gl_flags &= ~GLOB_ALTDIRFUNC;
    return rc;
}

TB_WRAPPER int glob64(const char *path, int flags, int (*error)(const char *, int), glob64_t *out)
{
    return glob(path, flags, error, (glob_t *)out);
}
