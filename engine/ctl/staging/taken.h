/* Destinations of a stage-out that a file of another origin has already: it would stay, and the job's file would not arrive. */
#ifndef TB_CTL_TAKEN_H
#define TB_CTL_TAKEN_H

#include "staging/pairs.h"

/*
 * Before the job starts: no destination is a file that no mover of the log in `log_folder` put there. Folders are passed over:
 * what will go into them is not known yet. 0, or EXIT_BAD_INPUT with the line said.
 */
int pairs_check_taken(const struct pairs *pairs, const char *log_folder);

#endif
