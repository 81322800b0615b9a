/* What the fuzz targets share: the input as a file that is read by its path, and checks. */
#ifndef TB_FUZZ_H
#define TB_FUZZ_H

#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What must hold.  A function of its own, so that the report names the line. */
__attribute__((noinline, unused)) static void fuzz_check(bool holds)
{
    if (!holds)
        __builtin_trap();
}

static char fuzz_folder[64], fuzz_input[sizeof(fuzz_folder) + 8];

static inline void fuzz_forget(void)
{
    unlink(fuzz_input);
    rmdir(fuzz_folder);
}

/*
 * The input as a file, by its path. It has a name of its own in a private folder, because the
 * readers ask for the folder of a file and refuse one without a name.
 */
static inline const char *fuzz_file(const uint8_t *data, size_t size)
{
    static int fd = -1;
    if (fd < 0) {
        snprintf(fuzz_folder, sizeof(fuzz_folder), "/dev/shm/tb-fuzz-input-%d", (int)getpid());
        snprintf(fuzz_input, sizeof(fuzz_input), "%s/input", fuzz_folder);
        fuzz_check(mkdir(fuzz_folder, 0700) == 0);
        fd = open(fuzz_input, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        atexit(fuzz_forget);
    }
    fuzz_check(fd >= 0 && ftruncate(fd, 0) == 0 && pwrite(fd, data, size, 0) == (ssize_t)size);
    return fuzz_input;
}

#endif
