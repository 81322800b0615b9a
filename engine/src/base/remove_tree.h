/*
 * Remove a directory of this user with all that is in it; `last` (NULL: none) and the
 * directory itself go at the end. Does nothing if it is not there. Works by descriptors,
 * so that no other user can lead it elsewhere, enters no other file system and follows no
 * link.
 */
#ifndef TB_REMOVE_TREE_H
#define TB_REMOVE_TREE_H

int tb_remove_tree(const char *path, const char *last);

#endif
