/*
 * Copies between a program's memory and the region: the processor's string move where it
 * is fast, else memcpy, and atomic copies for the thread sanitizer (base/copy.h). The
 * program's memory may fault: what a call was given is the program's own affair.
 */
#include "base/copy.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define STRING_MOVE_FROM 512u
#define STRING_MOVE_UP_TO 65536u /* libc knows best how to move more */

#ifdef __SANITIZE_THREAD__

/* Whole words where the region's side is aligned: byte by byte, the sanitizer would take minutes for a large copy. */
static bool is_word(const void *at, size_t left)
{
    return (uintptr_t)at % sizeof(uint64_t) == 0 && left >= sizeof(uint64_t);
}

void tb_copy_in(void *to, const void *from, size_t n)
{
    uint8_t *at = to;
    const uint8_t *bytes = from;
    for (size_t i = 0, step; i < n; i += step) {
        uint64_t word;
        step = is_word(at + i, n - i) ? sizeof(word) : 1;
        if (step == 1) {
            __atomic_store_n(at + i, bytes[i], __ATOMIC_RELAXED);
            continue;
        }
        memcpy(&word, bytes + i, sizeof(word));
        __atomic_store_n((uint64_t *)(void *)(at + i), word, __ATOMIC_RELAXED);
    }
}

void tb_copy_out(void *to, const void *from, size_t n)
{
    const uint8_t *at = from;
    uint8_t *bytes = to;
    for (size_t i = 0, step; i < n; i += step) {
        step = is_word(at + i, n - i) ? sizeof(uint64_t) : 1;
        uint64_t word = step == 1 ? __atomic_load_n(at + i, __ATOMIC_RELAXED)
                                  : __atomic_load_n((const uint64_t *)(const void *)(at + i), __ATOMIC_RELAXED);
        memcpy(bytes + i, &word, step);
    }
}

#else

#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__)

#include <cpuid.h>

static bool has_fast_string_move; /* read-only after start */

/* Asked once at start: the instruction itself costs as much as a copy. */
static __attribute__((constructor)) void ask_processor(void)
{
    unsigned a, b, c, d;
    has_fast_string_move = __get_cpuid_count(7, 0, &a, &b, &c, &d) && b >> 9 & 1; /* ERMS */
}

static inline void copy(void *to, const void *from, size_t n)
{
    if (n >= STRING_MOVE_FROM && n <= STRING_MOVE_UP_TO && has_fast_string_move)
        __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(n) : : "memory");
    else
        memcpy(to, from, n);
}

#else

static inline void copy(void *to, const void *from, size_t n)
{
    memcpy(to, from, n);
}

#endif

void tb_copy_in(void *to, const void *from, size_t n)
{
    copy(to, from, n);
}

void tb_copy_out(void *to, const void *from, size_t n)
{
    copy(to, from, n);
}

#endif
