#ifndef TB_REGION_MIX_H
#define TB_REGION_MIX_H

#include <stdint.h>

/* splitmix64: a number from a number, in which every bit depends on every bit. For tables of the region and for choices, for no file. */
static inline uint64_t tb_mix64(uint64_t x)
{
    x += 0x9e3779b97f4a7c15ull;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ x >> 27) * 0x94d049bb133111ebull;
    return x ^ x >> 31;
}

#endif
