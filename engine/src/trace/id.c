/*
 * Ids of names.  Bob Jenkins' public-domain hash of 1997 ("lookup8"), as Darshan
 * uses it: other tools compare and merge logs by these ids.
 */
#include "trace/id.h"

#include <string.h>

#include "trace/format.h"

/* The twelve steps of lookup8, which differ in the shifts alone; every third shifts to the left. */
static void mix(uint64_t *a, uint64_t *b, uint64_t *c)
{
    static const unsigned char shift[12] = {43, 9, 8, 38, 23, 5, 35, 49, 11, 12, 18, 22};
    uint64_t *turn[5] = {a, b, c, a, b};
    for (int i = 0; i < 12; i++) {
        uint64_t *x = turn[i % 3], by = *turn[i % 3 + 2];
        *x -= *turn[i % 3 + 1];
        *x -= by;
        *x ^= i % 3 == 1 ? by << shift[i] : by >> shift[i];
    }
}

/* Up to 8 bytes, the first one lowest. */
static uint64_t number_of(const unsigned char *p, size_t n)
{
    uint64_t v = 0;
    for (size_t i = 0; i < n; i++)
        v |= (uint64_t)p[i] << 8 * i;
    return v;
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* The same for every process and machine, because logs are merged by it. */
uint64_t tb_trace_id(const char *name)
{
    size_t length = strlen(name), left = length;
    const unsigned char *p = (const unsigned char *)name;
    uint64_t a = 0, b = 0, c = 0x9e3779b97f4a7c13ull;
    for (; left >= 24; left -= 24, p += 24) {
        a += number_of(p, 8);
        b += number_of(p + 8, 8);
        c += number_of(p + 16, 8);
        mix(&a, &b, &c);
    }
    c += length; /* in its lowest byte; what is left of the name goes above it */
    a += number_of(p, least(left, 8));
    if (left > 8)
        b += number_of(p + 8, least(left - 8, 8));
    if (left > 16)
        c += number_of(p + 16, left - 16) << 8;
    mix(&a, &b, &c);
    return c;
}
