/*
 * Mappings, by names that no other library can put itself in front of. UCX and Open MPI watch memory by hooks in place of mmap and its kin,
 * and reach the kernel by `syscall`: through the public name that would lead back to the hook.
 */
#ifndef TB_PRELOAD_MMAP_H
#define TB_PRELOAD_MMAP_H

#include <stddef.h>
#include <sys/types.h>

void *tb_mmap(void *address, size_t n, int protection, int flags, int fd, off_t offset);
int tb_munmap(void *address, size_t n);
/* `wanted` counts with MREMAP_FIXED alone. */
void *tb_mremap(void *old, size_t old_size, size_t size, int flags, void *wanted);

#endif
