/*
 * Copies between a program's memory and the region.
 *
 * libc's memcpy moves less than about 8 KiB with vector loads, which stall when
 * source and destination are aligned differently or the pages are not in the
 * TLB, as random small blocks of a large region never are.  The processor's own
 * string move (where it says that it is fast) took a third less time for 4 KiB.
 */
#ifndef TB_COPY_H
#define TB_COPY_H

#include <stddef.h>

/*
 * As memcpy: into the region, and out of it. A reader without a lock (buffer/peek.c) may
 * copy bytes while they change, and throws them away then. For the thread sanitizer the
 * region's side is copied by atomic loads and stores, which may meet.
 */
void tb_copy_in(void *to, const void *from, size_t n);
void tb_copy_out(void *to, const void *from, size_t n);

#endif
