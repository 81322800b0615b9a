/*
 * The engine's operations on names.  Each translates its path once, acts on the
 * backing file first, and then keeps the file records true.
 */
#ifndef TB_LAYER_NAMES_H
#define TB_LAYER_NAMES_H

#include "layer/data.h"

/* A shared file may have been renamed by another node: `path` leads to it now. */
void tb_layer_take_name(tb_engine *e, uint32_t file, const char *path);
int tb_layer_truncate_path(struct tb_io *io, const char *path, off_t length);
/* What a program sees of a file's size, `backing` being the backing file's: other nodes may have made that longer. */
off_t tb_layer_size(const tb_engine *e, uint32_t file, off_t backing);
int tb_layer_stat(struct tb_io *io, const char *path, struct stat *st, int flags);
int tb_layer_unlink(struct tb_io *io, const char *path, int flags);
int tb_layer_rename(struct tb_io *io, const char *from, const char *to, unsigned flags);
int tb_layer_link(struct tb_io *io, const char *from, const char *to);
int tb_layer_mkdir(struct tb_io *io, const char *path, mode_t mode);

#endif
