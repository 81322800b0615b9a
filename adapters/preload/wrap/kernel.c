/*
 * Calls that want the backing file itself.  Copies inside the kernel are made by
 * read and write, which buffers serve; space is reserved on the backing file;
 * pipes make the file coherent first.
 */
#include <fcntl.h>
#include <linux/fs.h>
#include <stdarg.h>
#include <sys/ioctl.h>
#include <sys/sendfile.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/adapter.h"

#define COPY_BYTES 65536

/* At `*offset`, which moves by what was transferred; NULL: at the description's own. */
static ssize_t read_piece(int fd, off_t *offset, void *buf, size_t n)
{
    ssize_t r = offset ? pread(fd, buf, n, *offset) : read(fd, buf, n);
    if (offset && r > 0)
        *offset += r;
    return r;
}

static ssize_t write_piece(int fd, off_t *offset, const void *buf, size_t n)
{
    ssize_t w = offset ? pwrite(fd, buf, n, *offset) : write(fd, buf, n);
    if (offset && w > 0)
        *offset += w;
    return w;
}

/* What was read and not written is given back to the source. */
static void unread(int fd, off_t *offset, off_t n)
{
    if (offset)
        *offset -= n;
    else
        lseek(fd, -n, SEEK_CUR);
}

/*
 * By read and write, for one side at least is in buffers. A short write gives what was read
 * too much back to the source, so that source and target are at the same byte, as after the
 * kernel's own copy.
 */
static ssize_t copy(int in, off_t *in_offset, int out, off_t *out_offset, size_t n)
{
    char bytes[COPY_BYTES];
    size_t done = 0;
    while (done < n) {
        size_t want = n - done < sizeof(bytes) ? n - done : sizeof(bytes);
        ssize_t r = read_piece(in, in_offset, bytes, want), w = r > 0 ? write_piece(out, out_offset, bytes, (size_t)r) : r;
        if (w < r)
            unread(in, in_offset, r - (w > 0 ? w : 0));
        if (w <= 0)
            return done ? (ssize_t)done : w;
        done += (size_t)w;
        if (w < r)
            break;
    }
    return (ssize_t)done;
}

/* What the kernel asks of both sides before it moves a byte; `appends`: its error for a target that is open for appending. */
static bool may_copy(int in, int out, int appends)
{
    int from = REAL(fcntl)(in, F_GETFL), to = REAL(fcntl)(out, F_GETFL);
    if (from < 0 || to < 0 || (from & O_ACCMODE) == O_WRONLY || (to & O_ACCMODE) == O_RDONLY)
        errno = EBADF;
    else if (to & O_APPEND)
        errno = appends;
    else
        return true;
    return false;
}

/* Kernel to kernel where neither side is managed; else by copy, so that buffered bytes are seen. */
TB_WRAPPER ssize_t sendfile(int out, int in, off_t *offset, size_t n)
{
    if (!tb_fd_io(in) && !tb_fd_io(out))
        return REAL(sendfile)(out, in, offset, n);
    return may_copy(in, out, EINVAL) ? copy(in, offset, out, NULL, n) : -1;
}

TB_WRAPPER ssize_t sendfile64(int out, int in, off64_t *offset, size_t n)
{
    return sendfile(out, in, offset, n);
}

/* The bytes of the file from there on, or from the descriptor's own offset. */
static size_t rest_of(int fd, const struct stat *st, off64_t *at)
{
    if (*at < 0)
        *at = lseek(fd, 0, SEEK_CUR);
    return *at < st->st_size ? (size_t)(st->st_size - *at) : 0;
}

/* As the kernel: files alone have ranges, and two of one file must not overlap. What a copy appends to its own source is not copied again. */
static bool may_copy_range(int in, off64_t a, int out, off64_t b, size_t *n)
{
    struct stat from, to;
    if (fstat(in, &from) || fstat(out, &to))
        return false;
    errno = S_ISDIR(from.st_mode) || S_ISDIR(to.st_mode) ? EISDIR : EINVAL;
    if (!S_ISREG(from.st_mode) || !S_ISREG(to.st_mode))
        return false;
    if (from.st_ino != to.st_ino || from.st_dev != to.st_dev)
        return true;
    size_t rest = rest_of(in, &from, &a);
    rest_of(out, &to, &b);
    *n = *n < rest ? *n : rest;
    return (size_t)(a < b ? b - a : a - b) >= *n;
}

TB_WRAPPER ssize_t copy_file_range(int in, off64_t *in_offset, int out, off64_t *out_offset, size_t n, unsigned flags)
{
    if ((!tb_fd_io(in) && !tb_fd_io(out)) || flags)
        return REAL(copy_file_range)(in, in_offset, out, out_offset, n, flags); /* which knows no flags */
    int saved = errno;
    if (!may_copy(in, out, EBADF) || !may_copy_range(in, in_offset ? *in_offset : -1, out, out_offset ? *out_offset : -1, &n))
        return -1;
    errno = saved;
    return copy(in, in_offset, out, out_offset, n);
}

/* A pipe on one side: pages go without a copy, so the bytes must be in the file. */
TB_WRAPPER ssize_t splice(int in, off64_t *in_offset, int out, off64_t *out_offset, size_t n, unsigned flags)
{
    return tb_fd_coherent(in) || tb_fd_coherent(out) ? -1 : REAL(splice)(in, in_offset, out, out_offset, n, flags);
}

/* The engine learns of a size that the backing file gained. */
static int grow(struct tb_io *io, int fd, off_t end)
{
    struct stat st;
    if (TB_CALL(io, fstat, fd, &st))
        return -1;
    return st.st_size < end ? (int)TB_CALL(io, ftruncate, fd, end) : 0;
}

/*
 * Space is the file system's to give. Modes that change bytes (holes, zeros, collapsed ranges)
 * need the buffers out of the way first; a longer file is told to the engine afterwards.
 */
TB_WRAPPER int fallocate(int fd, int mode, off_t offset, off_t n)
{
    struct tb_io *io = tb_fd_io(fd);
    if (io && mode & ~FALLOC_FL_KEEP_SIZE && tb_fd_coherent(fd)) /* it changes bytes */
        return -1;
    int rc = REAL(fallocate)(fd, mode, offset, n);
    return rc == 0 && io && mode == 0 ? grow(io, fd, offset + n) : rc;
}

TB_WRAPPER int fallocate64(int fd, int mode, off64_t offset, off64_t n)
{
    return fallocate(fd, mode, offset, n);
}

/* Returns its error and leaves errno alone, unlike fallocate. */
TB_WRAPPER int posix_fallocate(int fd, off_t offset, off_t n)
{
    struct tb_io *io = tb_fd_io(fd);
    int saved = errno, rc = REAL(posix_fallocate)(fd, offset, n);
    if (rc == 0 && io && grow(io, fd, offset + n))
        rc = errno;
    errno = saved;
    return rc;
}

TB_WRAPPER int posix_fallocate64(int fd, off64_t offset, off64_t n)
{
    return posix_fallocate(fd, offset, n);
}

/* -1: for the kernel alone. */
static int hint_of(int advice)
{
    switch (advice) {
    case POSIX_FADV_NORMAL: return TB_HINT_NORMAL;
    case POSIX_FADV_SEQUENTIAL: return TB_HINT_SEQUENTIAL;
    case POSIX_FADV_RANDOM: return TB_HINT_RANDOM;
    case POSIX_FADV_WILLNEED: return TB_HINT_WILL_NEED;
    case POSIX_FADV_NOREUSE:
    case POSIX_FADV_DONTNEED: return TB_HINT_ONCE;
    default: return -1;
    }
}

/* The engine's caches instead of the kernel's; what bypasses it is still the kernel's. */
TB_WRAPPER int posix_fadvise(int fd, off_t offset, off_t n, int advice)
{
    int hint = tb_fd_io(fd) && offset >= 0 && n >= 0 ? hint_of(advice) : -1;
    if (hint >= 0) {
        int saved = errno;
        tb_enter();
        int rc = tb_engine_advise(tb_adapter_engine(), fd, (uint64_t)offset, (uint64_t)n, (enum tb_hint)hint);
        tb_leave();
        errno = saved;
        if (rc != -EBADF)
            return 0; /* a hint that can't be followed is no error */
    }
    return REAL(posix_fadvise)(fd, offset, n, advice);
}

TB_WRAPPER int posix_fadvise64(int fd, off64_t offset, off64_t n, int advice)
{
    return posix_fadvise(fd, offset, n, advice);
}

/* Refused with EXDEV: programs copy the bytes where a clone is not possible. */
#define CLONE_REQUEST 0x40049409u       /* FICLONE */
#define CLONE_RANGE_REQUEST 0x4020940du /* FICLONERANGE */

/* What asks for the map of a file's extents, or changes it, must find the bytes; terminals' requests and a file's flags need none. */
static bool is_harmless(unsigned long request)
{
    return (request >> 8 & 0xff) == 'T' || request == FS_IOC_GETFLAGS || request == FS_IOC_SETFLAGS || request == FS_IOC_GETVERSION ||
           request == FIGETBSZ;
}

static bool changes_flags(unsigned long request)
{
    return request == FS_IOC_SETFLAGS || request == FS_IOC_FSSETXATTR || request == FS_IOC_SETVERSION;
}

/* FIONREAD: how many bytes are left to read. */
static int count_rest(struct tb_io *io, int fd, int *out)
{
    struct stat st;
    off_t at = lseek(fd, 0, SEEK_CUR);
    if (at < 0 || TB_CALL(io, fstat, fd, &st))
        return -1;
    *out = st.st_size - at > INT_MAX ? INT_MAX : (int)(st.st_size - at);
    return 0;
}

/*
 * The few requests that can be answered from buffers are; terminals and flags pass; whatever
 * else asks for bytes or extents finds the file coherent.
 */
TB_WRAPPER int ioctl(int fd, unsigned long request, ...)
{
    va_list args;
    va_start(args, request);
    void *arg = va_arg(args, void *);
    va_end(args);
    struct tb_path p;
    struct tb_io *io = tb_fd_io(fd);
    bool clone = request == CLONE_REQUEST || request == CLONE_RANGE_REQUEST;
    if (io && request == FIONREAD)
        return count_rest(io, fd, arg);
    if (clone && (tb_fd_io(fd) || (request == CLONE_REQUEST && tb_fd_io((int)(long)arg))))
        return (int)tb_result(-EXDEV);
    if (changes_flags(request) && tb_path_of_pfs(fd, &p))
        return (int)tb_result(-EOPNOTSUPP); /* nothing on the PFS changes */
    if (io && !is_harmless(request) && tb_fd_coherent(fd))
        return -1;
    return REAL(ioctl)(fd, request, arg);
}
