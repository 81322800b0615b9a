/*
 * Copies between a program's memory and the region for the thread sanitizer: atomic ones. All other builds have them inline
 * (copy/copy.h). The program's memory may fault: what a call was given is the program's own affair.
 */
#include "copy/copy.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#ifdef __SANITIZE_THREAD__

/* Whole words where the region's side is aligned: byte by byte, the sanitizer would take minutes for a large copy. */
static bool is_word(const void *at, size_t left)
{
    return (uintptr_t)at % sizeof(uint64_t) == 0 && left >= sizeof(uint64_t);
}

void tb_copy_in(const struct tb_copier *by, void *to, const void *from, size_t n)
{
    (void)by;
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

void tb_copy_out(const struct tb_copier *by, void *to, const void *from, size_t n)
{
    (void)by;
    const uint8_t *at = from;
    uint8_t *bytes = to;
    for (size_t i = 0, step; i < n; i += step) {
        step = is_word(at + i, n - i) ? sizeof(uint64_t) : 1;
        uint64_t word = step == 1 ? __atomic_load_n(at + i, __ATOMIC_RELAXED)
                                  : __atomic_load_n((const uint64_t *)(const void *)(at + i), __ATOMIC_RELAXED);
        memcpy(bytes + i, &word, step);
    }
}

#endif
