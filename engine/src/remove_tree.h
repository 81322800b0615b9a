/* Remove a directory that an instance owns, with all that is in it; nothing where it is not there. */
#ifndef TB_REMOVE_TREE_H
#define TB_REMOVE_TREE_H

int tb_remove_tree(const char *path);

#endif
