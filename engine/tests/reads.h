/* For tests of reading: files that only the PFS has, and reads with a check of every byte. */
#ifndef TB_TEST_READS_H
#define TB_TEST_READS_H

#include "fixture.h"

#define BYTES (512u << 10)

static inline unsigned char pattern(size_t at, unsigned seed)
{
    return (unsigned char)(at * 31 + (at >> 9) + seed * 7919);
}

/* A file that only the PFS has. */
static inline void make_file(struct fixture *x, const char *name, size_t n, unsigned seed)
{
    unsigned char *bytes = malloc(n);
    for (size_t i = 0; i < n; i++)
        bytes[i] = pattern(i, seed);
    int fd = open(fixture_path(x, name), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_int_equal(write(fd, bytes, n), n);
    close(fd);
    free(bytes);
}

static inline int open_file(struct fixture *x, const char *name)
{
    int fd = TB_IO(x->io, open, fixture_path(x, name), O_RDWR, 0600);
    assert_true(fd >= 0);
    return fd;
}

static inline void read_range(struct fixture *x, int fd, size_t offset, size_t n, unsigned seed)
{
    static _Thread_local unsigned char bytes[1 << 20];
    assert_int_equal(TB_IO(x->io, pread, fd, bytes, n, (off_t)offset), (ssize_t)n);
    for (size_t i = 0; i < n; i++)
        if (bytes[i] != pattern(offset + i, seed))
            fail_msg("byte %zu is %u, expected %u", offset + i, bytes[i], pattern(offset + i, seed));
}

/* One pass over the file in transfers of `n` bytes; returns what was read from the PFS. */
static inline uint64_t read_pass(struct fixture *x, int fd, size_t size, size_t n, unsigned seed)
{
    uint64_t before = x->engine->header->totals.pfs_read;
    for (size_t at = 0; at < size; at += n)
        read_range(x, fd, at, size - at < n ? size - at : n, seed);
    return x->engine->header->totals.pfs_read - before;
}

#endif
