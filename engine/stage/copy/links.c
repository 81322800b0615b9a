/*
 * Which destination has the bytes of a file with several names (stage/copy/links.h): the next name becomes a link to it. A tree
 * by device and inode; what is told of a file last holds.
 */
#include "stage/copy/links.h"

#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "stage/log/ledger.h"

struct link {
    dev_t device;
    ino_t inode;
    struct tb_content content;
    char destination[];
};

static int by_inode(const void *a, const void *b)
{
    const struct link *x = a, *y = b;
    if (x->device != y->device)
        return x->device < y->device ? -1 : 1;
    return x->inode < y->inode ? -1 : x->inode > y->inode;
}

void tb_links_begin(struct tb_links *l)
{
    *l = (struct tb_links){.mutex = PTHREAD_MUTEX_INITIALIZER};
}

void tb_links_end(struct tb_links *l)
{
    tdestroy(l->tree, free);
}

void tb_links_note(struct tb_links *l, const struct stat *st, const char *destination)
{
    struct link *new = malloc(sizeof(*new) + strlen(destination) + 1);
    if (!new)
        return; /* then the next name gets a copy */
    *new = (struct link){st->st_dev, st->st_ino, tb_content_of(st)};
    strcpy(new->destination, destination);
    pthread_mutex_lock(&l->mutex);
    struct link **known = tfind(new, &l->tree, by_inode);
    if (known) {
        free(*known);
        *known = new;
    } else if (!tsearch(new, &l->tree, by_inode)) {
        free(new);
    }
    pthread_mutex_unlock(&l->mutex);
}

bool tb_links_find(struct tb_links *l, const struct stat *st, char *destination, bool *same)
{
    const struct link key = {.device = st->st_dev, .inode = st->st_ino};
    struct tb_content now = tb_content_of(st);
    pthread_mutex_lock(&l->mutex);
    struct link **known = tfind(&key, &l->tree, by_inode);
    bool found = known && (*known)->content.mtime == now.mtime && (*known)->content.size == now.size;
    *same = found && (*known)->content.ctime == now.ctime;
    if (found)
        strcpy(destination, (*known)->destination);
    pthread_mutex_unlock(&l->mutex);
    return found;
}
