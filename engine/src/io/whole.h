/* Whole transfers at an offset, through any chain: the caller gets all n bytes, or an error. */
#ifndef TB_IO_WHOLE_H
#define TB_IO_WHOLE_H

#include <stdint.h>

#include <tierbench/io.h>

/* Whole transfers at an offset through any chain; 0 or negative errno. */
int tb_io_write_all(struct tb_io *io, int fd, const void *from, size_t n, uint64_t offset);
/*
 * The same for a file of the engine, in any process: -EFBIG where RLIMIT_FSIZE, which is meant for the program's files, forbids
 * it. The kernel would end the program with SIGXFSZ. Limit: a program that had none when it attached, and sets one, is not looked at.
 */
int tb_io_write_own(struct tb_io *io, int fd, const void *from, size_t n, uint64_t offset);
/* At an attach: has this process such a limit? */
void tb_io_ask_limit(void);
/* Returns the bytes read: fewer only at the end of the file. */
ssize_t tb_io_read_all(struct tb_io *io, int fd, void *to, size_t n, uint64_t offset);

#endif
