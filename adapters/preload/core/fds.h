/*
 * The descriptors of this process: which are managed and by which chain, and which
 * are the engine's own and do not exist for the program.
 */
#ifndef TB_PRELOAD_FDS_H
#define TB_PRELOAD_FDS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include <tierbench/io.h>

#define TB_FD_LIMIT (1 << 20) /* what the kernel allows a process (fs.nr_open); untouched pages cost nothing */
extern _Atomic(struct tb_io *) tb_managed[TB_FD_LIMIT];

/* The chain of a managed descriptor; NULL: libc's. */
static inline struct tb_io *tb_fd_io(int fd)
{
    return (unsigned)fd < TB_FD_LIMIT ? atomic_load_explicit(&tb_managed[fd], memory_order_acquire) : NULL;
}
/* Does the same layer serve both?  The engine gives each prefix a chain of its own, and a file may be renamed from one to another. */
static inline bool tb_fd_io_is_like(const struct tb_io *a, const struct tb_io *b)
{
    return a && b && a->ops == b->ops;
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
/* None is managed, and none is the engine's, from here on. */
void tb_fds_forget(void);
/* A ring has been set up: what it uses is past every wrapper, so what is adopted from now on is made coherent. */
extern _Atomic bool tb_has_ring;

/* A managed file was opened by O_PATH: what a descriptor that is not managed names may be looked for. */
extern _Atomic bool tb_has_place;

/* Before something buffers cannot serve is done with a descriptor.  0, or -1 with errno where the flush failed. */
int tb_fd_coherent(int fd);
/* The same before a record lock is taken, where other nodes may go by it. */
int tb_fd_before_lock(int fd);
/* Before descriptors are inherited by a program that is executed.  -1 with errno: it would write at other offsets, so it must not run. */
int tb_coherent_for_exec(void);

#endif
