/*
 * What tb-alternate and tb-reread share: a file for each rank, PREFIX.00000003, that is written and read in pieces of
 * --transfer bytes.
 */
#ifndef TB_RANK_FILE_H
#define TB_RANK_FILE_H

#include "steps.h"

/* The first member of such a program's options. */
struct tb_rank_file_options {
    const char *prefix;
    int64_t bytes, transfer;
};

extern const struct tb_rule tb_rank_file_rules[];
/* PREFIX, the one word before the options. */
bool tb_rank_file_words(void *options, int n, char **words, struct tb_complaint *c);

struct tb_rank_file {
    char path[4096];
    struct tb_posix_file file;
};

/* Both are timed as a step of all ranks; the file is made anew, to be accessed by O_WRONLY or O_RDWR. */
void tb_rank_file_open(struct tb_rank_file *f, const char *prefix, int access, const struct tb_world *w, double *seconds);
void tb_rank_file_close(struct tb_rank_file *f, const struct tb_world *w, double *seconds);

#endif
