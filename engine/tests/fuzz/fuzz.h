/* What the fuzz targets share: the input as a file that is read by its path, and checks. */
#ifndef TB_FUZZ_H
#define TB_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#define FUZZ_PATH 64

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What must hold.  A function of its own, so that the report names the line. */
__attribute__((noinline, unused)) static void fuzz_check(bool holds)
{
    if (!holds)
        __builtin_trap();
}

/* A descriptor of a file in memory, and a path to it; close it. */
static inline int fuzz_file(const uint8_t *data, size_t size, char path[FUZZ_PATH])
{
    int fd = memfd_create("input", MFD_CLOEXEC);
    if (fd < 0 || write(fd, data, size) != (ssize_t)size)
        __builtin_trap();
    snprintf(path, FUZZ_PATH, "/proc/self/fd/%d", fd);
    return fd;
}

#endif
