/*
 * Listings. A directory of a shadow holds a symlink for each entry of the PFS that was not
 * touched; programs are told the type of the file that it shows. Deferred names come
 * before those that the kernel lists.
 */
#include <dirent.h>
#include <fcntl.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/adapter.h"
#include "core/cwd.h"
#include "core/fork_lock.h"

/* A stream of a directory that has deferred names. */
struct waiting {
    DIR *directory;
    char *names, *at; /* each with its NUL; the next one */
    struct dirent entry;
    struct waiting *next;
};

static struct waiting *all_waiting;
TB_FORK_LOCK(waiting)

static struct waiting *waiting_of(DIR *directory)
{
    if (!__atomic_load_n(&all_waiting, __ATOMIC_ACQUIRE))
        return NULL;
    lock_waiting();
    struct waiting *w = all_waiting;
    while (w && w->directory != directory)
        w = w->next;
    unlock_waiting();
    return w;
}

/* False with errno: they can't be listed, so the whole directory can't be. */
static bool names_that_wait(int fd, char **names)
{
    char path[PATH_MAX];
    tb_engine *e = tb_inside ? NULL : tb_adapter_engine();
    *names = NULL;
    if (!e || !tb_directory_name(e, fd, path))
        return true;
    *names = tb_engine_waiting(e, path);
    return *names || !errno;
}

/* A stream of a directory that has deferred names; without any it stays libc's own. */
static DIR *with_waiting(DIR *directory)
{
    int saved = errno;
    char *names = NULL;
    if (directory && !names_that_wait(dirfd(directory), &names)) {
        saved = errno;
        REAL(closedir)(directory);
        directory = NULL;
    }
    struct waiting *w = names ? malloc(sizeof(*w)) : NULL;
    errno = saved;
    if (!w) {
        free(names);
        return directory;
    }
    *w = (struct waiting){.directory = directory, .names = names, .at = names};
    lock_waiting();
    w->next = all_waiting;
    __atomic_store_n(&all_waiting, w, __ATOMIC_RELEASE);
    unlock_waiting();
    return directory;
}

/* By the chain, so that models and faults see it; the entries come from libc's stream then. */
TB_WRAPPER DIR *opendir(const char *path)
{
    struct tb_path p;
    DIR *directory = NULL;
    if (!tb_path_find(AT_FDCWD, path, &p))
        return with_waiting(REAL(opendir)(path));
    return TB_CALL(p.io, opendir, p.path, &directory) == 0 ? with_waiting(directory) : NULL;
}

/* Out of the list before the stream is freed: its address may be a new stream's. */
TB_WRAPPER int closedir(DIR *directory)
{
    lock_waiting();
    struct waiting **link = &all_waiting, *w;
    while ((w = *link) && w->directory != directory)
        link = &w->next;
    if (w)
        *link = w->next;
    unlock_waiting();
    if (w)
        free(w->names);
    free(w);
    return REAL(closedir)(directory);
}

TB_WRAPPER void rewinddir(DIR *directory)
{
    struct waiting *w = waiting_of(directory);
    if (w)
        w->at = w->names;
    REAL(rewinddir)(directory);
}

/* Positions before the kernel's are negative. */
TB_WRAPPER long telldir(DIR *directory)
{
    struct waiting *w = waiting_of(directory);
    return w && *w->at ? -1 - (w->at - w->names) : REAL(telldir)(directory);
}

TB_WRAPPER void seekdir(DIR *directory, long place)
{
    struct waiting *w = waiting_of(directory);
    if (w && place < 0) {
        w->at = w->names + (-1 - place);
        REAL(rewinddir)(directory);
        return;
    }
    while (w && *w->at)
        w->at += strlen(w->at) + 1;
    REAL(seekdir)(directory, place);
}

/*
 * A name may be made on the PFS after the stream took its list: then the kernel lists it too,
 * and it is left out there.
 */
static bool is_waiting(const struct waiting *w, const char *name)
{
    const char *at = w ? w->names : "";
    while (*at && strcmp(at, name) != 0)
        at += strlen(at) + 1;
    return *at;
}

/* Inode 1 where it cannot be looked up: programs take 0 for an entry that was removed. */
static struct dirent *next_waiting(struct waiting *w)
{
    struct stat st;
    size_t n = strlen(w->at) + 1;
    int saved = errno;
    w->entry = (struct dirent){.d_type = DT_REG, .d_reclen = sizeof(w->entry), .d_ino = 1};
    memcpy(w->entry.d_name, w->at, n);
    if (fstatat(dirfd(w->directory), w->at, &st, AT_SYMLINK_NOFOLLOW) == 0)
        w->entry.d_ino = st.st_ino;
    errno = saved;
    w->at += n;
    return &w->entry;
}

/* libc closes a directory's descriptor past close: it is unmanaged from here on. */
TB_WRAPPER DIR *fdopendir(int fd)
{
    DIR *directory = REAL(fdopendir)(fd);
    if (directory)
        tb_fd_set(fd, NULL);
    return with_waiting(directory);
}

/* Only symlinks are looked at: in a shadow each of them may show a file of any type. */
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
TB_WRAPPER struct dirent *readdir(DIR *directory)
{
    struct waiting *w = waiting_of(directory);
    tb_engine *e = tb_inside ? NULL : tb_adapter_engine();
    struct dirent *d;
    if (w && *w->at)
        return next_waiting(w);
    do
        d = typed(directory, REAL(readdir)(directory));
    while (d && (is_waiting(w, d->d_name) || (d->d_name[0] == '.' && e && tb_engine_hides(e, d->d_name))));
    return d;
}

TB_WRAPPER struct dirent64 *readdir64(DIR *directory)
{
    return (struct dirent64 *)readdir(directory);
}

_Pragma("GCC diagnostic ignored \"-Wdeprecated-declarations\"") TB_WRAPPER
    int readdir_r(DIR *directory, struct dirent *entry, struct dirent **result)
{
    int saved = errno;
    errno = 0;
    struct dirent *d = readdir(directory);
    int rc = d ? 0 : errno;
    errno = saved;
    *result = d ? memcpy(entry, d, d->d_reclen < sizeof(*entry) ? d->d_reclen : sizeof(*entry)) : NULL;
    return rc;
}
TB_WRAPPER int readdir64_r(DIR *directory, struct dirent64 *entry, struct dirent64 **result)
{
    return readdir_r(directory, (struct dirent *)entry, (struct dirent **)result);
}

/*
 * Deferred names are not in it: programs that read the kernel's records themselves see them
 * after their first flush.
 */
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
/* clang-format off: one line each */
static void *glob_open(const char *path)
{
    return opendir(path);
}
static struct dirent *glob_read(void *directory)
{
    return readdir(directory);
}
static void glob_close(void *directory)
{
    closedir(directory);
}
/* clang-format on */

/* Only where the program has not asked for functions of its own. */
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
