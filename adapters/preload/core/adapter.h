/*
 * The preload adapter: unmodified programs on the engine.
 *
 * Every wrapper asks two questions: is this call made from inside the engine
 * (then it is libc's), and is the path or descriptor managed (else it is libc's).
 * A managed call goes through the chain that tb_engine_route named when the
 * file was opened.  Descriptors are real ones of the backing file, so whatever
 * is not wrapped still works on the real file; what buffers cannot serve makes
 * the file coherent first.
 *
 * The engine is linked in, so LD_PRELOAD needs one file.  What it calls of libc
 * outside its base layer (core/base.c) comes back here "inside" and passes through.
 *
 * Limits: raw system calls and static programs are not seen; a library that is
 * loaded by dlopen must be flushed (libc maps it past every wrapper); a file
 * written by the standard streams or an inherited descriptor passes through.
 */
#ifndef TB_ADAPTER_H
#define TB_ADAPTER_H

#include <errno.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>

#include <tierbench/engine.h>

#include "../../wrap.h"

/* This thread is in the engine (or attaching): its calls are libc's. */
extern _Thread_local int tb_inside __attribute__((tls_model("initial-exec")));
static inline void tb_enter(void) { tb_inside++; }
/* Signals that came to this thread inside wait until it leaves (core/signal.c). */
extern _Thread_local volatile uint64_t tb_held_signals __attribute__((tls_model("initial-exec")));
void tb_release_signals(void);
static inline void tb_leave(void)
{
    if (--tb_inside == 0 && tb_held_signals)
        tb_release_signals();
}

/* The base layer of every chain: libc past the wrappers. */
struct tb_io *tb_base(void);

/* The engine, attached on first use; NULL where this process has none. */
tb_engine *tb_adapter_engine(void);

#define TB_FD_LIMIT (1 << 20) /* what the kernel allows a process (fs.nr_open); untouched pages cost nothing */
extern _Atomic(struct tb_io *) tb_managed[TB_FD_LIMIT];

/* The chain of a managed descriptor; NULL: libc's. */
static inline struct tb_io *tb_fd_io(int fd)
{
    return (unsigned)fd < TB_FD_LIMIT ? atomic_load_explicit(&tb_managed[fd], memory_order_acquire) : NULL;
}
void tb_fd_set(int fd, struct tb_io *io);
/* Managed from now on; what is used past every wrapper (by libc's standard streams, a ring) is made coherent: 0, or -1 and errno. */
int tb_fd_adopt(int fd, struct tb_io *io);
#define TB_OWN_FD_FROM 600 /* the engine's own descriptors have higher numbers than those that programs choose themselves */
/* The same, or as far as so many are allowed. */
int tb_fd_own_from(void);
/* Descriptors that the engine opened for itself; to the program they do not exist.  Add one, take one away. */
void tb_fd_own(int fd);
void tb_fd_disown(int fd);
/* Is it one of them?  Never to a caller inside. */
bool tb_fd_is_own(int fd);
/* The lowest one from `fd` on, INT_MAX: none. */
int tb_fd_next_own(int fd);
/* The descriptor that this thread's program is closing; any other that is closed inside is the engine's.  -1: none. */
extern _Thread_local int tb_program_closes __attribute__((tls_model("initial-exec")));
/* Closes a managed descriptor that the program never had. */
void tb_fd_drop(int fd);
/* No managed descriptor is higher than this. */
int tb_fd_highest(void);

/* A managed path, absolute. */
struct tb_path {
    struct tb_io *io;
    enum tb_mode mode;
    char path[PATH_MAX];
    char real[PATH_MAX]; /* room for tb_path_real */
};
/* False: not managed, use libc with the caller's own arguments. */
bool tb_path_find(int dirfd, const char *path, struct tb_path *out);
/* The absolute name alone, PATH_MAX bytes; false where it can't be said. */
bool tb_path_name(int dirfd, const char *path, char *out);
/*
 * For a call that is no chain operation: what libc is to be given for `use` (enum
 * tb_name_use) in the place of the caller's directory and name, which stay as
 * they are where the name stands where it says.  False: errno says why not.
 */
bool tb_path_real(int *dirfd, const char **path, unsigned use, struct tb_path *room);
/* The program's name of a directory by descriptor, or of the working directory (AT_FDCWD). */
bool tb_directory_name(tb_engine *e, int dirfd, char *out);
void tb_cwd_reset(void);
/* Before something that acts on the backing file by name: its dirty bytes first.  Failures show when it is flushed next. */
void tb_path_flush(const struct tb_path *path);
/* Before it goes where the engine can't follow: coherent until the last descriptor of now closes. */
void tb_path_coherent(const struct tb_path *path);

/* -errno to -1 and errno, anything else as it is. */
static inline long tb_result(long rc)
{
    if (rc >= 0)
        return rc;
    errno = (int)-rc;
    return -1;
}

/*
 * Call one operation of a chain "inside".  Success leaves errno alone.  Who is inside
 * already is a signal handler that could not wait, over locks of its own thread.
 */
#define TB_CALL(io, op, ...)                                                                                                     \
    (__extension__({                                                                                                             \
        int errno_before = errno;                                                                                                \
        long call_result = -EDEADLK;                                                                                             \
        if (!tb_inside) {                                                                                                        \
            tb_enter();                                                                                                          \
            call_result = (long)(io)->ops->op((io), __VA_ARGS__);                                                                \
            tb_leave();                                                                                                          \
        }                                                                                                                        \
        errno = errno_before;                                                                                                    \
        tb_result(call_result);                                                                                                  \
    }))

/* Locks by fcntl: wrap/locks.c. */
struct flock;
bool tb_is_lock_command(int command);
int tb_fcntl_lock(int fd, int command, struct flock *range);
/* A managed descriptor of what a descriptor of O_PATH names, which is closed; or TB_NOT_MANAGED: the kernel's to open. */
int tb_open_place(int place, int flags);
#define TB_NOT_MANAGED (-2)
/* Before something buffers cannot serve is done with a descriptor.  0, or -1 with errno where the flush failed. */
int tb_fd_coherent(int fd);
/* A ring is set up, or requests are submitted (libc's -1 and errno): wrap/async.c. */
extern _Atomic bool tb_has_ring;
int tb_ring_begins(void);
struct iocb;
long tb_io_submit(long context, long n, struct iocb **list);
/* Before descriptors are inherited by a program that is executed.  -1 with errno: it would write at other offsets, so it must not run. */
int tb_coherent_for_exec(void);

#endif
