/*
 * ftw and nftw: libc's walk a tree past every wrapper, so those of managed
 * trees are walked here, over the wrappers.  The number of descriptors that the
 * caller allows is not kept to: one stays open for each level.
 */
#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/adapter.h"

struct walk {
    __nftw_func_t visit_at;
    __ftw_func_t visit;
    int flags;
    dev_t device;
    char path[PATH_MAX];
};

/* A directory that the walk is in: a link back to it would never end. */
struct above {
    const struct above *next;
    dev_t device;
    ino_t inode;
    int level;
};

/* ftw knows neither FTW_DP nor FTW_SLN: its function is told the nearest type. */
static int visit(struct walk *w, const struct stat *st, int type, int base, int level)
{
    struct FTW at = {base, level};
    if (w->visit)
        return w->visit(w->path, st, type == FTW_DP ? FTW_D : type == FTW_SLN ? FTW_NS : type);
    return w->visit_at(w->path, st, type, &at);
}

/* FTW_NS comes with a stat of zeros; a link that leads nowhere comes with its own. */
static int look(const struct walk *w, struct stat *st)
{
    *st = (struct stat){0};
    if (w->flags & FTW_PHYS)
        return lstat(w->path, st) ? FTW_NS : S_ISLNK(st->st_mode) ? FTW_SL : S_ISDIR(st->st_mode) ? FTW_D : FTW_F;
    if (stat(w->path, st) == 0)
        return S_ISDIR(st->st_mode) ? FTW_D : FTW_F;
    return lstat(w->path, st) ? FTW_NS : FTW_SLN;
}

static bool is_inside(const struct above *above, const struct stat *st)
{
    while (above && (above->device != st->st_dev || above->inode != st->st_ino))
        above = above->next;
    return above != NULL;
}

static int walk(struct walk *w, int base, const struct above *above);

static int walk_entries(struct walk *w, DIR *directory, const struct above *here)
{
    size_t n = strlen(w->path);
    int rc = 0;
    bool slash = n && w->path[n - 1] != '/';
    for (struct dirent *d; !rc && (d = readdir(directory));) {
        if (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0)
            continue;
        if ((size_t)snprintf(w->path + n, sizeof(w->path) - n, "%s%s", slash ? "/" : "", d->d_name) >= sizeof(w->path) - n)
            return errno = ENAMETOOLONG, -1;
        rc = walk(w, (int)n + slash, here);
        if (w->flags & FTW_ACTIONRETVAL && rc == FTW_SKIP_SUBTREE)
            rc = 0;
    }
    w->path[n] = 0;
    return w->flags & FTW_ACTIONRETVAL && rc == FTW_SKIP_SIBLINGS ? 0 : rc;
}

/* With FTW_CHDIR the entries are visited from inside. The way back is a descriptor, because a relative name means another place then. */
static int walk_inside(struct walk *w, DIR *directory, const struct above *here)
{
    if (!(w->flags & FTW_CHDIR))
        return walk_entries(w, directory, here);
    int back = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int rc = fchdir(dirfd(directory)) ? -1 : walk_entries(w, directory, here);
    if (back >= 0 && fchdir(back) && !rc)
        rc = -1;
    if (back >= 0)
        close(back);
    return rc;
}

/* Where the directory may not be read the walk goes on after FTW_DNR; any other error ends it. */
static int walk_directory(struct walk *w, const struct stat *st, int base, const struct above *above)
{
    struct above here = {above, st->st_dev, st->st_ino, above ? above->level + 1 : 0};
    DIR *directory = opendir(w->path);
    if (!directory)
        return errno == EACCES ? visit(w, st, FTW_DNR, base, here.level) : -1;
    int rc = w->flags & FTW_DEPTH ? 0 : visit(w, st, FTW_D, base, here.level);
    if (rc == 0)
        rc = walk_inside(w, directory, &here);
    closedir(directory);
    return rc == 0 && w->flags & FTW_DEPTH ? visit(w, st, FTW_DP, base, here.level) : rc;
}

static int walk(struct walk *w, int base, const struct above *above)
{
    struct stat st;
    int type = look(w, &st), level = above ? above->level + 1 : 0;
    if (!above && type == FTW_NS)
        return -1;
    if (!above)
        w->device = st.st_dev;
    if (w->flags & FTW_MOUNT && type != FTW_NS && st.st_dev != w->device)
        return 0;
    if (type != FTW_D)
        return visit(w, &st, type, base, level);
    return is_inside(above, &st) ? 0 : walk_directory(w, &st, base, above);
}

/* Slashes at the end are cut, except the root's own, so that `base` is where the last name begins. */
static int begin(struct walk *w, const char *path)
{
    size_t n = strlen(path);
    if (n >= sizeof(w->path))
        return errno = ENAMETOOLONG, -1;
    strcpy(w->path, path);
    while (n > 1 && w->path[n - 1] == '/')
        w->path[--n] = 0;
    const char *slash = strrchr(w->path, '/');
    return walk(w, slash && slash[1] ? (int)(slash - w->path) + 1 : 0, NULL);
}

TB_WRAPPER int nftw(const char *path, __nftw_func_t visit, int n, int flags)
{
    struct tb_path p;
    struct walk w = {.visit_at = visit, .flags = flags};
    return tb_path_find(AT_FDCWD, path, &p) ? begin(&w, path) : REAL(nftw)(path, visit, n, flags);
}

TB_WRAPPER int ftw(const char *path, __ftw_func_t visit, int n)
{
    struct tb_path p;
    struct walk w = {.visit = visit};
    return tb_path_find(AT_FDCWD, path, &p) ? begin(&w, path) : REAL(ftw)(path, visit, n);
}

_Static_assert(sizeof(struct stat) == sizeof(struct stat64), "64-bit off_t");
TB_WRAPPER int nftw64(const char *path, __nftw64_func_t visit, int n, int flags)
{
    return nftw(path, (__nftw_func_t)visit, n, flags);
}
TB_WRAPPER int ftw64(const char *path, __ftw64_func_t visit, int n)
{
    return ftw(path, (__ftw_func_t)visit, n);
}
