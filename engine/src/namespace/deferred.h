/*
 * Names that wait, with `namespace: deferred`: a new file is made in a hidden
 * directory of the PFS and renamed into its place at its first flush, so that
 * nobody past the engine meets a file before its bytes.
 *
 * A file that is to be NAME in a directory stands at HIDDEN/KEY/NAME, where KEY is
 * the directory's inode number and birth time: whatever name or link leads to
 * the directory finds it, and a directory that is renamed takes its files along.
 * HIDDEN/KEY.of is a symlink that says what the directory is called.  The file's
 * record has the place in HIDDEN for its name, so flush, journal, unlink and
 * truncate know no difference, and taking the place is a rename like any other.
 *
 * A name that somebody took meanwhile is never taken from him: the file keeps
 * waiting, its flush fails with -EEXIST, and a drain reports it.
 */
#ifndef TB_WAITING_H
#define TB_WAITING_H

#include "base/report.h"
#include "namespace/route.h"

/* The hidden directory, made with the instance; gone with it where nothing is left in it. */
void tb_waiting_prepare(tb_engine *e);
int tb_waiting_open_to_clients(const char *path);
void tb_waiting_remove(const struct tb_config *c, const char *host, const char *name);
/* Whether new names of that route wait; where a path stands if it does. */
bool tb_waiting_applies(const tb_engine *e, const struct tb_route *route);
bool tb_waiting_find(tb_engine *e, const char *path, bool follow, char *out);
/* Open a name that the PFS may have or not, and make it to wait where it has not; `out` is where it stands. */
int tb_waiting_open(tb_engine *e, const char *path, int flags, mode_t mode, char *out);
/* The program's name of a place in HIDDEN.  False: it is none; -ESTALE in *rc: its directory is not where it was. */
bool tb_waiting_shown(const tb_engine *e, const char *place, char *out, size_t size);
/*
 * Give their places to those of which no record says that they wait (who made them was killed), and without a region
 * to all; each is reported.  0, or the first error: a name that is taken, a directory that is gone.
 */
int tb_waiting_finish(tb_engine *e, tb_file_reporter *report, void *arg);
int tb_waiting_recover(const struct tb_config *c, const char *host, const char *name, struct tb_io *io, tb_file_reporter *report, void *arg);
/* The directory's files that wait, "" behind the last: allocated, NULL where there is none. */
char *tb_waiting_list(tb_engine *e, const char *directory);
/* rmdir that knows of them; directories below `from` are called `to` now. */
int tb_waiting_remove_directory(tb_engine *e, struct tb_io *io, const char *path);
void tb_waiting_renamed(tb_engine *e, const char *from, const char *to);

#endif
