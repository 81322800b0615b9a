/* Bytes of managed descriptors, and the calls that need the backing file itself. */
#include <aio.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/uio.h>
#include <unistd.h>

#include "adapter.h"

TB_WRAPPER ssize_t read(int fd, void *buf, size_t n)
{
    struct tb_io *io = tb_fd_io(fd);
    return io ? TB_CALL(io, read, fd, buf, n) : REAL(read)(fd, buf, n);
}

TB_WRAPPER ssize_t write(int fd, const void *buf, size_t n)
{
    struct tb_io *io = tb_fd_io(fd);
    return io ? TB_CALL(io, write, fd, buf, n) : REAL(write)(fd, buf, n);
}

TB_WRAPPER ssize_t pread(int fd, void *buf, size_t n, off_t offset)
{
    struct tb_io *io = tb_fd_io(fd);
    return io ? TB_CALL(io, pread, fd, buf, n, offset) : REAL(pread)(fd, buf, n, offset);
}

TB_WRAPPER ssize_t pwrite(int fd, const void *buf, size_t n, off_t offset)
{
    struct tb_io *io = tb_fd_io(fd);
    return io ? TB_CALL(io, pwrite, fd, buf, n, offset) : REAL(pwrite)(fd, buf, n, offset);
}

TB_WRAPPER ssize_t pread64(int fd, void *buf, size_t n, off64_t offset) { return pread(fd, buf, n, offset); }
TB_WRAPPER ssize_t pwrite64(int fd, const void *buf, size_t n, off64_t offset) { return pwrite(fd, buf, n, offset); }

/* What fortified programs call; the caller's buffer is as large as it says. */
ssize_t __read_chk(int fd, void *buf, size_t n, size_t room);
ssize_t __pread_chk(int fd, void *buf, size_t n, off_t offset, size_t room);
ssize_t __pread64_chk(int fd, void *buf, size_t n, off64_t offset, size_t room);
TB_WRAPPER ssize_t __read_chk(int fd, void *buf, size_t n, size_t room) { return n > room ? (abort(), -1) : read(fd, buf, n); }
TB_WRAPPER ssize_t __pread_chk(int fd, void *buf, size_t n, off_t offset, size_t room)
{
    return n > room ? (abort(), -1) : pread(fd, buf, n, offset);
}
TB_WRAPPER ssize_t __pread64_chk(int fd, void *buf, size_t n, off64_t offset, size_t room)
{
    return __pread_chk(fd, buf, n, offset, room);
}

/* Vectors, piece by piece; `offset` -1: at the description's own. */
static ssize_t vector(struct tb_io *io, int fd, const struct iovec *v, int n, off_t offset, bool writing)
{
    ssize_t done = 0;
    for (int i = 0; i < n; i++) {
        off_t at = offset + done;
        ssize_t r = offset < 0 ? (writing ? TB_CALL(io, write, fd, v[i].iov_base, v[i].iov_len)
                                          : TB_CALL(io, read, fd, v[i].iov_base, v[i].iov_len))
                               : (writing ? TB_CALL(io, pwrite, fd, v[i].iov_base, v[i].iov_len, at)
                                          : TB_CALL(io, pread, fd, v[i].iov_base, v[i].iov_len, at));
        if (r < 0)
            return done ? done : r;
        done += r;
        if ((size_t)r < v[i].iov_len)
            break;
    }
    return done;
}

TB_WRAPPER ssize_t readv(int fd, const struct iovec *v, int n)
{
    struct tb_io *io = tb_fd_io(fd);
    return io ? vector(io, fd, v, n, -1, false) : REAL(readv)(fd, v, n);
}

TB_WRAPPER ssize_t writev(int fd, const struct iovec *v, int n)
{
    struct tb_io *io = tb_fd_io(fd);
    return io ? vector(io, fd, v, n, -1, true) : REAL(writev)(fd, v, n);
}

TB_WRAPPER ssize_t preadv(int fd, const struct iovec *v, int n, off_t offset)
{
    struct tb_io *io = tb_fd_io(fd);
    return io ? vector(io, fd, v, n, offset, false) : REAL(preadv)(fd, v, n, offset);
}

TB_WRAPPER ssize_t pwritev(int fd, const struct iovec *v, int n, off_t offset)
{
    struct tb_io *io = tb_fd_io(fd);
    return io ? vector(io, fd, v, n, offset, true) : REAL(pwritev)(fd, v, n, offset);
}

TB_WRAPPER ssize_t preadv64(int fd, const struct iovec *v, int n, off64_t offset) { return preadv(fd, v, n, offset); }
TB_WRAPPER ssize_t pwritev64(int fd, const struct iovec *v, int n, off64_t offset) { return pwritev(fd, v, n, offset); }

TB_WRAPPER ssize_t preadv2(int fd, const struct iovec *v, int n, off_t offset, int flags)
{
    struct tb_io *io = tb_fd_io(fd);
    return io ? vector(io, fd, v, n, offset, false) : REAL(preadv2)(fd, v, n, offset, flags);
}

TB_WRAPPER ssize_t pwritev2(int fd, const struct iovec *v, int n, off_t offset, int flags)
{
    struct tb_io *io = tb_fd_io(fd);
    return io ? vector(io, fd, v, n, offset, true) : REAL(pwritev2)(fd, v, n, offset, flags);
}

TB_WRAPPER ssize_t preadv64v2(int fd, const struct iovec *v, int n, off64_t offset, int flags) { return preadv2(fd, v, n, offset, flags); }
TB_WRAPPER ssize_t pwritev64v2(int fd, const struct iovec *v, int n, off64_t offset, int flags) { return pwritev2(fd, v, n, offset, flags); }

TB_WRAPPER off_t lseek(int fd, off_t offset, int whence)
{
    struct tb_io *io = tb_fd_io(fd);
    return io ? TB_CALL(io, lseek, fd, offset, whence) : REAL(lseek)(fd, offset, whence);
}

TB_WRAPPER off64_t lseek64(int fd, off64_t offset, int whence) { return lseek(fd, offset, whence); }

TB_WRAPPER int fsync(int fd)
{
    struct tb_io *io = tb_fd_io(fd);
    return io ? (int)TB_CALL(io, fsync, fd, false) : REAL(fsync)(fd);
}

TB_WRAPPER int fdatasync(int fd)
{
    struct tb_io *io = tb_fd_io(fd);
    return io ? (int)TB_CALL(io, fsync, fd, true) : REAL(fdatasync)(fd);
}

static int flush_all(void)
{
    tb_engine *e = tb_inside ? NULL : tb_adapter_engine();
    tb_enter();
    int rc = e ? tb_engine_flush(e, -1) : 0;
    tb_leave();
    return rc < 0 ? rc : 0;
}

TB_WRAPPER void sync(void)
{
    flush_all();
    REAL(sync)();
}

TB_WRAPPER int syncfs(int fd)
{
    int rc = flush_all(), synced = REAL(syncfs)(fd);
    return rc ? (int)tb_result(rc) : synced;
}

TB_WRAPPER int sync_file_range(int fd, off64_t offset, off64_t n, unsigned flags)
{
    return tb_fd_coherent(fd) ? -1 : REAL(sync_file_range)(fd, offset, n, flags);
}

TB_WRAPPER int ftruncate(int fd, off_t length)
{
    struct tb_io *io = tb_fd_io(fd);
    return io ? (int)TB_CALL(io, ftruncate, fd, length) : REAL(ftruncate)(fd, length);
}

TB_WRAPPER int ftruncate64(int fd, off64_t length) { return ftruncate(fd, length); }

TB_WRAPPER int truncate(const char *path, off_t length)
{
    struct tb_path p;
    return tb_path_find(AT_FDCWD, path, &p) ? (int)TB_CALL(p.io, truncate, p.path, length) : REAL(truncate)(path, length);
}

TB_WRAPPER int truncate64(const char *path, off64_t length) { return truncate(path, length); }

/* Space is the backing file's business. */
TB_WRAPPER int fallocate(int fd, int mode, off_t offset, off_t n)
{
    return tb_fd_coherent(fd) ? -1 : REAL(fallocate)(fd, mode, offset, n);
}

TB_WRAPPER int fallocate64(int fd, int mode, off64_t offset, off64_t n) { return fallocate(fd, mode, offset, n); }

TB_WRAPPER int posix_fallocate(int fd, off_t offset, off_t n)
{
    return tb_fd_coherent(fd) ? errno : REAL(posix_fallocate)(fd, offset, n);
}

TB_WRAPPER int posix_fallocate64(int fd, off64_t offset, off64_t n) { return posix_fallocate(fd, offset, n); }

TB_WRAPPER void *mmap(void *address, size_t n, int protection, int flags, int fd, off_t offset)
{
    if (!tb_inside && !(flags & MAP_ANONYMOUS) && fd >= 0 && tb_fd_coherent(fd))
        return MAP_FAILED;
    return REAL(mmap)(address, n, protection, flags, fd, offset);
}

TB_WRAPPER void *mmap64(void *address, size_t n, int protection, int flags, int fd, off64_t offset)
{
    return mmap(address, n, protection, flags, fd, offset);
}

TB_WRAPPER ssize_t sendfile(int out, int in, off_t *offset, size_t n)
{
    return tb_fd_coherent(in) || tb_fd_coherent(out) ? -1 : REAL(sendfile)(out, in, offset, n);
}

TB_WRAPPER ssize_t sendfile64(int out, int in, off64_t *offset, size_t n) { return sendfile(out, in, offset, n); }

TB_WRAPPER ssize_t splice(int in, off64_t *in_offset, int out, off64_t *out_offset, size_t n, unsigned flags)
{
    return tb_fd_coherent(in) || tb_fd_coherent(out) ? -1 : REAL(splice)(in, in_offset, out, out_offset, n, flags);
}

/* EXDEV: every caller then copies by read and write, which buffers serve. */
TB_WRAPPER ssize_t copy_file_range(int in, off64_t *in_offset, int out, off64_t *out_offset, size_t n, unsigned flags)
{
    if (tb_fd_io(in) || tb_fd_io(out))
        return tb_result(-EXDEV);
    return REAL(copy_file_range)(in, in_offset, out, out_offset, n, flags);
}

#define CLONE_REQUEST 0x40049409u       /* FICLONE */
#define CLONE_RANGE_REQUEST 0x4020940du /* FICLONERANGE */

TB_WRAPPER int ioctl(int fd, unsigned long request, ...)
{
    va_list args;
    va_start(args, request);
    void *arg = va_arg(args, void *);
    va_end(args);
    bool clone = request == CLONE_REQUEST || request == CLONE_RANGE_REQUEST;
    if (clone && !tb_inside && (tb_fd_io(fd) || (request == CLONE_REQUEST && tb_fd_io((int)(long)arg))))
        return (int)tb_result(-EXDEV);
    return REAL(ioctl)(fd, request, arg);
}

#define AIO_WRAPPER(name)                                                                                                        \
    TB_WRAPPER int name(struct aiocb *block) { return tb_fd_coherent(block->aio_fildes) ? -1 : REAL(name)(block); }
AIO_WRAPPER(aio_read)
AIO_WRAPPER(aio_write)
TB_WRAPPER int aio_read64(struct aiocb64 *block) { return tb_fd_coherent(block->aio_fildes) ? -1 : REAL(aio_read64)(block); }
TB_WRAPPER int aio_write64(struct aiocb64 *block) { return tb_fd_coherent(block->aio_fildes) ? -1 : REAL(aio_write64)(block); }
TB_WRAPPER int aio_fsync(int how, struct aiocb *block) { return tb_fd_coherent(block->aio_fildes) ? -1 : REAL(aio_fsync)(how, block); }

TB_WRAPPER int lio_listio(int how, struct aiocb *const list[], int n, struct sigevent *event)
{
    for (int i = 0; i < n; i++)
        if (list[i] && tb_fd_coherent(list[i]->aio_fildes))
            return -1;
    return REAL(lio_listio)(how, list, n, event);
}
