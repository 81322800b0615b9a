/*
 * The folders that a batch of moves has open. Files that are together are opened by their
 * last name in a folder that is open already, and the folder is fsynced once for all of
 * them.
 */
#ifndef TB_STAGE_FOLDERS_H
#define TB_STAGE_FOLDERS_H

#include <stdbool.h>
#include <stddef.h>

struct tb_folder {
    struct tb_folder *next;
    int fd;
    bool is_changed; /* has a new name that is not on the storage yet */
    int synced;      /* what its fsync said: 0 or -errno */
    size_t n;
    char path[];
};

struct tb_folders {
    struct tb_folder *first; /* the one that was opened last */
    unsigned n;
};

/* The folder of this path, which is absolute, and where the path's last name begins; NULL with errno. */
struct tb_folder *tb_folders_of(struct tb_folders *folders, const char *path, const char **name);
/* Those with new names: what it said is in `synced`. */
void tb_folders_sync(struct tb_folders *folders);
void tb_folders_close_newest(struct tb_folders *folders);
void tb_folders_close(struct tb_folders *folders);

#endif
