#ifndef TB_PRELOAD_CWD_H
#define TB_PRELOAD_CWD_H

#include <stdbool.h>

#include <tierbench/engine.h>

/* The program's name of a directory by descriptor, or of the working directory (AT_FDCWD). */
bool tb_directory_name(tb_engine *e, int dirfd, char *out);
void tb_cwd_reset(void);

#endif
