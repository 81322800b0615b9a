/*
 * Deferred names (`namespace: deferred`): a new file is made in a hidden directory of the
 * PFS and renamed to its name at its first flush, so that a process past the engine never
 * sees the file without its bytes.
 *
 * A file that is to be NAME in a directory is at HIDDEN/KEY/NAME. KEY is the directory's
 * inode number and birth time: every name or link that leads to the directory finds it,
 * and a renamed directory takes its files along. HIDDEN/KEY.of is a symlink that says what
 * the directory is called. The file's record has the place in HIDDEN for its name, so
 * flush, journal, unlink and truncate know no difference, and giving the place is a rename
 * like any other.
 *
 * If another process has taken the name, it is never taken from it: the file keeps its
 * hidden place, its flush fails with -EEXIST, and a drain reports it.
 */
#ifndef TB_WAITING_H
#define TB_WAITING_H

#include "base/report.h"
#include "namespace/route.h"

/* The hidden directory, made with the instance; gone with it where nothing is left in it. */
void tb_waiting_prepare(tb_engine *e);
int tb_waiting_open_to_clients(const char *path);
void tb_waiting_remove(const struct tb_config *c, const char *host, const char *name, struct tb_io *io);
/* Are new names of that route deferred? And where a path is then: 1 there, 0 it does not wait, or a look-up failed. */
bool tb_waiting_applies(const tb_engine *e, const struct tb_route *route);
int tb_waiting_find(tb_engine *e, const char *path, bool follow, char *out);
/* Open a name. If the PFS does not have it, make it as a deferred name; `out` is where it is. */
int tb_waiting_open(tb_engine *e, const char *path, int flags, mode_t mode, char *out);
/* The program's name of a place in HIDDEN.  -ENOENT: it is none; -ESTALE: its directory is not where it was. */
int tb_waiting_shown(const tb_engine *e, const char *place, char *out, size_t size);
/* The rename from a place to its name, never over another file, on file systems without RENAME_NOREPLACE too. */
int tb_waiting_move(struct tb_io *io, const char *place, const char *path);
/*
 * Give their places to deferred names that no record knows (the client that made them was
 * killed); without a region, to all of them. Each is reported. 0, or the first error: the
 * name is taken, or its directory is gone.
 */
int tb_waiting_finish(tb_engine *e, tb_file_reporter *report, void *arg);
int tb_waiting_recover(const struct tb_config *c, const char *host, const char *name, struct tb_io *io, tb_file_reporter *report,
                       void *arg);
/* *out: the deferred names of a directory, "" after the last, allocated; NULL if there is none. */
int tb_waiting_list(tb_engine *e, const char *directory, char **out);
/* rmdir that knows of them. */
int tb_waiting_remove_directory(tb_engine *e, struct tb_io *io, const char *path);
/*
 * Before a rename: directories below `from` will be called `to`, and those below `to` `from`
 * if it is an exchange. On failure, or if killed, they are called as before.
 */
int tb_waiting_rename(tb_engine *e, const char *from, const char *to, bool exchanged);
/* After a rename that failed or was killed: what directories below either name are called now, as the PFS shows. */
int tb_waiting_settle(tb_engine *e, const char *from, const char *to);

#endif
