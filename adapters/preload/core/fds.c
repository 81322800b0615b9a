/*
 * Tables of this process's descriptors: which are managed, and which the engine opened for
 * itself and hides from the program (core/fds.h).
 */
#include "core/fds.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/resource.h>
#include <unistd.h>

#include "core/adapter.h"

_Thread_local int tb_program_closes __attribute__((tls_model("initial-exec"))) = -1;
_Atomic bool tb_has_ring, tb_has_place;

_Atomic(struct tb_io *) tb_managed[TB_FD_LIMIT];
static _Atomic int highest_managed = -1;

/*
 * The highest number only grows: it bounds loops over all descriptors. A number past the table
 * is left to the kernel; there can be none (TB_FD_LIMIT).
 */
void tb_fd_set(int fd, struct tb_io *io)
{
    if ((unsigned)fd >= TB_FD_LIMIT)
        return;
    atomic_store_explicit(&tb_managed[fd], io, memory_order_release);
    int high = highest_managed;
    while (io && fd > high && !atomic_compare_exchange_weak(&highest_managed, &high, fd))
        ;
}

/*
 * The three standard descriptors are used by libc's streams past every wrapper, a ring by the
 * kernel.
 */
int tb_fd_adopt(int fd, struct tb_io *io)
{
    tb_fd_set(fd, io);
    return fd <= STDERR_FILENO || tb_has_ring ? tb_fd_coherent(fd) : 0;
}

/* Where few are allowed, the upper half: the program's own open must not fail because of ours. */
int tb_fd_own_from(void)
{
    struct rlimit allowed;
    rlim_t half = REAL(getrlimit)(RLIMIT_NOFILE, &allowed) ? 0 : allowed.rlim_cur / 2;
    return half < TB_OWN_FD_FROM ? (int)half : TB_OWN_FD_FROM;
}

/* A bit for each number. */
static _Atomic uint64_t own[TB_FD_LIMIT / 64];
static _Atomic int highest_own = -1;

/* No number above the limit comes: the kernel gives none (TB_FD_LIMIT). */
void tb_fd_own(int fd)
{
    if ((unsigned)fd >= TB_FD_LIMIT)
        return;
    own[fd / 64] |= 1ull << (fd % 64);
    int high = highest_own;
    while (fd > high && !atomic_compare_exchange_weak(&highest_own, &high, fd))
        ;
}

void tb_fd_disown(int fd)
{
    if ((unsigned)fd < TB_FD_LIMIT && own[fd / 64] & 1ull << (fd % 64))
        own[fd / 64] &= ~(1ull << (fd % 64));
}

static bool is_owned(int fd)
{
    return (unsigned)fd < TB_FD_LIMIT && atomic_load_explicit(&own[fd / 64], memory_order_relaxed) & 1ull << (fd % 64);
}

bool tb_fd_is_own(int fd)
{
    return is_owned(fd) && !tb_inside;
}

/* A word of 64 without a bit is passed at once: close_range asks for all numbers. */
int tb_fd_next_own(int fd)
{
    for (int high = highest_own; fd <= high; fd = own[fd / 64] ? fd + 1 : (fd / 64 + 1) * 64)
        if (is_owned(fd))
            return fd;
    return INT_MAX;
}

void tb_fd_drop(int fd)
{
    struct tb_io *io = tb_fd_io(fd);
    tb_fd_set(fd, NULL); /* before the number can be given out again */
    if (io)
        TB_CALL(io, close, fd);
}

int tb_fd_highest(void)
{
    return highest_managed;
}

/* errno stays as it is unless the flush failed. */
static int ask_engine(int fd, int (*ask)(tb_engine *, int))
{
    if (!tb_fd_io(fd))
        return 0;
    int saved = errno;
    tb_enter();
    int rc = ask(tb_adapter_engine(), fd);
    tb_leave();
    errno = saved;
    return (int)tb_result(rc);
}

int tb_fd_coherent(int fd)
{
    return ask_engine(fd, tb_engine_make_coherent);
}

int tb_fd_before_lock(int fd)
{
    return ask_engine(fd, tb_engine_before_lock);
}

/* Those that are closed by the exec need nothing. The first that fails ends it: then the program is not executed. */
int tb_coherent_for_exec(void)
{
    int saved = errno, rc = 0;
    for (int fd = 0; fd <= highest_managed && !rc; fd++)
        if (tb_fd_io(fd) && !(REAL(fcntl)(fd, F_GETFD) & FD_CLOEXEC))
            rc = tb_fd_coherent(fd);
    errno = rc ? errno : saved;
    return rc;
}

/* In a child that may not use the engine: what it inherited is the kernel's from here on. */
void tb_fds_forget(void)
{
    for (int fd = 0; fd <= highest_managed; fd++)
        tb_fd_set(fd, NULL);
    for (int fd = 0; (fd = tb_fd_next_own(fd)) < INT_MAX;)
        tb_fd_disown(fd);
}
