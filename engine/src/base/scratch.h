/*
 * Memory of a thread's own for copies that are too large for a stack, kept from call to call.
 */
#ifndef TB_BASE_SCRATCH_H
#define TB_BASE_SCRATCH_H

#include <stddef.h>

/* This thread's own memory of at least `size` bytes, kept for the next call; NULL: none. */
char *tb_scratch_bytes(size_t size);

#endif
