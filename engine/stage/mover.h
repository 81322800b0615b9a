/*
 * A mover: the process that carries files. It watches a folder and moves each file after its
 * last close, or moves a list of files and ends; it writes the log, answers waiting processes, and
 * keeps to the limits of its settings.
 *
 * What is alive is known by a lease: each mover holds a lock on a file of its own in the log's
 * folder, which the kernel gives back when it ends, however it ends. One mover works for a
 * host and a folder at a time.
 */
#ifndef TB_STAGE_MOVER_H
#define TB_STAGE_MOVER_H

#include <stdbool.h>
#include <stddef.h>

#include "config/stage.h"

struct tb_pair {
    char *source, *destination;
};

struct tb_mover_plan {
    const struct tb_config_stage *settings; /* from and to, where it watches */
    const char *log_folder;
    const struct tb_pair *pairs; /* else these, files or folders */
    size_t n_pairs;
    int control;       /* "F": finish; its end: stop. -1: there is none, and it finishes */
    int ready;         /* gets a byte when it has begun; -1: none */
    bool stays;        /* without `control`: until a signal */
    bool all;          /* also what was in the folder before the first mover */
    const char *asked; /* one pair of folders alone: a program that runs may ask for files by this name (asked.h); NULL: none */
};

#define TB_MOVER_DONE 0
#define TB_MOVER_LEFT 3 /* files could not be moved, or there was no time */

/*
 * Until it is told to finish, or its pairs are moved: TB_MOVER_DONE or TB_MOVER_LEFT; -EBUSY: another mover works for this
 * folder; other -errno: it could not begin.
 */
int tb_mover_run(const struct tb_mover_plan *plan);

/* The name of this node, of 65 bytes: Slurm's where it gave one, else the host's. */
void tb_stage_host(char *out);

#endif
