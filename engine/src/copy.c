#include "copy.h"

#include <stdbool.h>
#include <string.h>

#define STRING_MOVE_FROM 512u
#define STRING_MOVE_UP_TO 65536u /* libc knows best how to move more */

#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

#include <cpuid.h>

static bool has_fast_string_move; /* read-only after start */

static __attribute__((constructor)) void ask_processor(void)
{
    unsigned a, b, c, d;
    has_fast_string_move = __get_cpuid_count(7, 0, &a, &b, &c, &d) && b >> 9 & 1; /* ERMS */
}

void tb_copy(void *to, const void *from, size_t n)
{
    if (n >= STRING_MOVE_FROM && n <= STRING_MOVE_UP_TO && has_fast_string_move)
        __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(n) : : "memory");
    else
        memcpy(to, from, n);
}

#else

void tb_copy(void *to, const void *from, size_t n)
{
    memcpy(to, from, n);
}

#endif
