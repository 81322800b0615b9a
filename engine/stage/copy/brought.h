/*
 * The folders that a mover has brought, while the program for which it brings them runs.
 *
 * Problem: a folder that the program removed and names later looks like one that has not come
 * yet. Idea: a folder that was there once and is not there any more was removed, and so was all
 * below it, for good; also where the program then makes a folder of that name.
 *
 * Limit: a removal and a new folder between two looks are not seen; a program under the adapter
 * asks before it makes the new one.
 */
#ifndef TB_STAGE_BROUGHT_H
#define TB_STAGE_BROUGHT_H

#include <pthread.h>
#include <stdbool.h>
#include <sys/types.h>

#include "stage/log/table.h"

struct tb_brought {
    pthread_mutex_t mutex;
    bool remembers;       /* else no program runs, and a folder that is missing is made */
    struct tb_table once; /* of folders that were there, by path */
};

void tb_brought_begin(struct tb_brought *brought, bool remembers);
void tb_brought_end(struct tb_brought *brought);

/* Make a folder in one that is there. 1; 0: it is there already; -EIDRM: it was removed; -errno. */
int tb_brought_make(struct tb_brought *brought, const char *folder, mode_t mode);
/* A folder is there, and it is known from now on. 0, or -EIDRM: it, or one above it, was removed before. */
int tb_brought_meet(struct tb_brought *brought, const char *folder);
/* Was a folder above this path removed, or the folder of this path? */
bool tb_brought_is_removed(struct tb_brought *brought, const char *path);

#endif
