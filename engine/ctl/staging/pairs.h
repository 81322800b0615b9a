/* What a command moves, as pairs of a source and a destination, and the checks of them before anything is moved. */
#ifndef TB_CTL_PAIRS_H
#define TB_CTL_PAIRS_H

#include <stddef.h>

#include "stage/mover.h"

struct pairs {
    struct tb_pair *one;
    unsigned *line; /* of the file that asks for it */
    size_t n;
    const char *file;
};

/* 0, or EXIT_BAD_INPUT where a path is no absolute one or there is no memory. */
int pairs_add(struct pairs *pairs, const char *source, const char *destination, unsigned line);
void pairs_free(struct pairs *pairs);

/*
 * The lines "SOURCE DESTINATION" of a manifest as UnifyFS has them: words may be in double quotes, with \" \\ and \n in them; #
 * begins a comment. 0, or EXIT_BAD_INPUT, said.
 */
int pairs_read_manifest(struct pairs *pairs, const char *file);

/*
 * A source that is a link becomes what it leads to, as by cp -H; links below a source stay links. 0, or EXIT_BAD_INPUT where it leads
 * nowhere, said.
 */
int pairs_follow(struct pairs *pairs);

/*
 * Before anything starts: sources are there (if `sources_exist`), destinations can be written, have room, are in no source, and
 * no two are one. `absent`: a folder of other nodes, below which no destination is looked at; NULL: none. 0, or EXIT_BAD_INPUT with
 * the line said.
 */
int pairs_check(const struct pairs *pairs, int sources_exist, const char *absent);

/* Of the files in its source that the destination does not have yet. */
uint64_t pairs_bytes(const struct tb_pair *one);

#endif
