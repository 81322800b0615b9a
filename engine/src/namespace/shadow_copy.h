/* Stubs, which show the PFS in a shadow, and how they are made real. */
#ifndef TB_SHADOW_COPY_H
#define TB_SHADOW_COPY_H

#include "namespace/shadow.h"

/* Of a symlink's text: TB_SHADOW_STUB_FILE, TB_SHADOW_STUB_DIRECTORY, or TB_SHADOW_LINK where it is no stub. */
enum tb_shadow_kind tb_stub_kind(const char *text);
/* What a stub shows, by its text. */
void tb_stub_lower(const char *text, char *out, size_t size);

/* The stub at `path` with text `text` becomes a directory of stubs. 0 also if another process was faster. */
int tb_shadow_make_directory(tb_engine *e, const char *path, const char *text);
/* The stub at `path` becomes a copy of the PFS's file `lower`, for a use from TB_NAME_CHANGE on. */
int tb_shadow_copy_file(tb_engine *e, const char *path, const char *lower, unsigned use);

/* The name of a place in the shadow, or of what a stub's target leads to, as programs know it; false where it is neither. */
bool tb_shadow_shown(const tb_engine *e, const char *path, char *out, size_t size);
/* The text that a program's symlink gets in the shadow, so that the kernel's walk ends where the program's would. */
void tb_shadow_link_text(const tb_engine *e, const char *text, char *out, size_t size);
/* Make the shadow of every scratch prefix: the directory, and a stub for each entry of the PFS's. */
int tb_shadow_create(tb_engine *e);

#endif
