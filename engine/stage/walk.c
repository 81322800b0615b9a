/*
 * A walk through a folder and all below it (stage/walk.h). The path is one buffer that grows and shrinks. The folders in a
 * folder are noted while it is read, and walked after that, so one folder is open at a time.
 */
#include "stage/walk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct walking {
    const struct tb_walk *told;
    dev_t device;
    size_t n; /* of the path */
    char path[PATH_MAX];
};

/* Names one after the other, each with its zero byte. */
struct names {
    char *text;
    size_t n, room;
};

bool tb_is_movers_own(const char *path)
{
    const char *slash = strrchr(path, '/');
    return strncmp(slash ? slash + 1 : path, ".tierbench-", 11) == 0;
}

static void tell_unread(const struct walking *k, const char *why)
{
    if (k->told->unread)
        k->told->unread(k->told->arg, k->path, why);
}

/* False: the path would be too long for any call. */
static bool go_down(struct walking *k, const char *name)
{
    size_t n = strlen(name), slash = k->path[k->n - 1] != '/';
    if (k->n + slash + n >= sizeof(k->path))
        return false;
    if (slash)
        k->path[k->n] = '/';
    memcpy(k->path + k->n + slash, name, n + 1);
    k->n += slash + n;
    return true;
}

static void go_up(struct walking *k, size_t n)
{
    k->n = n;
    k->path[n] = '\0';
}

static bool note(struct names *names, const char *name)
{
    size_t n = strlen(name) + 1, room = (names->n + n) * 2;
    char *text = names->n + n <= names->room ? names->text : realloc(names->text, room);
    if (!text)
        return false;
    names->room = text == names->text ? names->room : room;
    names->text = text;
    memcpy(text + names->n, name, n);
    names->n += n;
    return true;
}

/*
 * Files of movers are passed over, of this mover and of others: with two movers in one tree each would carry the other's
 * half-written files.
 */
static void take_entry(struct walking *k, int folder, const char *name, struct names *below)
{
    struct stat st;
    size_t n = k->n;
    if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || tb_is_movers_own(name))
        return;
    if (fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW)) {
        if (errno != ENOENT)
            tell_unread(k, strerror(errno));
    } else if (S_ISDIR(st.st_mode)) {
        if (!note(below, name))
            tell_unread(k, strerror(ENOMEM));
    } else if (!go_down(k, name)) {
        tell_unread(k, "the path of a file in it is too long");
    } else {
        if (k->told->file && (S_ISREG(st.st_mode) || S_ISLNK(st.st_mode)))
            k->told->file(k->told->arg, k->path, &st);
        go_up(k, n);
    }
}

/* The directory is closed. An error in its middle is told: the names that are missing then are not known. */
static void read_entries(struct walking *k, DIR *d, struct names *below)
{
    for (struct dirent *e; errno = 0, e = readdir(d);)
        if (k->told->file || e->d_type == DT_DIR || e->d_type == DT_UNKNOWN)
            take_entry(k, dirfd(d), e->d_name, below);
    if (errno)
        tell_unread(k, strerror(errno));
    closedir(d);
}

/* NULL: told, or it vanished. The first folder decides which file system the others have to be on. */
static DIR *open_folder(struct walking *k, bool is_first, struct stat *st)
{
    int fd = open(k->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *d = fd < 0 || fstat(fd, st) ? NULL : fdopendir(fd);
    if (!d && errno != ENOENT && errno != ENOTDIR && errno != ELOOP)
        tell_unread(k, strerror(errno));
    if (!d && fd >= 0)
        close(fd);
    if (!d || is_first || st->st_dev == k->device)
        return d;
    tell_unread(k, "another file system is mounted on it");
    closedir(d);
    return NULL;
}

/* As deep as a path can be. */
static void walk_folder(struct walking *k, bool is_first)
{
    struct names below = {0};
    struct stat st;
    size_t n = k->n;
    DIR *d = open_folder(k, is_first, &st);
    if (!d)
        return;
    if (is_first)
        k->device = st.st_dev;
    if (k->told->folder)
        k->told->folder(k->told->arg, k->path, &st);
    read_entries(k, d, &below);
    for (const char *name = below.text; name && name < below.text + below.n; name += strlen(name) + 1) {
        if (go_down(k, name))
            walk_folder(k, false);
        else
            tell_unread(k, "the path of a folder in it is too long");
        go_up(k, n);
    }
    free(below.text);
}

int tb_walk(const struct tb_walk *walk, const char *from)
{
    struct walking k = {.told = walk, .n = strlen(from)};
    struct stat st;
    if (!k.n || k.n >= sizeof(k.path))
        return -ENAMETOOLONG;
    memcpy(k.path, from, k.n + 1);
    if (lstat(from, &st))
        return -errno;
    if (S_ISDIR(st.st_mode))
        walk_folder(&k, true);
    else if (walk->file && (S_ISREG(st.st_mode) || S_ISLNK(st.st_mode)) && !tb_is_movers_own(from))
        walk->file(walk->arg, from, &st);
    return 0;
}
