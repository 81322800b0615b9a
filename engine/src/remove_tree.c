#include "remove_tree.h"

#include <errno.h>
#include <ftw.h>
#include <stdio.h>

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)st, (void)type, (void)at;
    return remove(path) ? -errno : 0;
}

int tb_remove_tree(const char *path)
{
    int rc = nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
    return rc < 0 && errno == ENOENT ? 0 : rc;
}
