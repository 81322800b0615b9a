/* A table by path, in which each part of a path is looked up: there may be as many roots as pairs. */
#include "stage/copy/roots.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

struct root {
    dev_t device;
    ino_t inode;
    bool is_fixed;
    char path[];
};

int tb_root_above(const char *path, char *folder, struct stat *st)
{
    size_t n = strlen(path);
    if (n >= PATH_MAX || *path != '/')
        return -EINVAL;
    memcpy(folder, path, n + 1);
    while (stat(folder, st) || !S_ISDIR(st->st_mode)) {
        if (strcmp(folder, "/") == 0)
            return -errno;
        char *slash = strrchr(folder, '/');
        slash[slash == folder] = '\0';
    }
    return 0;
}

/*
 * A program may remove a folder and make it anew, and a file system that is mounted again may have got another number: so one of the two is
 * enough. A folder below a mount point has neither.
 */
bool tb_root_is_there(const char *folder, dev_t device, ino_t inode)
{
    char now[PATH_MAX];
    struct stat st;
    return tb_root_above(folder, now, &st) == 0 && (st.st_dev == device || (st.st_ino == inode && strcmp(now, folder) == 0));
}

static bool is_there(const struct root *r)
{
    struct stat st;
    if (!r->is_fixed)
        return tb_root_is_there(r->path, r->device, r->inode);
    return stat(r->path, &st) == 0 && st.st_dev == r->device && st.st_ino == r->inode;
}

static int add(struct tb_roots *roots, const char *folder, const struct stat *st, bool is_fixed)
{
    if (tb_table_find(&roots->table, folder))
        return 0;
    struct root *new = malloc(sizeof(*new) + strlen(folder) + 1);
    if (!new)
        return -ENOMEM;
    *new = (struct root){st->st_dev, st->st_ino, is_fixed};
    strcpy(new->path, folder);
    int rc = tb_table_add(&roots->table, new->path, new);
    if (rc)
        free(new);
    return rc;
}

int tb_roots_add(struct tb_roots *roots, const char *folder)
{
    struct stat st;
    return stat(folder, &st) ? -errno : add(roots, folder, &st, true);
}

int tb_roots_add_above(struct tb_roots *roots, const char *path)
{
    char folder[PATH_MAX];
    struct stat st;
    int rc = tb_root_above(path, folder, &st);
    return rc ? rc : add(roots, folder, &st, false);
}

/* From the whole path up to the root of all. */
bool tb_roots_are_there(const struct tb_roots *roots, const char *path)
{
    char part[PATH_MAX];
    size_t n = strlen(path);
    if (n >= sizeof(part))
        return false;
    memcpy(part, path, n + 1);
    for (char *end = part + n;; end = strrchr(part, '/')) {
        end[end == part] = '\0';
        const struct root *r = tb_table_find(&roots->table, part);
        if (r && !is_there(r))
            return false;
        if (end == part)
            return true;
    }
}

void tb_roots_end(struct tb_roots *roots)
{
    tb_table_end(&roots->table, free);
}
