/*
 * The list of files that were not moved, for the user to see and for `tierctl stage
 * --manifest` to move later: a line "SOURCE" "DESTINATION" each, as UnifyFS' manifests are.
 */
#ifndef TB_STAGE_LEFT_H
#define TB_STAGE_LEFT_H

#include <stdio.h>

#include "stage/log/ledger.h"

struct tb_left {
    FILE *out;
    char path[PATH_MAX + 24];
    const char *final;
    unsigned long n;
};

/* Written beside, and named when it is whole. 0 or -errno. */
int tb_left_begin(struct tb_left *left, const char *path);
void tb_left_add(struct tb_left *left, const char *source, const char *destination, const char *reason);
int tb_left_end(struct tb_left *left);

/* All that the ledger knows of, of every host. 0 or -errno. */
int tb_left_of_ledger(struct tb_ledger *ledger, const char *path);

#endif
