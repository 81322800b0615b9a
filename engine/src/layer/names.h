/*
 * The engine's operations on names.  Each translates its path once, acts on the
 * backing file first, and then keeps the file records true.
 */
#ifndef TB_LAYER_NAMES_H
#define TB_LAYER_NAMES_H

#include "io/identity.h"
#include "layer/data.h"
#include "namespace/resolve.h"

/* A shared file may have been renamed by another node: `path` leads to it now. */
void tb_layer_take_name(tb_engine *e, uint32_t file, const char *path);
/* *file: the record of the file that is at this place now, or TB_NONE.  -ENOENT: it waited, and was given its name since. */
int tb_layer_record(tb_engine *e, const struct tb_place *p, struct tb_identity *id, uint32_t *file);
int tb_layer_stat(struct tb_io *io, const char *path, struct stat *st, int flags);
int tb_layer_unlink(struct tb_io *io, const char *path, int flags);
int tb_layer_rename(struct tb_io *io, const char *from, const char *to, unsigned flags);
int tb_layer_link(struct tb_io *io, const char *from, const char *to);

#endif
