/*
 * The folders that a batch of moves has open (stage/copy/folders.h): files are made in them, and each is synced once. A list,
 * because files of a batch come in the order of their folders, so the one wanted is nearly always the first.
 */
#include "stage/copy/folders.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/*
 * Held open for the length of a batch: names are then looked up in this folder, even if the path has come to mean another
 * one.
 */
static struct tb_folder *open_folder(const char *path, size_t n)
{
    struct tb_folder *f = calloc(1, sizeof(*f) + n + 1);
    if (!f)
        return NULL;
    f->n = n;
    memcpy(f->path, path, n);
    f->fd = open(n ? f->path : "/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (f->fd >= 0)
        return f;
    int error = errno;
    free(f);
    errno = error;
    return NULL;
}

/* Found by its path. NULL with errno: it cannot be opened. */
struct tb_folder *tb_folders_of(struct tb_folders *folders, const char *path, const char **name)
{
    const char *slash = strrchr(path, '/');
    size_t n = (size_t)(slash - path);
    *name = slash + 1;
    for (struct tb_folder *f = folders->first; f; f = f->next)
        if (f->n == n && memcmp(f->path, path, n) == 0)
            return f;
    struct tb_folder *f = open_folder(path, n);
    if (f) {
        f->next = folders->first;
        folders->first = f;
        folders->n++;
    }
    return f;
}

/* What is below a folder that is not on the storage cannot be found there either. */
static void fail_below(struct tb_folders *folders, const struct tb_folder *above)
{
    for (struct tb_folder *f = folders->first; f; f = f->next)
        if (f->n > above->n && memcmp(f->path, above->path, above->n) == 0 && f->path[above->n] == '/' && !f->synced)
            f->synced = above->synced;
}

/*
 * File systems that cannot fsync folders say EINVAL. Once for all files of a batch that went into the folder.
 */
void tb_folders_sync(struct tb_folders *folders)
{
    for (struct tb_folder *f = folders->first; f; f = f->next)
        f->synced = f->is_changed && fsync(f->fd) && errno != EINVAL ? -errno : 0;
    for (struct tb_folder *f = folders->first; f; f = f->next) {
        if (f->synced)
            fail_below(folders, f);
        f->is_changed = false;
    }
}

void tb_folders_close_newest(struct tb_folders *folders)
{
    struct tb_folder *f = folders->first;
    folders->first = f->next;
    folders->n--;
    close(f->fd);
    free(f);
}

void tb_folders_close(struct tb_folders *folders)
{
    while (folders->first)
        tb_folders_close_newest(folders);
}
