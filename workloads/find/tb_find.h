/*
 * tb-find: how many files below a directory have a certain name, size and age, counted by all ranks together. It is
 * the `find` phase of IO500, with the words of find(1).
 *
 * main reads the command line and reports; walk visits directories and files; list holds paths and deals them out.
 * Directories are read level by level, each level distributed to the ranks. What its name rules out costs no more than
 * its directory entry; all others are distributed once more, so that ranks share the files of one large directory, and
 * are looked at one by one.
 */
#ifndef TB_FIND_H
#define TB_FIND_H

#include "driver.h"

#include <time.h>

/* list.c: paths one after the other, each with its final zero byte. */
struct tb_list {
    char *text;
    size_t used, room;
    int64_t count;
};
void tb_list_add(struct tb_list *list, const char *path);
void tb_list_free(struct tb_list *list);
/* Afterwards every rank has its share of the paths of all: as many as any other, one more or less. Collective. */
void tb_list_deal(struct tb_list *list, const struct tb_world *w);

/* walk.c */
struct tb_wanted {
    const char *start, *name, *newer_than; /* a NULL rules nothing out */
    int64_t size;                          /* -1: any */
    struct timespec since;                 /* when the file `newer_than` was last modified */
};
struct tb_found {
    int64_t matched, files, looked_at, failures; /* of all ranks; directories aren't files */
};
struct tb_found tb_walk(const struct tb_wanted *wanted, const struct tb_world *w);

#endif
