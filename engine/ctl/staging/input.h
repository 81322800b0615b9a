/* A text file that the user named, read line by line. */
#ifndef TB_CTL_INPUT_H
#define TB_CTL_INPUT_H

#include <stdio.h>

/* Open it. NULL: `why` is the reason, and what is allowed. */
FILE *ctl_input_open(const char *file, const char **why);

/* Close it, after the last line or before. NULL, or why it could not be read that far. */
const char *ctl_input_close(FILE *in);

#endif
