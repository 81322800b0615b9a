/*
 * Mappings. The pages of a mapping are the kernel's, so a file is made coherent before it is
 * mapped, and stays so as long as it has a mapping.
 */
#include "wrap/mmap.h"

#include <fcntl.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/adapter.h"

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

/*
 * By system call: allocators map memory while libc resolves names. At one place for all three, so that the name is looked up with the first
 * mapping: a later look-up waits for a dlopen, which may wait for the allocator that is just giving memory back.
 */
static long by_number(long number, const void *address, long a, long b, long c, long d, long e)
{
    return REAL(syscall)(number, address, a, b, c, d, e);
}

static void *real_mmap(void *address, size_t n, int protection, int flags, int fd, off_t offset)
{
    return (void *)by_number(SYS_mmap, address, (long)n, protection, flags, fd, offset);
}

/*
 * Coherent before the mapping exists: its pages are the kernel's, and would be old. The holder
 * comes after, for only a mapping that was made needs one.
 */
void *tb_mmap(void *address, size_t n, int protection, int flags, int fd, off_t offset)
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

TB_WRAPPER void *mmap(void *address, size_t n, int protection, int flags, int fd, off_t offset)
{
    return tb_mmap(address, n, protection, flags, fd, offset);
}

/* By the public name: in libc both are one function, so a hook of the one is one of both. */
TB_WRAPPER void *mmap64(void *address, size_t n, int protection, int flags, int fd, off64_t offset)
{
    return mmap(address, n, protection, flags, fd, offset);
}

/*
 * The kernel first: an address is free only after it, and another thread's new mapping there
 * must not be released.
 */
int tb_munmap(void *address, size_t n)
{
    int rc = (int)by_number(SYS_munmap, address, (long)n, 0, 0, 0, 0);
    if (rc == 0 && n_mappings && address)
        release(address, n);
    return rc;
}

TB_WRAPPER int munmap(void *address, size_t n)
{
    return tb_munmap(address, n);
}

/*
 * The mapping goes on with its holder at the new address. One that no slot knows is of a file
 * beyond the table.
 */
void *tb_mremap(void *old, size_t old_size, size_t size, int flags, void *wanted)
{
    void *moved = (void *)by_number(SYS_mremap, old, (long)old_size, (long)size, flags, (long)wanted, 0);
    for (int i = 0; moved != MAP_FAILED && i < n_mappings; i++)
        if (mappings[i].address == old) {
            mappings[i].size = size;
            mappings[i].address = moved;
            break;
        }
    return moved;
}

TB_WRAPPER void *mremap(void *old, size_t old_size, size_t size, int flags, ...)
{
    va_list args;
    va_start(args, flags);
    void *wanted = flags & MREMAP_FIXED ? va_arg(args, void *) : NULL;
    va_end(args);
    return tb_mremap(old, old_size, size, flags, wanted);
}
