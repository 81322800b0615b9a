/*
 * One transfer on a descriptor: lseek and read or write, the calls that IOR and mdtest make, between two more with range
 * locks. A partial transfer is continued unless -x forbids it; what fails ends all ranks.
 */
#include "driver.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

static void go_to(const struct tb_posix_file *f, int64_t offset)
{
    if (lseek(f->fd, offset, SEEK_SET) < 0)
        tb_fail(f->path, "lseek", offset, strerror(errno));
}

/* Waits for the range as long as it takes; the wait is part of the transfer's time. */
static void lock(const struct tb_posix_file *f, short kind, size_t bytes, int64_t offset)
{
    struct flock range = {.l_type = kind, .l_whence = SEEK_SET, .l_start = offset, .l_len = (off_t)bytes};
    if (f->range_locks && fcntl(f->fd, kind == F_UNLCK ? F_SETLK : F_SETLKW, &range))
        tb_fail(f->path, kind == F_UNLCK ? "unlock" : "lock", offset, strerror(errno));
}

/* EINVAL alone would not tell the user that -B is the cause. */
static const char *reason(const struct tb_posix_file *f)
{
    if (errno == EINVAL && f->direct)
        return "Invalid argument (O_DIRECT takes only multiples of a block here)";
    return strerror(errno);
}

/* Returns whether another attempt is due. */
static bool advance(const struct tb_posix_file *f, const char *what, ssize_t n, size_t *done, size_t bytes, int64_t offset)
{
    if (n < 0 && errno == EINTR)
        return true;
    if (n < 0)
        tb_fail(f->path, what, offset + (int64_t)*done, reason(f));
    *done += (size_t)n;
    if (n == 0 && bytes)
        tb_fail(f->path, what, offset + (int64_t)*done, "nothing more was transferred (end of file)");
    if (*done < bytes && f->single_attempt)
        tb_fail(f->path, what, offset, "partial transfer, and -x forbids to continue it");
    return *done < bytes;
}

/* The lock covers this transfer alone, also where it takes several calls. */
void tb_posix_write(const struct tb_posix_file *f, const void *data, size_t bytes, int64_t offset)
{
    size_t done = 0;
    ssize_t n;
    go_to(f, offset);
    lock(f, F_WRLCK, bytes, offset);
    do
        n = write(f->fd, (const char *)data + done, bytes - done);
    while (advance(f, "write", n, &done, bytes, offset));
    lock(f, F_UNLCK, bytes, offset);
}

void tb_posix_read(const struct tb_posix_file *f, void *data, size_t bytes, int64_t offset)
{
    size_t done = 0;
    ssize_t n;
    go_to(f, offset);
    lock(f, F_RDLCK, bytes, offset);
    do
        n = read(f->fd, (char *)data + done, bytes - done);
    while (advance(f, "read", n, &done, bytes, offset));
    lock(f, F_UNLCK, bytes, offset);
}
