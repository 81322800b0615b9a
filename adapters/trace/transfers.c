/*
 * Bytes of descriptors: read, write, seek, sync, map; asynchronous ones when their result is
 * fetched, for only then is it known how much they moved. A vector counts as one access, as in
 * Darshan. Copies inside the kernel are not counted, because Darshan's runtime does not see
 * them.
 */
#include <aio.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include "adapter.h"

#define MOVE(access, fd, offset, buf, call) \
    TB_TRACED(ssize_t, call, result >= 0, tb_trace_transfer(tb_application(), fd, access, offset, buf, (size_t)result, t))
#define READ(fd, offset, buf, call) MOVE(TB_TRACE_READ, fd, offset, buf, call)
#define WRITE(fd, offset, buf, call) MOVE(TB_TRACE_WRITE, fd, offset, buf, call)

/* clang-format off: one line each */
TB_WRAPPER ssize_t read(int fd, void *buf, size_t n)
{
    READ(fd, TB_TRACE_HERE, buf, REAL(read)(fd, buf, n));
}
TB_WRAPPER ssize_t write(int fd, const void *buf, size_t n)
{
    WRITE(fd, TB_TRACE_HERE, buf, REAL(write)(fd, buf, n));
}
TB_WRAPPER ssize_t pread(int fd, void *buf, size_t n, off_t at)
{
    READ(fd, at, buf, REAL(pread)(fd, buf, n, at));
}
TB_WRAPPER ssize_t pwrite(int fd, const void *buf, size_t n, off_t at)
{
    WRITE(fd, at, buf, REAL(pwrite)(fd, buf, n, at));
}
TB_WRAPPER ssize_t pread64(int fd, void *buf, size_t n, off64_t at)
{
    READ(fd, at, buf, REAL(pread64)(fd, buf, n, at));
}
TB_WRAPPER ssize_t pwrite64(int fd, const void *buf, size_t n, off64_t at)
{
    WRITE(fd, at, buf, REAL(pwrite64)(fd, buf, n, at));
}
/* clang-format on */

/*
 * What fortified programs call: where `n` is more than `room` libc ends the process before a
 * byte moves.
 */
ssize_t __read_chk(int fd, void *buf, size_t n, size_t room);
ssize_t __pread_chk(int fd, void *buf, size_t n, off_t at, size_t room);
ssize_t __pread64_chk(int fd, void *buf, size_t n, off64_t at, size_t room);
TB_WRAPPER ssize_t __read_chk(int fd, void *buf, size_t n, size_t room)
{
    READ(fd, TB_TRACE_HERE, buf, REAL(__read_chk)(fd, buf, n, room));
}
TB_WRAPPER ssize_t __pread_chk(int fd, void *buf, size_t n, off_t at, size_t room)
{
    READ(fd, at, buf, REAL(__pread_chk)(fd, buf, n, at, room));
}
TB_WRAPPER ssize_t __pread64_chk(int fd, void *buf, size_t n, off64_t at, size_t room)
{
    READ(fd, at, buf, REAL(__pread64_chk)(fd, buf, n, at, room));
}

/* The least aligned piece counts for all. */
static const void *least_aligned(const struct iovec *v, int n)
{
    const void *worst = NULL;
    for (int i = 0; i < n; i++)
        if ((uintptr_t)v[i].iov_base % 8 != 0)
            worst = v[i].iov_base;
    return worst;
}

#define VECTOR(v, n) least_aligned(v, n)

/* clang-format off: one line each */
TB_WRAPPER ssize_t readv(int fd, const struct iovec *v, int n)
{
    READ(fd, TB_TRACE_HERE, VECTOR(v, n), REAL(readv)(fd, v, n));
}
TB_WRAPPER ssize_t writev(int fd, const struct iovec *v, int n)
{
    WRITE(fd, TB_TRACE_HERE, VECTOR(v, n), REAL(writev)(fd, v, n));
}
TB_WRAPPER ssize_t preadv(int fd, const struct iovec *v, int n, off_t at)
{
    READ(fd, at, VECTOR(v, n), REAL(preadv)(fd, v, n, at));
}
TB_WRAPPER ssize_t pwritev(int fd, const struct iovec *v, int n, off_t at)
{
    WRITE(fd, at, VECTOR(v, n), REAL(pwritev)(fd, v, n, at));
}
/* clang-format on */
TB_WRAPPER ssize_t preadv64(int fd, const struct iovec *v, int n, off64_t at)
{
    READ(fd, at, VECTOR(v, n), REAL(preadv64)(fd, v, n, at));
}
TB_WRAPPER ssize_t pwritev64(int fd, const struct iovec *v, int n, off64_t at)
{
    WRITE(fd, at, VECTOR(v, n), REAL(pwritev64)(fd, v, n, at));
}
/* At -1 these move the file's own offset: TB_TRACE_HERE. */
TB_WRAPPER ssize_t preadv2(int fd, const struct iovec *v, int n, off_t at, int flags)
{
    READ(fd, at, VECTOR(v, n), REAL(preadv2)(fd, v, n, at, flags));
}
TB_WRAPPER ssize_t pwritev2(int fd, const struct iovec *v, int n, off_t at, int flags)
{
    WRITE(fd, at, VECTOR(v, n), REAL(pwritev2)(fd, v, n, at, flags));
}
TB_WRAPPER ssize_t preadv64v2(int fd, const struct iovec *v, int n, off64_t at, int flags)
{
    READ(fd, at, VECTOR(v, n), REAL(preadv64v2)(fd, v, n, at, flags));
}
TB_WRAPPER ssize_t pwritev64v2(int fd, const struct iovec *v, int n, off64_t at, int flags)
{
    WRITE(fd, at, VECTOR(v, n), REAL(pwritev64v2)(fd, v, n, at, flags));
}

/*
 * The record gets the place that the call returned: with SEEK_CUR and SEEK_END `offset` alone
 * doesn't say it.
 */
TB_WRAPPER off_t lseek(int fd, off_t offset, int whence)
{
    TB_TRACED(off_t, REAL(lseek)(fd, offset, whence), result >= 0, tb_trace_seek(tb_application(), fd, result, t));
}

TB_WRAPPER off64_t lseek64(int fd, off64_t offset, int whence)
{
    TB_TRACED(off64_t, REAL(lseek64)(fd, offset, whence), result >= 0, tb_trace_seek(tb_application(), fd, result, t));
}

TB_WRAPPER int fsync(int fd)
{
    TB_TRACED(int, REAL(fsync)(fd), result == 0, tb_trace_sync(tb_application(), fd, false, t));
}
TB_WRAPPER int fdatasync(int fd)
{
    TB_TRACED(int, REAL(fdatasync)(fd), result == 0, tb_trace_sync(tb_application(), fd, true, t));
}

/* How much is mapped is counted, not what is touched: that passes every call. */
TB_WRAPPER void *mmap(void *address, size_t n, int protection, int flags, int fd, off_t offset)
{
    void *mapped = REAL(mmap)(address, n, protection, flags, fd, offset);
    if (mapped != MAP_FAILED && !(flags & MAP_ANONYMOUS))
        tb_trace_map(tb_application(), fd, n);
    return mapped;
}

TB_WRAPPER void *mmap64(void *address, size_t n, int protection, int flags, int fd, off64_t offset)
{
    void *mapped = REAL(mmap64)(address, n, protection, flags, fd, offset);
    if (mapped != MAP_FAILED && !(flags & MAP_ANONYMOUS))
        tb_trace_map(tb_application(), fd, n);
    return mapped;
}

/* Requests under way and since when; a transfer counts when its result is fetched. */
#define REQUESTS 256
static struct {
    const void *block;
    double start;
} requests[REQUESTS];
static pthread_mutex_t requests_lock = PTHREAD_MUTEX_INITIALIZER;

/* Where all places are taken the request is not noted, and its transfer is not counted. */
static void request(const void *block, double start)
{
    pthread_mutex_lock(&requests_lock);
    for (int i = 0; i < REQUESTS; i++)
        if (!requests[i].block) {
            requests[i].block = block;
            requests[i].start = start;
            break;
        }
    pthread_mutex_unlock(&requests_lock);
}

static bool take_request(const void *block, double *start)
{
    bool found = false;
    pthread_mutex_lock(&requests_lock);
    for (int i = 0; i < REQUESTS && !found; i++)
        if (requests[i].block == block) {
            found = true;
            *start = requests[i].start;
            requests[i].block = NULL;
        }
    pthread_mutex_unlock(&requests_lock);
    return found;
}

/*
 * A request that failed, or LIO_NOP, moved no bytes. The time of the others runs from their
 * start to the moment when the program fetches the result.
 */
static void finished(int fd, int opcode, int64_t offset, const volatile void *buf, ssize_t n, double start)
{
    if (n >= 0 && opcode != LIO_NOP)
        tb_trace_transfer(tb_application(), fd, opcode == LIO_WRITE ? TB_TRACE_WRITE : TB_TRACE_READ, offset, (const void *)buf, (size_t)n,
                          tb_since(start));
}

#define AIO(suffix, type)                                                                                            \
    TB_WRAPPER int aio_read##suffix(struct type *b)                                                                  \
    {                                                                                                                \
        TB_TRACED(int, REAL(aio_read##suffix)(b), result == 0, (b->aio_lio_opcode = LIO_READ, request(b, t.end)));   \
    }                                                                                                                \
    TB_WRAPPER int aio_write##suffix(struct type *b)                                                                 \
    {                                                                                                                \
        TB_TRACED(int, REAL(aio_write##suffix)(b), result == 0, (b->aio_lio_opcode = LIO_WRITE, request(b, t.end))); \
    }                                                                                                                \
    TB_WRAPPER ssize_t aio_return##suffix(struct type *b)                                                            \
    {                                                                                                                \
        ssize_t n = REAL(aio_return##suffix)(b);                                                                     \
        double start;                                                                                                \
        if (take_request(b, &start))                                                                                 \
            finished(b->aio_fildes, b->aio_lio_opcode, b->aio_offset, b->aio_buf, n, start);                         \
        return n;                                                                                                    \
    }                                                                                                                \
    TB_WRAPPER int lio_listio##suffix(int how, struct type *const list[], int n, struct sigevent *event)             \
    {                                                                                                                \
        int result = REAL(lio_listio##suffix)(how, list, n, event);                                                  \
        for (int i = 0; result == 0 && i < n; i++)                                                                   \
            if (list[i])                                                                                             \
                request(list[i], tb_trace_now());                                                                    \
        return result;                                                                                               \
    }
AIO(, aiocb)
AIO(64, aiocb64)
