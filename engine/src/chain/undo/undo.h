/*
 * The undo layer: for tests of a node's crash, which loses what was written and
 * not synced.
 *
 * TB_UNDO=FILE in the environment puts it into every chain of a process.  Before
 * each write it appends to the file what the write replaces; around each sync,
 * its beginning and end.  The test plays the crash when all processes are dead: it
 * takes back what no sync covered (engine/tests/torture/crash.py).
 *
 * Limits: writes at the descriptor's own offset and changes of names count as
 * synced; a write that comes while a sync runs may count as covered by it.
 */
#ifndef TB_IO_UNDO_H
#define TB_IO_UNDO_H

#include <stdint.h>

#include "io/io_layer.h"

enum tb_undo_kind { TB_UNDO_WRITE = 1, TB_UNDO_CUT, TB_UNDO_SYNC_BEGIN, TB_UNDO_SYNC_END };

#define TB_UNDO_MAGIC 0x6b6361627473614cull /* a killed writer leaves part of a record */

struct tb_undo {
    uint64_t magic, kind, inode, birth; /* a file's birth time in ns: inode numbers are used again */
    uint64_t offset, length;            /* WRITE, CUT: of the bytes that follow, which the file had there */
    uint64_t size;    /* WRITE, CUT: of the file before; SYNC: the number of its two records, which other files may have, too */
    uint64_t written; /* WRITE: bytes */
};

/* Where `text`, of TB_UNDO, is the path of the log. errno: why it can't be opened. */
struct tb_io *tb_io_undo_new(const struct tb_io_place *place, const char *text, struct tb_io *next);

#endif
