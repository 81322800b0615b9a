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
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/single_threaded.h>

#include "../../wrap.h"
#include "core/attach.h"
#include "core/fds.h"
#include "core/paths.h"
#include "core/signal.h"

/* This thread is in the engine (or attaching): its calls are libc's. */
extern _Thread_local int tb_inside __attribute__((tls_model("initial-exec")));
/* This thread's own count of calls that are under way; NULL: the engine is asked (core/attach.h). It changes only between calls. */
extern _Thread_local _Atomic uint32_t *tb_own_calls __attribute__((tls_model("initial-exec")));

/* As tb_engine_call_begins and tb_engine_call_ends do, but in line: 4 ns of a call less. */
static inline void tb_count_own_call(uint32_t by)
{
    atomic_signal_fence(memory_order_seq_cst);
    atomic_store_explicit(tb_own_calls, atomic_load_explicit(tb_own_calls, memory_order_relaxed) + by, memory_order_relaxed);
    atomic_signal_fence(memory_order_seq_cst);
}
/*
 * A thread that is cancelled (pthread_cancel) ends outside: inside it may have locks and claims, which are taken from ended processes alone.
 * ENABLE: it may end when it has left.
 */
extern _Thread_local int tb_cancel_state __attribute__((tls_model("initial-exec")));

/* In calls that libc's own would end such a thread in, before anything is done. Where there is one thread, none cancels it. */
static inline void tb_may_end(void)
{
    if (!__libc_single_threaded && !tb_inside)
        pthread_testcancel();
}
static inline void tb_enter(void)
{
    if (tb_inside++ != 0)
        return;
    if (!__libc_single_threaded)
        pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &tb_cancel_state);
    if (tb_own_calls)
        tb_count_own_call(1);
    else
        tb_call_begins();
}
static inline void tb_leave(void)
{
    if (tb_inside == 1 && tb_own_calls)
        tb_count_own_call((uint32_t)-1);
    else if (tb_inside == 1)
        tb_call_ends();
    if (--tb_inside)
        return;
    if (tb_cancel_state == PTHREAD_CANCEL_ENABLE)
        pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &tb_cancel_state);
    if (tb_held_signals)
        tb_release_signals();
}

/* -errno to -1 and errno, anything else as it is. */
static inline long tb_result(long rc)
{
    if (rc >= 0)
        return rc;
    errno = (int)-rc;
    return -1;
}

/*
 * Call the engine "inside". Success leaves errno alone. If the thread is inside already,
 * this is a signal handler that could not wait, because its own thread holds the locks.
 */
#define TB_INSIDE(call)               \
    (__extension__({                  \
        int errno_before = errno;     \
        long call_result = -EDEADLK;  \
        if (!tb_inside) {             \
            tb_enter();               \
            call_result = (long)call; \
            tb_leave();               \
        }                             \
        errno = errno_before;         \
        tb_result(call_result);       \
    }))
/* One operation of a chain. */
#define TB_CALL(io, op, ...) TB_INSIDE(TB_IO(io, op, __VA_ARGS__))

#endif
