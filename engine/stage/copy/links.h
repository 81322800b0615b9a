/* Where files with several names went, by device and inode, so that their other names become links to them. */
#ifndef TB_STAGE_LINKS_H
#define TB_STAGE_LINKS_H

#include <pthread.h>
#include <stdbool.h>
#include <sys/stat.h>

struct tb_links {
    pthread_mutex_t mutex;
    void *tree;
};

void tb_links_begin(struct tb_links *links);
void tb_links_end(struct tb_links *links);

/* It is at this destination. */
void tb_links_note(struct tb_links *links, const struct stat *st, const char *destination);
/* Where it went, if it has its size and mtime still; `same`: its ctime too. False: nowhere yet. */
bool tb_links_find(struct tb_links *links, const struct stat *st, char *destination, bool *same);

#endif
