/*
 * What a mover has to move: it is told of files, or looks for them, and enqueues those that are due.
 *
 * What is enqueued: a regular file or symbolic link that no process has open to write, that
 * is newer than the first mover of its folder, was not staged in, and is not at its
 * destination as it is. All of this is asked of the file and the log, not remembered: so a
 * mover that begins after a crash goes on where the last one stopped.
 */
#ifndef TB_STAGE_FINDS_H
#define TB_STAGE_FINDS_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "stage/copy/carry.h"
#include "stage/copy/folders.h"
#include "stage/items.h"
#include "stage/log/ledger.h"
#include "stage/log/left.h"
#include "stage/mover.h"

struct tb_unread; /* folders that the last look could not read */

struct tb_finds {
    const struct tb_pair *pairs;
    size_t n_pairs;
    const char *from, *to; /* of the folder that is watched; NULL: there is none */
    const char *host;
    int64_t since; /* what is older in that folder was there before the first mover */
    struct tb_ledger *ledger;
    struct tb_carries *carries;
    struct tb_items *items;
    struct tb_lines lines;      /* of files that are not released yet */
    struct tb_folders made;     /* folders with new ones in them, which are not fsynced yet */
    const struct tb_pair *pair; /* its files are walked; NULL: those of the watched folder */
    uint64_t looked_ns;         /* 0: not yet */
    unsigned long n_open;       /* files that the last look left to their writers */
    char open[PATH_MAX];        /* the first of them */
    struct tb_unread *unread, *unread_before;
    struct tb_left *left;
    unsigned long n_left;
    const atomic_bool *stop;
};

/* What an earlier mover did not come to the end of is told. */
void tb_finds_begin(struct tb_finds *finds);
void tb_finds_end(struct tb_finds *finds);

/* A file of the watched folder, or of `pair`: it is enqueued if it is due. For a tb_walk. */
void tb_finds_meet(void *finds, const char *path, const struct stat *st);
/* All of them. What events may have missed is found here. */
void tb_finds_look(struct tb_finds *finds);
/* What was met goes to the log, and then to the streams. Again after an error of the log. */
void tb_finds_release(struct tb_finds *finds);

/* Is this entry of the log one of this mover's own files? */
bool tb_finds_is_own(const struct tb_finds *finds, const struct tb_entry *entry);

/* After the last file is settled: what is open to write, and folders that could not be made, are failures by name. */
void tb_finds_tell_rest(struct tb_finds *finds);
/* How many are not moved; also into a list, if `left` is not NULL. */
unsigned long tb_finds_count_left(struct tb_finds *finds, struct tb_left *left);

#endif
