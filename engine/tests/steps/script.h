/*
 * A fixed sequence of operations on a few files, and what may be found of them
 * after it was broken off: by a client that was killed (everything that returned
 * is kept) or by a crash of the node (everything an fsync returned for is kept).
 */
#ifndef TB_TEST_SCRIPT_H
#define TB_TEST_SCRIPT_H

#include <stdbool.h>
#include <stddef.h>

#include <tierbench/io.h>

/* Too long for a file's record: the tree of names holds a part of it, which goes with the file. */
#define SCRIPT_FILL "fill, by a name that has no room in a record"

/*
 * Run all of it on files below `root`; `flush` is called where the daemon's flush
 * threads would work; `done` counts what has returned.  0, or the number of the
 * operation that failed + 1.
 */
int script_run(struct tb_io *io, const char *root, void (*flush)(void), _Atomic int *done);

/*
 * Compare the files below `root` with what is allowed after `done` operations,
 * the next one perhaps begun.  `crash`: only what was fsynced is promised.
 * NULL, or what is wrong.
 */
const char *script_check(const char *root, int done, bool crash);

#endif
