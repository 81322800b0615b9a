/*
 * All files below a folder, as they are now. What cannot be read is told: a file that a walk left out without a word would be
 * taken for one that is not there.
 *
 * A folder is read while nothing below it is, so one is open at a time however deep they are. Links are not followed. Another file
 * system that is mounted in the folder is told, and not walked.
 */
#ifndef TB_STAGE_WALK_H
#define TB_STAGE_WALK_H

#include <stdbool.h>
#include <sys/stat.h>

struct tb_walk {
    void (*file)(void *arg, const char *path, const struct stat *st);   /* a regular file or a symbolic link; NULL: is not asked for */
    void (*folder)(void *arg, const char *path, const struct stat *st); /* before what is in it; NULL: is not asked for */
    void (*unread)(void *arg, const char *path, const char *why);       /* a folder; NULL: is not asked for */
    void *arg;
};

/* From a folder or a file. 0, -ENOENT where it is not there, or -errno. What vanishes below it is no error. */
int tb_walk(const struct tb_walk *walk, const char *from);

/* Names that movers give to files which are not whole yet, and their own files. */
bool tb_is_movers_own(const char *path);

#endif
