#ifndef TB_PRELOAD_BASE_H
#define TB_PRELOAD_BASE_H

#include <tierbench/io.h>

/* The base layer of every chain: libc past the wrappers. */
struct tb_io *tb_base(void);
/* Where an instance's scratch files are; "": nowhere. Once, when this process is attached. */
void tb_base_know_shadow(const char *path);

#endif
