/*
 * Copies between a program's memory and the region.
 *
 * Which way is the fastest depends on the processor, on the direction, on the length and on how the two sides are aligned,
 * and no flag says so: copy/choice.h measures it when an instance is made.
 */
#ifndef TB_COPY_H
#define TB_COPY_H

#include <stddef.h>
#include <string.h>

#include "copy/ways.h"

/* Below it libc's memcpy: the string move takes a while to begin. */
#define TB_COPY_LEAST 512u
/* From it on a copy is long: another way may be the fastest for it. */
#define TB_COPY_LONG (32u << 10)
/* Of a short copy into the region so many bytes are asked for ahead. */
#define TB_COPY_AHEAD 1024u
#define TB_CACHE_LINE_BYTES 64u

/* How a process copies into the region and out of it: [0] short ones, [1] long ones. */
struct tb_copier {
    tb_copy_bytes *in[2], *out[2];
    bool ahead; /* tb_copy_ask_ahead helps on this processor */
};

/* The processor begins to fetch the first of these bytes. Nothing is read by this, so the address may be any. */
static inline void tb_copy_ask_ahead(const void *bytes, size_t n)
{
    for (size_t i = 0; i < n && i < TB_COPY_AHEAD; i += TB_CACHE_LINE_BYTES)
        __builtin_prefetch((const char *)bytes + i, 1);
}

/*
 * `n` bytes will be copied to `to`, after a locked instruction: that waits for all stores before it, and this does not. So the
 * page is looked up and the first lines come meanwhile.
 */
static inline void tb_copy_will_come(const struct tb_copier *by, const void *to, size_t n)
{
    if (by->ahead && n >= TB_COPY_LEAST && n < TB_COPY_LONG)
        tb_copy_ask_ahead(to, n);
}

/*
 * As memcpy: into the region, and out of it, in the way that the instance chose. A reader without a lock (buffer/in_place.c) may
 * copy bytes while they change, and throws them away then. For the thread sanitizer the region's side is copied by atomic loads
 * and stores, which may meet.
 */
#ifdef __SANITIZE_THREAD__
void tb_copy_in(const struct tb_copier *by, void *to, const void *from, size_t n);
void tb_copy_out(const struct tb_copier *by, void *to, const void *from, size_t n);
#else
static inline void tb_copy_in(const struct tb_copier *by, void *to, const void *from, size_t n)
{
    if (n < TB_COPY_LEAST)
        memcpy(to, from, n);
    else
        by->in[n >= TB_COPY_LONG](to, from, n);
}

static inline void tb_copy_out(const struct tb_copier *by, void *to, const void *from, size_t n)
{
    if (n < TB_COPY_LEAST)
        memcpy(to, from, n);
    else
        by->out[n >= TB_COPY_LONG](to, from, n);
}
#endif

#endif
