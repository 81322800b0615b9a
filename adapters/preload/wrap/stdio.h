#ifndef TB_PRELOAD_STDIO_H
#define TB_PRELOAD_STDIO_H

#include <stdio.h>

/* Before wide characters go through a stream: one that is ours becomes libc's own, since a cookie has none of them. */
void tb_stream_widen(FILE *file);

#endif
