/*
 * The folders that a mover has brought, and which of them were removed since (stage/copy/brought.h): a table by path. The look
 * at a folder and its making are under one mutex. Else a second stream would take a new folder for a removed one.
 */
#include "stage/copy/brought.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct once {
    bool is_removed;
    char path[];
};

void tb_brought_begin(struct tb_brought *b, bool remembers)
{
    *b = (struct tb_brought){.mutex = PTHREAD_MUTEX_INITIALIZER, .remembers = remembers};
}

void tb_brought_end(struct tb_brought *b)
{
    tb_table_end(&b->once, free);
}

/* A folder for which there is no memory is not known: it would come back. */
static void note(struct tb_brought *b, const char *folder)
{
    struct once *new = calloc(1, sizeof(*new) + strlen(folder) + 1);
    if (!new)
        return;
    strcpy(new->path, folder);
    if (tb_table_add(&b->once, new->path, new))
        free(new);
}

/* Seen once, it stays removed: what has its name later is the program's. */
static bool is_removed(struct once *o)
{
    struct stat st;
    o->is_removed |= lstat(o->path, &st) && (errno == ENOENT || errno == ENOTDIR);
    return o->is_removed;
}

/* Under the mutex. From the top, each part of the path that is known. */
static bool has_removed_part(struct tb_brought *b, const char *path)
{
    char part[PATH_MAX];
    size_t n = strlen(path);
    if (n >= sizeof(part))
        return false;
    memcpy(part, path, n + 1);
    for (char *p = part + 1;; p++) {
        if (*p && *p != '/')
            continue;
        char was = *p;
        *p = '\0';
        struct once *known = tb_table_find(&b->once, part);
        if (known && is_removed(known))
            return true;
        if (!was)
            return false;
        *p = was;
    }
}

int tb_brought_make(struct tb_brought *b, const char *folder, mode_t mode)
{
    pthread_mutex_lock(&b->mutex);
    struct once *known = b->remembers ? tb_table_find(&b->once, folder) : NULL;
    int rc = known && is_removed(known) ? -EIDRM : 0;
    if (!rc && !known)
        rc = mkdir(folder, mode) == 0 ? 1 : errno == EEXIST ? 0 : -errno;
    if (rc >= 0 && !known && b->remembers)
        note(b, folder);
    pthread_mutex_unlock(&b->mutex);
    return rc;
}

int tb_brought_meet(struct tb_brought *b, const char *folder)
{
    if (!b->remembers)
        return 0;
    pthread_mutex_lock(&b->mutex);
    int rc = has_removed_part(b, folder) ? -EIDRM : 0;
    if (!rc && !tb_table_find(&b->once, folder))
        note(b, folder);
    pthread_mutex_unlock(&b->mutex);
    return rc;
}

bool tb_brought_is_removed(struct tb_brought *b, const char *path)
{
    if (!b->remembers)
        return false;
    pthread_mutex_lock(&b->mutex);
    bool removed = has_removed_part(b, path);
    pthread_mutex_unlock(&b->mutex);
    return removed;
}
