/*
 * Bytes of managed descriptors: read, write, seek, sync, cut. A managed descriptor is served
 * by the chain that opened it; any other is libc's. The chain knows one buffer at a time, so
 * vectors are taken apart or put together here.
 *
 * Limit: a vector that is read is several reads, so a writer in between may be seen in one
 * piece and not in another.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "core/adapter.h"

/* Of a managed descriptor, for a call in which a thread that was cancelled ends. */
static inline struct tb_io *io_of(int fd)
{
    struct tb_io *io = tb_fd_io(fd);
    if (io)
        tb_may_end();
    return io;
}

TB_WRAPPER ssize_t read(int fd, void *buf, size_t n)
{
    struct tb_io *io = io_of(fd);
    return io ? TB_CALL(io, read, fd, buf, n) : REAL(read)(fd, buf, n);
}

TB_WRAPPER ssize_t write(int fd, const void *buf, size_t n)
{
    struct tb_io *io = io_of(fd);
    return io ? TB_CALL(io, write, fd, buf, n) : REAL(write)(fd, buf, n);
}

TB_WRAPPER ssize_t pread(int fd, void *buf, size_t n, off_t offset)
{
    struct tb_io *io = io_of(fd);
    return io ? TB_CALL(io, pread, fd, buf, n, offset) : REAL(pread)(fd, buf, n, offset);
}

TB_WRAPPER ssize_t pwrite(int fd, const void *buf, size_t n, off_t offset)
{
    struct tb_io *io = io_of(fd);
    return io ? TB_CALL(io, pwrite, fd, buf, n, offset) : REAL(pwrite)(fd, buf, n, offset);
}

TB_WRAPPER ssize_t pread64(int fd, void *buf, size_t n, off64_t offset)
{
    return pread(fd, buf, n, offset);
}
TB_WRAPPER ssize_t pwrite64(int fd, const void *buf, size_t n, off64_t offset)
{
    return pwrite(fd, buf, n, offset);
}

/* What fortified programs call; the caller's buffer is as large as it says. */
ssize_t __read_chk(int fd, void *buf, size_t n, size_t room);
ssize_t __pread_chk(int fd, void *buf, size_t n, off_t offset, size_t room);
ssize_t __pread64_chk(int fd, void *buf, size_t n, off64_t offset, size_t room);
TB_WRAPPER ssize_t __read_chk(int fd, void *buf, size_t n, size_t room)
{
    return n > room ? (abort(), -1) : read(fd, buf, n);
}
TB_WRAPPER ssize_t __pread_chk(int fd, void *buf, size_t n, off_t offset, size_t room)
{
    return n > room ? (abort(), -1) : pread(fd, buf, n, offset);
}
TB_WRAPPER ssize_t __pread64_chk(int fd, void *buf, size_t n, off64_t offset, size_t room)
{
    return __pread_chk(fd, buf, n, offset, room);
}

#define GATHER_BYTES 65536

/* One piece of a vector; `offset` -1: at the description's own. */
static ssize_t piece(struct tb_io *io, int fd, void *buf, size_t n, off_t offset, bool writing)
{
    if (offset < 0)
        return writing ? TB_CALL(io, write, fd, buf, n) : TB_CALL(io, read, fd, buf, n);
    return writing ? TB_CALL(io, pwrite, fd, buf, n, offset) : TB_CALL(io, pread, fd, buf, n, offset);
}

/*
 * A short transfer ends it, and so does an error after the first byte: the caller gets the
 * count, as from the kernel, and finds the error with its next call.
 */
static ssize_t pieces(struct tb_io *io, int fd, const struct iovec *v, int n, off_t offset, bool writing)
{
    ssize_t done = 0;
    for (int i = 0; i < n; i++) {
        ssize_t r = piece(io, fd, v[i].iov_base, v[i].iov_len, offset < 0 ? -1 : offset + done, writing);
        if (r < 0)
            return done ? done : r;
        done += r;
        if ((size_t)r < v[i].iov_len)
            break;
    }
    return done;
}

/* One write, so that other writers and readers see all of it or nothing. */
static ssize_t in_one_piece(struct tb_io *io, int fd, const struct iovec *v, int n, off_t offset, char *all)
{
    size_t total = 0;
    for (int i = 0; i < n; i++) {
        memcpy(all + total, v[i].iov_base, v[i].iov_len);
        total += v[i].iov_len;
    }
    return piece(io, fd, all, total, offset, true);
}

/* Writers that append records must not mix them, however long they are. A write to another place is spared the copy. */
static ssize_t write_long(struct tb_io *io, int fd, const struct iovec *v, int n, off_t offset, size_t total)
{
    char *all = REAL(fcntl)(fd, F_GETFL) & O_APPEND ? malloc(total) : NULL;
    ssize_t done = all ? in_one_piece(io, fd, v, n, offset, all) : pieces(io, fd, v, n, offset, true);
    free(all);
    return done;
}

/*
 * Small vectors are written in one piece, by a copy on the stack: programs write a header and
 * a record so, and others must not see the one without the other. The sum of the lengths is
 * checked before anything moves, as the kernel does.
 */
static ssize_t vector(struct tb_io *io, int fd, const struct iovec *v, int n, off_t offset, bool writing)
{
    char all[GATHER_BYTES];
    size_t total = 0;
    if (n < 0 || n > IOV_MAX)
        return tb_result(-EINVAL);
    for (int i = 0; i < n; i++) {
        if (v[i].iov_len > SSIZE_MAX - total)
            return tb_result(-EINVAL);
        total += v[i].iov_len;
    }
    if (!writing || n == 1)
        return pieces(io, fd, v, n, offset, writing);
    return total > sizeof(all) ? write_long(io, fd, v, n, offset, total) : in_one_piece(io, fd, v, n, offset, all);
}

/* Below zero is refused here: -1 means "at the own offset" further down. */
static ssize_t vector_at(struct tb_io *io, int fd, const struct iovec *v, int n, off_t offset, bool writing)
{
    return offset < 0 ? tb_result(-EINVAL) : vector(io, fd, v, n, offset, writing);
}

/* The flags of preadv2 and pwritev2: hints are ignored, a sync is made, what else there is is the kernel's to know. */
static ssize_t vector_flags(struct tb_io *io, int fd, const struct iovec *v, int n, off_t offset, int flags, bool writing)
{
    if (flags & ~(RWF_HIPRI | RWF_NOWAIT | RWF_DSYNC | RWF_SYNC))
        return tb_fd_coherent(fd) ? -1 : writing ? REAL(pwritev2)(fd, v, n, offset, flags) : REAL(preadv2)(fd, v, n, offset, flags);
    ssize_t done = offset == -1 ? vector(io, fd, v, n, -1, writing) : vector_at(io, fd, v, n, offset, writing);
    if (done > 0 && writing && flags & (RWF_DSYNC | RWF_SYNC) && TB_CALL(io, fsync, fd, !(flags & RWF_SYNC)) < 0)
        return -1;
    return done;
}

TB_WRAPPER ssize_t readv(int fd, const struct iovec *v, int n)
{
    struct tb_io *io = io_of(fd);
    return io ? vector(io, fd, v, n, -1, false) : REAL(readv)(fd, v, n);
}

TB_WRAPPER ssize_t writev(int fd, const struct iovec *v, int n)
{
    struct tb_io *io = io_of(fd);
    return io ? vector(io, fd, v, n, -1, true) : REAL(writev)(fd, v, n);
}

TB_WRAPPER ssize_t preadv(int fd, const struct iovec *v, int n, off_t offset)
{
    struct tb_io *io = io_of(fd);
    return io ? vector_at(io, fd, v, n, offset, false) : REAL(preadv)(fd, v, n, offset);
}

TB_WRAPPER ssize_t pwritev(int fd, const struct iovec *v, int n, off_t offset)
{
    struct tb_io *io = io_of(fd);
    return io ? vector_at(io, fd, v, n, offset, true) : REAL(pwritev)(fd, v, n, offset);
}

TB_WRAPPER ssize_t preadv64(int fd, const struct iovec *v, int n, off64_t offset)
{
    return preadv(fd, v, n, offset);
}
TB_WRAPPER ssize_t pwritev64(int fd, const struct iovec *v, int n, off64_t offset)
{
    return pwritev(fd, v, n, offset);
}

TB_WRAPPER ssize_t preadv2(int fd, const struct iovec *v, int n, off_t offset, int flags)
{
    struct tb_io *io = io_of(fd);
    return io ? vector_flags(io, fd, v, n, offset, flags, false) : REAL(preadv2)(fd, v, n, offset, flags);
}

TB_WRAPPER ssize_t pwritev2(int fd, const struct iovec *v, int n, off_t offset, int flags)
{
    struct tb_io *io = io_of(fd);
    return io ? vector_flags(io, fd, v, n, offset, flags, true) : REAL(pwritev2)(fd, v, n, offset, flags);
}

TB_WRAPPER ssize_t preadv64v2(int fd, const struct iovec *v, int n, off64_t offset, int flags)
{
    return preadv2(fd, v, n, offset, flags);
}
TB_WRAPPER ssize_t pwritev64v2(int fd, const struct iovec *v, int n, off64_t offset, int flags)
{
    return pwritev2(fd, v, n, offset, flags);
}

TB_WRAPPER off_t lseek(int fd, off_t offset, int whence)
{
    struct tb_io *io = tb_fd_io(fd);
    return io ? TB_CALL(io, lseek, fd, offset, whence) : REAL(lseek)(fd, offset, whence);
}

TB_WRAPPER off64_t lseek64(int fd, off64_t offset, int whence)
{
    return lseek(fd, offset, whence);
}

TB_WRAPPER int fsync(int fd)
{
    struct tb_io *io = io_of(fd);
    return io ? (int)TB_CALL(io, fsync, fd, false) : REAL(fsync)(fd);
}

TB_WRAPPER int fdatasync(int fd)
{
    struct tb_io *io = io_of(fd);
    return io ? (int)TB_CALL(io, fsync, fd, true) : REAL(fdatasync)(fd);
}

/* What is dirty in the whole instance, also of other processes: sync promises no less. */
static int flush_all(void)
{
    tb_engine *e = tb_inside ? NULL : tb_adapter_engine();
    tb_enter();
    int rc = e ? tb_engine_flush(e, -1) : 0;
    tb_leave();
    return rc < 0 ? rc : 0;
}

/* The engine first: the kernel can only write what the PFS was given. */
TB_WRAPPER void sync(void)
{
    flush_all();
    REAL(sync)();
}

/* Flushes all prefixes, no matter which file system was meant: files of one prefix may be on several. */
TB_WRAPPER int syncfs(int fd)
{
    int rc = flush_all(), synced = REAL(syncfs)(fd);
    return rc ? (int)tb_result(rc) : synced;
}

/*
 * A wish to begin the writing needs nothing done: the engine flushes by its own policy. Only a
 * wish to wait is a promise.
 */
TB_WRAPPER int sync_file_range(int fd, off64_t offset, off64_t n, unsigned flags)
{
    struct tb_io *io = tb_fd_io(fd);
    if (!io)
        return REAL(sync_file_range)(fd, offset, n, flags);
    return flags & SYNC_FILE_RANGE_WAIT_AFTER ? (int)TB_CALL(io, fsync, fd, true) : 0;
}

TB_WRAPPER int ftruncate(int fd, off_t length)
{
    struct tb_io *io = tb_fd_io(fd);
    return io ? (int)TB_CALL(io, ftruncate, fd, length) : REAL(ftruncate)(fd, length);
}

TB_WRAPPER int ftruncate64(int fd, off64_t length)
{
    return ftruncate(fd, length);
}

TB_WRAPPER int truncate(const char *path, off_t length)
{
    struct tb_path p;
    int fd = tb_path_descriptor(path);
    bool found = fd < 0 ? tb_path_find(AT_FDCWD, path, &p) : tb_path_of_pfs(fd, &p) || tb_path_of_place(fd, &p);
    if (!found && tb_fd_coherent(fd))
        return -1;
    return found ? (int)TB_CALL(p.io, truncate, p.path, length) : REAL(truncate)(path, length);
}

TB_WRAPPER int truncate64(const char *path, off64_t length)
{
    return truncate(path, length);
}
