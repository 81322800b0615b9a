/*
 * Signal handlers run outside the engine.
 *
 * A handler may do I/O at any moment of its own thread (signal-safety(7)), and may jump
 * out of it. Inside the engine the thread may hold locks that the handler's I/O needs, or
 * that would stay taken for good. So each handler is called by one of ours. If the thread
 * is inside, ours sends the signal to the thread again, blocked until the thread leaves.
 * The kernel then delivers it as it would have, with the mask, the stack and the siginfo
 * that belong to it.
 *
 * Limits: what the processor raises (a wrong pointer) can't wait, nor can a handler that
 * is installed by system call. Their I/O is refused inside: EDEADLK.
 */
#include "core/signal.h"

#include <signal.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "core/adapter.h"

#define SIGNALS 65
#define TAKES_INFO (1ull << 63) /* the program's own flags, with the address of its handler */
#define ONCE (1ull << 62)

static _Atomic uint64_t handlers[SIGNALS];

typedef void (*simple_handler)(int);
typedef void (*info_handler)(int, siginfo_t *, void *);

_Thread_local volatile uint64_t tb_held_signals __attribute__((tls_model("initial-exec")));

/* By system call: this thread's mask alone, and no lock of libc's. */
static void change_mask(int how, uint64_t signals)
{
    REAL(syscall)(SYS_rt_sigprocmask, how, &signals, NULL, sizeof(signals));
}

/*
 * The note is cleared first: the signals come at once, and their handlers may go inside and
 * leave again.
 */
void tb_release_signals(void)
{
    uint64_t held = tb_held_signals;
    int saved = errno;
    tb_held_signals = 0;
    change_mask(SIG_UNBLOCK, held);
    errno = saved;
}

/* A wrong pointer would be met again for ever. One that another process sent can wait. */
static bool can_wait(int sig, const siginfo_t *info)
{
    bool raised = sig == SIGSEGV || sig == SIGBUS || sig == SIGFPE || sig == SIGILL || sig == SIGTRAP || sig == SIGSYS;
    return !raised || info->si_code <= 0;
}

/* Blocked before it is sent again, now and when the interrupted code goes on. */
static bool hold(int sig, siginfo_t *info, ucontext_t *interrupted)
{
    int saved = errno;
    change_mask(SIG_BLOCK, 1ull << (sig - 1));
    bool sent = REAL(syscall)(SYS_rt_tgsigqueueinfo, getpid(), REAL(syscall)(SYS_gettid), sig, info) == 0;
    errno = saved;
    if (!sent) /* too many are pending */
        return false;
    sigaddset(&interrupted->uc_sigmask, sig);
    tb_held_signals |= 1ull << (sig - 1);
    return true;
}

/* SA_RESETHAND is ours to keep, since the kernel would reset our own handler. */
static void deliver(int sig, siginfo_t *info, void *context)
{
    uint64_t handler = handlers[sig];
    if (tb_inside && can_wait(sig, info) && hold(sig, info, context))
        return;
    if (handler & ONCE)
        REAL(sigaction)(sig, &(struct sigaction){.sa_handler = SIG_DFL}, NULL);
    handler &= ~(TAKES_INFO | ONCE);
    ((info_handler)(uintptr_t)handler)(sig, info, context); /* a handler that takes one argument leaves the others alone */
}

static bool is_function(simple_handler h)
{
    return h != SIG_DFL && h != SIG_IGN && h != SIG_ERR && h != SIG_HOLD;
}

/* Ours in the place of the program's. */
static void put_ours(int sig, struct sigaction *act)
{
    handlers[sig] = (uint64_t)(uintptr_t)act->sa_handler | (act->sa_flags & SA_SIGINFO ? TAKES_INFO : 0) |
                    (act->sa_flags & (int)SA_RESETHAND ? ONCE : 0);
    act->sa_sigaction = deliver;
    act->sa_flags = (act->sa_flags | SA_SIGINFO) & ~(int)SA_RESETHAND;
}

/* The other way round: what the program installed, as it did. */
static void as_installed(uint64_t handler, struct sigaction *act)
{
    if (act->sa_sigaction != deliver)
        return;
    act->sa_handler = (simple_handler)(uintptr_t)(handler & ~(TAKES_INFO | ONCE));
    act->sa_flags &= handler & TAKES_INFO ? ~0 : ~SA_SIGINFO;
    act->sa_flags |= handler & ONCE ? (int)SA_RESETHAND : 0;
}

static bool is_ours(int sig)
{
    return !tb_inside && sig > 0 && sig < SIGNALS && tb_adapter_engine();
}

TB_WRAPPER int sigaction(int sig, const struct sigaction *act, struct sigaction *old)
{
    if (!is_ours(sig))
        return REAL(sigaction)(sig, act, old);
    uint64_t before = handlers[sig];
    struct sigaction ours, was;
    if (act)
        ours = *act;
    if (act && is_function(act->sa_handler))
        put_ours(sig, &ours);
    int rc = REAL(sigaction)(sig, act ? &ours : NULL, &was);
    if (rc == 0)
        as_installed(before, &was);
    if (rc == 0 && old)
        *old = was;
    return rc;
}

/* Each of these has flags of its own: libc installs the handler, and ours takes its place. */
static simple_handler by_other_name(int sig, simple_handler handler, simple_handler (*real)(int, simple_handler))
{
    struct sigaction act;
    if (!is_ours(sig))
        return real(sig, handler);
    uint64_t before = handlers[sig];
    simple_handler was = real(sig, handler);
    if (was != SIG_ERR && is_function(handler) && REAL(sigaction)(sig, NULL, &act) == 0 && act.sa_handler == handler) {
        put_ours(sig, &act);
        REAL(sigaction)(sig, &act, NULL);
    }
    return was == (simple_handler)(void (*)(void))deliver ? (simple_handler)(uintptr_t)(before & ~(TAKES_INFO | ONCE)) : was;
}

simple_handler bsd_signal(int sig, simple_handler handler);
simple_handler __sysv_signal(int sig, simple_handler handler);
/* clang-format off: one line each */
TB_WRAPPER simple_handler signal(int sig, simple_handler handler)
{
    return by_other_name(sig, handler, REAL(signal));
}
TB_WRAPPER simple_handler ssignal(int sig, simple_handler handler)
{
    return by_other_name(sig, handler, REAL(signal));
}
TB_WRAPPER simple_handler bsd_signal(int sig, simple_handler handler)
{
    return by_other_name(sig, handler, REAL(signal));
}
TB_WRAPPER simple_handler __sysv_signal(int sig, simple_handler handler)
{
    return by_other_name(sig, handler, REAL(__sysv_signal));
}
TB_WRAPPER simple_handler sysv_signal(int sig, simple_handler handler)
{
    return by_other_name(sig, handler, REAL(__sysv_signal));
}
/* clang-format on */
TB_WRAPPER simple_handler sigset(int sig, simple_handler handler)
{
    return by_other_name(sig, handler, (simple_handler(*)(int, simple_handler))tb_real("sigset"));
}
