/*
 * The ways to copy bytes that an instance chooses from (copy/choice.h): one row each, whole
 * copies of any length.
 */
#ifndef TB_COPY_WAYS_H
#define TB_COPY_WAYS_H

#include <stdbool.h>
#include <stddef.h>

/* As memcpy, of any `n`; the two sides do not overlap. */
typedef void tb_copy_bytes(void *to, const void *from, size_t n);

struct tb_copy_way {
    const char *name;
    bool (*is_here)(void); /* whether this process may use it: the processor, and how the engine was compiled */
    tb_copy_bytes *copy;
};

/* The same in every build, since the region refers to them by index. The first is libc's, which is always here. */
#define TB_COPY_WAYS 5u
#define TB_COPY_LIBC 0u
extern const struct tb_copy_way tb_copy_ways[TB_COPY_WAYS];

#endif
