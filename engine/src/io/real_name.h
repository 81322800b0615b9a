/*
 * A file's own name, where it was reached through symbolic links below its prefix. A link may go, or lead elsewhere later; then a flush by
 * the name with the link would find no file, or another one. So the engine remembers the file's own name.
 */
#ifndef TB_REAL_NAME_H
#define TB_REAL_NAME_H

#include "io/identity.h"

/*
 * `path` (TB_PATH_MAX) was opened as `fd` and may go through links: it becomes the name that the kernel has for that file. It stays as it is
 * where that is not the file's name any more, or not below `prefix`. `base`: past the chain of the place, for a model would charge this.
 */
void tb_real_name_of_file(struct tb_io *base, const char *prefix, int fd, const struct tb_identity *id, char *path);
/* The same for a name that is about to be given or taken: its directory, below `prefix`, goes through no links afterwards. */
void tb_real_name_of_place(struct tb_io *io, const char *prefix, char *path);

#endif
