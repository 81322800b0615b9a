/*
 * Remove a directory of this user's with all that is in it, `last` (NULL: none) and
 * then itself at the end; nothing where it is not there.  Goes by descriptors, so
 * that nobody can turn it elsewhere, enters no other file system and follows no link.
 */
#ifndef TB_REMOVE_TREE_H
#define TB_REMOVE_TREE_H

int tb_remove_tree(const char *path, const char *last);

#endif
