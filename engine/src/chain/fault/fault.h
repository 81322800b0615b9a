/*
 * The fault layer: makes chosen operations fail, for tests of what happens then.
 *
 * The environment variable TB_FAULT puts it into every chain of a process:
 *   TB_FAULT="op=pwrite,errno=ENOSPC,after=3,count=1,path=/mnt/pfs"
 *     op=NAME      an operation of struct tb_io_ops, or `any`
 *     errno=NAME   fail with it (close still closes)
 *     short=BYTES  transfer at most so much (read, write, pread, pwrite)
 *     signal=NUM   send this process that signal instead (9: a kill)
 *     after=N      let the first N matching operations through (default 0)
 *     count=N      then hit N of them (default 1; 0: all that follow)
 *     path=PREFIX  only paths that begin with it; of a descriptor, the path it
 *                  has now; must be the last key, as a path may hold commas
 * Exactly one of errno, short and signal.  Each process counts for itself.
 */
#ifndef TB_IO_FAULT_H
#define TB_IO_FAULT_H

#include <stddef.h>
#include <stdint.h>

#include "io/io_layer.h"

enum tb_fault_kind { TB_FAULT_ERRNO, TB_FAULT_SHORT, TB_FAULT_SIGNAL };

struct tb_fault {
    char op[16];
    enum tb_fault_kind kind;
    uint64_t value; /* errno, bytes or signal */
    uint64_t after, count;
    char path[256]; /* empty: every path */
};

/* Where `text`, of TB_FAULT, is a fault. EINVAL: it is none. */
struct tb_io *tb_io_fault_new(const struct tb_io_place *place, const char *text, struct tb_io *next);

#endif
