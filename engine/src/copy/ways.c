/*
 * The ways to copy: libc's memcpy, loops of vectors, and the processor's string move. Where the
 * processor or a sanitizer does not allow one, its row stays, and is not here.
 */
#include "copy/ways.h"

#include <string.h>

static bool always(void)
{
    return true;
}

static void by_memcpy(void *to, const void *from, size_t n)
{
    memcpy(to, from, n);
}

/*
 * Whole vectors; the last one ends where the bytes end, and so may copy some of them once more.
 * What the loop says of memory keeps the compiler from making a call of memcpy of it, and
 * costs no instruction.
 */
#define LOOP_OF(width)                                                              \
    typedef char vector __attribute__((vector_size(width), aligned(1), may_alias)); \
    if (n < (width)) {                                                              \
        memcpy(to, from, n);                                                        \
        return;                                                                     \
    }                                                                               \
    for (size_t i = 0; i < n - (width); i += (width)) {                             \
        *(vector *)((char *)to + i) = *(const vector *)((const char *)from + i);    \
        __asm__ volatile("" : : : "memory");                                        \
    }                                                                               \
    *(vector *)((char *)to + n - (width)) = *(const vector *)((const char *)from + n - (width));

static void by_16(void *to, const void *from, size_t n)
{
    LOOP_OF(16)
}

#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

#include <cpuid.h>

/* Asked of the processor at each start: a binary that was built on one node may run on another. */
static bool has_32(void)
{
    return __builtin_cpu_supports("avx2");
}

static __attribute__((target("avx2"))) void by_32(void *to, const void *from, size_t n)
{
    LOOP_OF(32)
}

static bool has_64(void)
{
    return __builtin_cpu_supports("avx512f");
}

static __attribute__((target("avx512f"))) void by_64(void *to, const void *from, size_t n)
{
    LOOP_OF(64)
}

static bool has_string_move(void)
{
    unsigned a, b, c, d;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && b >> 9 & 1; /* ERMS */
}

/* The direction flag is clear at a call, as the ABI says, so the bytes go upwards. */
static void by_string_move(void *to, const void *from, size_t n)
{
    __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(n) : : "memory");
}

#else

static bool never(void)
{
    return false;
}

#define has_32 never
#define has_64 never
#define has_string_move never
#define by_32 NULL
#define by_64 NULL
#define by_string_move NULL

#endif

const struct tb_copy_way tb_copy_ways[TB_COPY_WAYS] = {
    [TB_COPY_LIBC] = {"memcpy", always, by_memcpy},   {"vectors of 16 bytes", always, by_16},
    {"vectors of 32 bytes", has_32, by_32},           {"vectors of 64 bytes", has_64, by_64},
    {"string move", has_string_move, by_string_move},
};
