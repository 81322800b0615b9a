/*
 * Names of files: a tree of the directories above them, shared by all files of a
 * directory, and the last part of the path in the file record.
 *
 * A node holds one part of a path, or 50 bytes of a longer one that goes on in the node
 * below it. So a path costs only its length, and renaming a directory changes one node. If
 * a name does not fit the file record, its first pieces are in the tree, too.
 */
#ifndef TB_NAMES_H
#define TB_NAMES_H

#include "region/handle.h"

/* -ENAMETOOLONG, or -ENFILE where the table is full: the file then passes through. */
int tb_names_set(tb_engine *e, struct tb_file *f, const char *path);
void tb_names_clear(tb_engine *e, struct tb_file *f);
/* A client keeps the directory of its last new name in use: it ends, or was killed. */
void tb_names_forget_client(tb_engine *e, uint32_t slot);
/* A record gets the name of another, which has none after that: cannot fail. The file is locked. */
void tb_names_take(tb_engine *e, struct tb_file *f, struct tb_file *from);
/* The equations of struct tb_names (region/region.h), at rest: the whole tree is walked. */
bool tb_names_are_whole(const tb_engine *e);
/* The absolute path; returns its length. */
size_t tb_names_path(tb_engine *e, const struct tb_file *f, char *out, size_t size);
/* For callers that only look: false if the names are locked for longer than a second. */
bool tb_names_path_soon(tb_engine *e, const struct tb_file *f, char *out, size_t size);
/* A directory is about to be renamed; one at a time. */
void tb_names_claim(tb_engine *e);
void tb_names_unclaim(tb_engine *e);
/* True where a name that was missed after `n_renames` may only be on its way: look again.  Waits for a living renamer. */
bool tb_names_moved(tb_engine *e, uint32_t n_renames);
/* After a directory was renamed: every name below `from` is now below `to`. -ENFILE: the table is full. */
int tb_names_rename_directory(tb_engine *e, const char *from, const char *to);

#endif
