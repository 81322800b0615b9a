/*
 * A folder with all below it, as the kernel tells of it (inotify): a file was closed after
 * writing, came in by a rename, or a link was made. So every program is heard, also static
 * ones, without a library in it; and a close is the last of its description, no matter which
 * process had it.
 *
 * Limit: what other nodes do in the folder is not told; a node-local folder has no others.
 * Where the kernel has no room for watches, or its queue was too long, `lost` says that only
 * a look at the whole folder tells.
 */
#ifndef TB_STAGE_WATCH_H
#define TB_STAGE_WATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

struct tb_watch {
    int fd;
    char **path; /* of each watch */
    size_t n;
    bool lost, is_blind; /* is_blind: it will always be lost */
};

/* 0 or -errno. Files that are there already are not told. */
int tb_watch_begin(struct tb_watch *watch, const char *folder);
void tb_watch_end(struct tb_watch *watch);
/* Tell `file` of what has happened, without waiting. A new folder's files are told as well. */
void tb_watch_read(struct tb_watch *watch, void (*file)(void *arg, const char *path, const struct stat *st), void *arg);

#endif
