/*
 * Locks.  They are the kernel's, on the backing file; here its marks are made (core/record_locks.h), and a range that counts
 * from the offset or from the end is said from the start: the kernel knows neither of a buffered file.
 */
#include "wrap/locks.h"

#include <fcntl.h>
#include <unistd.h>

#include "core/adapter.h"
#include "core/record_locks.h"

bool tb_is_lock_command(int command)
{
    return command == F_SETLK || command == F_SETLKW || command == F_GETLK || command == F_OFD_SETLK || command == F_OFD_SETLKW ||
           command == F_OFD_GETLK;
}

/* Some pointers can't be to a lock, and are the kernel's to refuse. */
static bool is_readable(const struct flock *range)
{
    return (intptr_t)range >= 4096;
}

/* What `whence` counts from; -1: it can't be said. */
static off_t origin(struct tb_io *io, int fd, int whence)
{
    struct stat st;
    if (whence == SEEK_CUR)
        return (off_t)TB_CALL(io, lseek, fd, 0, SEEK_CUR);
    return TB_CALL(io, fstat, fd, &st) ? -1 : st.st_size;
}

/* From the start of the file; false: as it was. */
static bool count_from_start(int fd, struct flock *range)
{
    struct tb_io *io = tb_fd_io(fd);
    int saved = errno;
    if (!io || tb_inside || (range->l_whence != SEEK_CUR && range->l_whence != SEEK_END))
        return false;
    off_t from = origin(io, fd, range->l_whence), start;
    errno = saved;
    if (from < 0 || __builtin_add_overflow(from, range->l_start, &start) || start < 0)
        return false;
    range->l_start = start;
    range->l_whence = SEEK_SET;
    return true;
}

/* The mark comes before the lock: between the two an engine's close would take the lock away. An OFD lock stays. */
static int ask_kernel(int fd, int command, struct flock *range)
{
    bool of_process = command == F_SETLK || command == F_SETLKW, of_open = command == F_OFD_SETLK || command == F_OFD_SETLKW;
    bool takes = (of_process || of_open) && range->l_type != F_UNLCK;
    if (takes && !tb_inside && tb_fd_before_lock(fd))
        return -1;
    struct tb_lock_mark *mark = takes && of_process ? tb_lock_asks(fd) : NULL;
    int rc = REAL(fcntl)(fd, command, range);
    tb_lock_asked(mark);
    return rc;
}

/* The caller's range stays as it is, except for what the kernel writes into it. */
int tb_fcntl_lock(int fd, int command, struct flock *range)
{
    bool asks = command == F_GETLK || command == F_OFD_GETLK;
    if (!is_readable(range))
        return REAL(fcntl)(fd, command, range);
    struct flock counted = *range;
    if (!count_from_start(fd, &counted))
        return ask_kernel(fd, command, range);
    int rc = ask_kernel(fd, command, &counted);
    if (rc == 0 && asks && counted.l_type == F_UNLCK)
        range->l_type = F_UNLCK; /* the kernel leaves the rest as it is */
    else if (rc == 0 && asks)
        *range = counted;
    return rc;
}

/* libc's own asks the kernel past every wrapper. */
TB_WRAPPER int lockf(int fd, int command, off_t n)
{
    short type = command == F_ULOCK ? F_UNLCK : command == F_TEST ? F_RDLCK : F_WRLCK;
    struct flock range = {.l_type = type, .l_whence = SEEK_CUR, .l_len = n};
    if (command != F_LOCK && command != F_TLOCK && command != F_ULOCK && command != F_TEST)
        return (int)tb_result(-EINVAL);
    if (command != F_TEST)
        return tb_fcntl_lock(fd, command == F_LOCK ? F_SETLKW : F_SETLK, &range);
    if (tb_fcntl_lock(fd, F_GETLK, &range))
        return -1;
    return range.l_type == F_UNLCK || range.l_pid == getpid() ? 0 : (int)tb_result(-EACCES);
}

TB_WRAPPER int lockf64(int fd, int command, off64_t n)
{
    return lockf(fd, command, n);
}
