/* The entries of a directory through any chain. An error is never taken for the end. */
#ifndef TB_IO_DIRECTORY_H
#define TB_IO_DIRECTORY_H

#include <tierbench/io.h>

/* `type` is DT_DIR, DT_LNK and so on, also where the file system does not say. Not 0: the walk ends with it. */
typedef int tb_io_entry(void *arg, const char *name, unsigned char type);

/* Calls `act` for each entry but "." and "..".  0, what `act` returned, or an error. */
int tb_io_each_entry(struct tb_io *io, const char *path, tb_io_entry *act, void *arg);

#endif
