/*
 * Calls that want the backing file itself.  Copies inside the kernel are made by
 * read and write, which buffers serve; space is reserved on the backing file;
 * mappings and pipes make the file coherent first.
 */
#include <fcntl.h>
#include <linux/fs.h>
#include <stdarg.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
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

/* Kernel to kernel where neither side is managed; else by copy, so that buffered bytes are seen. */
TB_WRAPPER ssize_t sendfile(int out, int in, off_t *offset, size_t n)
{
    return tb_fd_io(in) || tb_fd_io(out) ? copy(in, offset, out, NULL, n) : REAL(sendfile)(out, in, offset, n);
}

TB_WRAPPER ssize_t sendfile64(int out, int in, off64_t *offset, size_t n)
{
    return sendfile(out, in, offset, n);
}

TB_WRAPPER ssize_t copy_file_range(int in, off64_t *in_offset, int out, off64_t *out_offset, size_t n, unsigned flags)
{
    return tb_fd_io(in) || tb_fd_io(out) ? copy(in, in_offset, out, out_offset, n)
                                         : REAL(copy_file_range)(in, in_offset, out, out_offset, n, flags);
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

#define MAPPINGS 4096 /* a file mapped beyond these stays coherent until the process ends */
#define HOLDERS 1024

/*
 * A mapping outlives its descriptor: one descriptor of each mapped file is held
 * as long as it has mappings, so that the file stays coherent.  Lock-free,
 * because allocators call munmap.
 */
static struct holder {
    _Atomic int n_mappings; /* BUSY: is being made or closed */
    dev_t device;
    ino_t inode;
    int fd;
} holders[HOLDERS];
#define BUSY (-1)

static struct {
    _Atomic(void *) address;
    size_t size;
    struct holder *holder;
} mappings[MAPPINGS];
static _Atomic int n_mappings; /* slots ever used */

/*
 * One mapping less. The last one closes the descriptor, BUSY during that, so that no other
 * thread joins a holder that goes.
 */
static void leave(struct holder *h)
{
    int n = h->n_mappings;
    while (!atomic_compare_exchange_weak(&h->n_mappings, &n, n == 1 ? BUSY : n - 1))
        ;
    if (n > 1)
        return;
    tb_fd_disown(h->fd);
    tb_fd_drop(h->fd);
    h->n_mappings = 0;
}

/* One mapping more, where it is a holder of that file and not just being closed. */
static bool join(struct holder *h, const struct stat *st)
{
    int n = h->n_mappings;
    while (n > 0 && !atomic_compare_exchange_weak(&h->n_mappings, &n, n + 1))
        ;
    if (n <= 0)
        return false;
    if (h->device == st->st_dev && h->inode == st->st_ino)
        return true;
    leave(h);
    return false;
}

/*
 * A free slot is taken by an exchange and filled before the count makes it visible. None free:
 * the file stays coherent by other descriptors alone, and no longer.
 */
static struct holder *make_holder(int fd, const struct stat *st)
{
    for (int i = 0, copy_fd; i < HOLDERS; i++) {
        int none = 0;
        if (!atomic_compare_exchange_strong(&holders[i].n_mappings, &none, BUSY))
            continue;
        if ((copy_fd = fcntl(fd, F_DUPFD_CLOEXEC, tb_fd_own_from())) >= 0) {
            tb_fd_own(copy_fd);
            holders[i].device = st->st_dev;
            holders[i].inode = st->st_ino;
            holders[i].fd = copy_fd;
        }
        holders[i].n_mappings = copy_fd >= 0;
        return copy_fd >= 0 ? &holders[i] : NULL;
    }
    return NULL;
}

/* The holder that the file has, else a new one. */
static struct holder *hold_file(int fd)
{
    struct stat st;
    if (REAL(fstat)(fd, &st))
        return NULL;
    for (int i = 0; i < HOLDERS; i++)
        if (join(&holders[i], &st))
            return &holders[i];
    return make_holder(fd, &st);
}

/*
 * MAP_FAILED in a slot means "being filled": no mapping has that address. Without a free slot
 * the holder stays until the process ends, which is safe.
 */
static void hold(void *address, size_t n, int fd)
{
    struct holder *h = hold_file(fd);
    for (int i = 0; h && i < MAPPINGS; i++) {
        void *none = NULL;
        if (!atomic_compare_exchange_strong(&mappings[i].address, &none, MAP_FAILED))
            continue;
        mappings[i].holder = h;
        mappings[i].size = n;
        mappings[i].address = address;
        int used = n_mappings;
        while (used <= i && !atomic_compare_exchange_weak(&n_mappings, &used, i + 1))
            ;
        return;
    }
}

/* A mapping that goes in parts keeps its file coherent until the process ends. */
static void release(void *address, size_t n)
{
    for (int i = 0; i < n_mappings; i++) {
        void *found = address;
        struct holder *h = mappings[i].holder;
        if (mappings[i].address != address || mappings[i].size > n)
            continue;
        if (atomic_compare_exchange_strong(&mappings[i].address, &found, NULL)) {
            leave(h);
            return;
        }
    }
}

/* By system call: allocators map memory while libc resolves names. */
static void *real_mmap(void *address, size_t n, int protection, int flags, int fd, off_t offset)
{
    return (void *)REAL(syscall)(SYS_mmap, address, n, protection, flags, fd, offset);
}

/*
 * Coherent before the mapping exists: its pages are the kernel's, and would be old. The holder
 * comes after, for only a mapping that was made needs one.
 */
TB_WRAPPER void *mmap(void *address, size_t n, int protection, int flags, int fd, off_t offset)
{
    if (flags & MAP_ANONYMOUS || !tb_fd_io(fd))
        return real_mmap(address, n, protection, flags, fd, offset);
    if (tb_fd_coherent(fd))
        return MAP_FAILED;
    void *mapped = real_mmap(address, n, protection, flags, fd, offset);
    if (mapped != MAP_FAILED) {
        int saved = errno;
        hold(mapped, n, fd);
        errno = saved;
    }
    return mapped;
}

TB_WRAPPER void *mmap64(void *address, size_t n, int protection, int flags, int fd, off64_t offset)
{
    return mmap(address, n, protection, flags, fd, offset);
}

/*
 * The kernel first: an address is free only after it, and another thread's new mapping there
 * must not be released.
 */
TB_WRAPPER int munmap(void *address, size_t n)
{
    int rc = (int)REAL(syscall)(SYS_munmap, address, n);
    if (rc == 0 && n_mappings && address)
        release(address, n);
    return rc;
}

/*
 * The mapping goes on with its holder at the new address. One that no slot knows is of a file
 * beyond the table.
 */
TB_WRAPPER void *mremap(void *old, size_t old_size, size_t size, int flags, ...)
{
    va_list args;
    va_start(args, flags);
    void *wanted = flags & MREMAP_FIXED ? va_arg(args, void *) : NULL;
    va_end(args);
    void *moved = (void *)REAL(syscall)(SYS_mremap, old, old_size, size, flags, wanted);
    for (int i = 0; moved != MAP_FAILED && i < n_mappings; i++)
        if (mappings[i].address == old) {
            mappings[i].size = size;
            mappings[i].address = moved;
            break;
        }
    return moved;
}

/* EXDEV: whoever clones copies where he can't. */
#define CLONE_REQUEST 0x40049409u       /* FICLONE */
#define CLONE_RANGE_REQUEST 0x4020940du /* FICLONERANGE */

/* What asks for the map of a file's extents, or changes it, must find the bytes; terminals' requests and a file's flags need none. */
static bool is_harmless(unsigned long request)
{
    return (request >> 8 & 0xff) == 'T' || request == FS_IOC_GETFLAGS || request == FS_IOC_SETFLAGS || request == FS_IOC_GETVERSION ||
           request == FIGETBSZ;
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
    struct tb_io *io = tb_fd_io(fd);
    bool clone = request == CLONE_REQUEST || request == CLONE_RANGE_REQUEST;
    if (io && request == FIONREAD)
        return count_rest(io, fd, arg);
    if (clone && (tb_fd_io(fd) || (request == CLONE_REQUEST && tb_fd_io((int)(long)arg))))
        return (int)tb_result(-EXDEV);
    if (io && !is_harmless(request) && tb_fd_coherent(fd))
        return -1;
    return REAL(ioctl)(fd, request, arg);
}
