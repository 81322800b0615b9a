/*
 * Whole transfers: short reads and writes of a chain are continued until all bytes are
 * done, the file ends, or an error comes.
 */
#include "io/whole.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <sys/resource.h>

/* -EIO where nothing is taken without an error: a loop would not end. */
int tb_io_write_all(struct tb_io *io, int fd, const void *from, size_t n, uint64_t offset)
{
    for (size_t done = 0; done < n;) {
        ssize_t w = TB_IO(io, pwrite, fd, (const char *)from + done, n - done, (off_t)(offset + done));
        if (w < 0 && w != -EINTR)
            return (int)w;
        if (w == 0)
            return -EIO;
        assert(w < 0 || (size_t)w <= n - done); /* a layer that says more than it was given breaks offsets above */
        done += w > 0 ? (size_t)w : 0;
    }
    return 0;
}

static _Atomic bool is_limited;

void tb_io_ask_limit(void)
{
    struct rlimit most;
    is_limited = getrlimit(RLIMIT_FSIZE, &most) == 0 && most.rlim_cur != RLIM_INFINITY;
}

/* With a limit it is asked each time, since the program may change it: a system call that others do not pay. */
int tb_io_write_own(struct tb_io *io, int fd, const void *from, size_t n, uint64_t offset)
{
    struct rlimit most;
    if (is_limited && getrlimit(RLIMIT_FSIZE, &most) == 0 && offset + n > most.rlim_cur)
        return -EFBIG;
    return tb_io_write_all(io, fd, from, n, offset);
}

/* The caller fills what is past the end: fewer bytes are no error. */
ssize_t tb_io_read_all(struct tb_io *io, int fd, void *to, size_t n, uint64_t offset)
{
    size_t done = 0;
    while (done < n) {
        ssize_t r = TB_IO(io, pread, fd, (char *)to + done, n - done, (off_t)(offset + done));
        if (r < 0 && r != -EINTR)
            return r;
        if (r == 0)
            break;
        assert(r < 0 || (size_t)r <= n - done);
        done += r > 0 ? (size_t)r : 0;
    }
    return (ssize_t)done;
}
