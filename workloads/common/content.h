/*
 * The bytes of files that hold no particles: word i of a rank's file is a number made of the rank and i, so that
 * every word of every file is another one and a check needs no copy.
 */
#ifndef TB_CONTENT_H
#define TB_CONTENT_H

#include "driver.h"

static inline uint64_t tb_content_word(int rank, int64_t word)
{
    return tb_scramble(((uint64_t)rank << 40) + (uint64_t)word + 1);
}

/* `bytes` and `offset` are whole words. */
static inline void tb_content_fill(uint64_t *data, size_t bytes, int rank, int64_t offset)
{
    for (size_t i = 0; i < bytes / 8; i++)
        data[i] = tb_content_word(rank, offset / 8 + (int64_t)i);
}

static inline bool tb_content_is_right(const uint64_t *data, size_t bytes, int rank, int64_t offset)
{
    for (size_t i = 0; i < bytes / 8; i++)
        if (data[i] != tb_content_word(rank, offset / 8 + (int64_t)i))
            return false;
    return true;
}

#endif
