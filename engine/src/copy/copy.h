/*
 * Copies between a program's memory and the region.
 *
 * Which way is the fastest depends on the processor and on how the two sides are aligned,
 * and no flag says so: copy/choice.h measures it when an instance is made.
 */
#ifndef TB_COPY_H
#define TB_COPY_H

#include <stddef.h>
#include <string.h>

#include "copy/ways.h"

/*
 * As memcpy: into the region, and out of it, in the way that the instance chose; short ones by
 * libc's memcpy. A reader without a lock (buffer/in_place.c) may copy bytes while they change, and
 * throws them away then. For the thread sanitizer the region's side is copied by atomic loads
 * and stores, which may meet.
 */
#ifdef __SANITIZE_THREAD__
void tb_copy_in(tb_copy_bytes *by, void *to, const void *from, size_t n);
void tb_copy_out(tb_copy_bytes *by, void *to, const void *from, size_t n);
#else
#define TB_COPY_SHORT 512u /* below it memcpy: the string move takes a while to begin */

static inline void tb_copy_in(tb_copy_bytes *by, void *to, const void *from, size_t n)
{
    if (n < TB_COPY_SHORT)
        memcpy(to, from, n);
    else
        by(to, from, n);
}

static inline void tb_copy_out(tb_copy_bytes *by, void *to, const void *from, size_t n)
{
    tb_copy_in(by, to, from, n);
}
#endif

#endif
