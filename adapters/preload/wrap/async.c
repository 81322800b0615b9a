/*
 * Asynchronous I/O is served by the kernel or by threads of libc: each file that
 * is submitted is made coherent first.  What a program puts into an io_uring is
 * never seen: from the set-up of its first ring on, all its managed files are
 * coherent, also those it opens later.
 *
 * Limit: a ring that is set up by a system call of the program's own (liburing
 * linked statically) is not seen either.
 */
#include "wrap/async.h"

#include <aio.h>
#include <dlfcn.h>
#include <linux/aio_abi.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/adapter.h"

#define AIO_WRAPPER(name)                                                  \
    TB_WRAPPER int name(struct aiocb *block)                               \
    {                                                                      \
        return tb_fd_coherent(block->aio_fildes) ? -1 : REAL(name)(block); \
    }
AIO_WRAPPER(aio_read)
AIO_WRAPPER(aio_write)
/* clang-format off: one line each */
TB_WRAPPER int aio_read64(struct aiocb64 *block)
{
    return tb_fd_coherent(block->aio_fildes) ? -1 : REAL(aio_read64)(block);
}
TB_WRAPPER int aio_write64(struct aiocb64 *block)
{
    return tb_fd_coherent(block->aio_fildes) ? -1 : REAL(aio_write64)(block);
}
TB_WRAPPER int aio_fsync(int how, struct aiocb *block)
{
    return tb_fd_coherent(block->aio_fildes) ? -1 : REAL(aio_fsync)(how, block);
}
TB_WRAPPER int aio_fsync64(int how, struct aiocb64 *block)
{
    return tb_fd_coherent(block->aio_fildes) ? -1 : REAL(aio_fsync64)(how, block);
}
/* clang-format on */

TB_WRAPPER int lio_listio(int how, struct aiocb *const list[], int n, struct sigevent *event)
{
    for (int i = 0; i < n; i++)
        if (list[i] && tb_fd_coherent(list[i]->aio_fildes))
            return -1;
    return REAL(lio_listio)(how, list, n, event);
}

TB_WRAPPER int lio_listio64(int how, struct aiocb64 *const list[], int n, struct sigevent *event)
{
    return lio_listio(how, (struct aiocb *const *)list, n, event); /* the same structure */
}

/* libaio returns -errno and makes its system call by itself. */
TB_WRAPPER int io_submit(aio_context_t context, long n, struct iocb **list);
TB_WRAPPER int io_submit(aio_context_t context, long n, struct iocb **list)
{
    long rc = tb_io_submit((long)context, n, list);
    return rc < 0 ? -errno : (int)rc;
}

long tb_io_submit(long context, long n, struct iocb **list)
{
    for (long i = 0; i < n; i++)
        if (tb_fd_coherent((int)list[i]->aio_fildes))
            return -1;
    return REAL(syscall)(SYS_io_submit, context, n, list);
}

int tb_ring_begins(void)
{
    int rc = 0;
    tb_has_ring = true;
    for (int fd = 0; fd <= tb_fd_highest(); fd++)
        rc |= tb_fd_coherent(fd);
    return rc;
}

/* liburing may be loaded where RTLD_NEXT doesn't look. */
static void *of_liburing(const char *name)
{
    void *found = dlsym(RTLD_NEXT, name), *library = found ? NULL : dlopen("liburing.so.2", RTLD_LAZY | RTLD_NOLOAD);
    return found ? found : library ? dlsym(library, name) : NULL;
}

#define RING_WRAPPER(name, parameters, ...)                            \
    TB_WRAPPER int name parameters;                                    \
    TB_WRAPPER int name parameters                                     \
    {                                                                  \
        int(*real) parameters = (int(*) parameters)of_liburing(#name); \
        if (!real)                                                     \
            return -ENOSYS;                                            \
        return tb_ring_begins() ? -errno : real(__VA_ARGS__);          \
    }
struct io_uring;
struct io_uring_params;
RING_WRAPPER(io_uring_queue_init, (unsigned entries, struct io_uring *ring, unsigned flags), entries, ring, flags)
RING_WRAPPER(io_uring_queue_init_params, (unsigned entries, struct io_uring *ring, struct io_uring_params *p), entries, ring, p)
RING_WRAPPER(io_uring_queue_init_mem, (unsigned entries, struct io_uring *ring, struct io_uring_params *p, void *buf, size_t size), entries,
             ring, p, buf, size)
RING_WRAPPER(io_uring_setup, (unsigned entries, struct io_uring_params *p), entries, p)
