/*
 * Processes.  A forked child shares descriptions through the region; what another
 * program inherits or is sent is made coherent.
 */
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/adapter.h"

/* libc calls the handlers of core/attach.c; it does not tell them that a fork failed. */
TB_WRAPPER pid_t fork(void)
{
    pid_t pid = REAL(fork)();
    if (pid < 0)
        tb_fork_failed();
    return pid;
}

/* A vfork child shares our memory: its close and dup2 would change the parent's table. */
TB_WRAPPER pid_t vfork(void)
{
    return fork();
}

TB_WRAPPER pid_t _Fork(void)
{
    bool told = tb_fork_begins(false);
    pid_t pid = REAL(_Fork)();
    if (told)
        tb_fork_ends(pid);
    return pid;
}

struct child {
    int (*run)(void *);
    void *argument;
};

static int run_child(void *arg)
{
    struct child c = *(struct child *)arg;
    tb_fork_ends(0);
    return c.run(c.argument);
}

/*
 * A fork, unless the child shares the memory: then it is a thread, or waits to run another program. One without other flags is a
 * _Fork, whose child can use the engine; only the stack is another. Arguments that were not given are not looked at.
 *
 * Limit: a child that shares no memory, but has thread-local storage of its own, is not told.
 */
TB_WRAPPER int clone(int (*run)(void *), void *stack, int flags, void *argument, ...)
{
    va_list args;
    va_start(args, argument);
    void *parent = va_arg(args, void *), *tls = va_arg(args, void *), *number = va_arg(args, void *);
    va_end(args);
    struct child c = {run, argument};
    bool is_fork = run && stack && !(flags & (CLONE_VM | CLONE_SETTLS));
    if (is_fork && flags == SIGCHLD) {
        pid_t pid = _Fork();
        return pid ? pid : (_exit(run(argument)), 0);
    }
    if (!is_fork || !tb_fork_begins(true))
        return REAL(clone)(run, stack, flags, argument, parent, tls, number);
    int pid = REAL(clone)(run_child, stack, flags, &c, parent, tls, number);
    tb_fork_ends(pid);
    return pid;
}

/* Descriptors on their way to another process, which knows nothing of them: 0, or -1 and errno where a flush failed. */
static int pass_on(struct msghdr *m)
{
    int rc = 0;
    for (struct cmsghdr *c = m->msg_controllen ? CMSG_FIRSTHDR(m) : NULL; c; c = CMSG_NXTHDR(m, c)) {
        size_t n = c->cmsg_len > CMSG_LEN(0) ? (c->cmsg_len - CMSG_LEN(0)) / sizeof(int) : 0;
        for (size_t i = 0; c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS && i < n && !rc; i++)
            rc = tb_fd_coherent(((int *)(void *)CMSG_DATA(c))[i]);
    }
    return rc;
}

/* Before it is sent: the receiver may read at once. */
TB_WRAPPER ssize_t sendmsg(int socket, const struct msghdr *message, int flags)
{
    return message && pass_on((struct msghdr *)message) ? -1 : REAL(sendmsg)(socket, message, flags);
}

/* The first that can't be passed on is not sent, nor are those after it. */
TB_WRAPPER int sendmmsg(int socket, struct mmsghdr *messages, unsigned n, int flags)
{
    unsigned ready = 0;
    n = n < IOV_MAX ? n : IOV_MAX; /* the kernel looks at no more */
    while (messages && ready < n && !pass_on(&messages[ready].msg_hdr))
        ready++;
    return messages && ready < n && !ready ? -1 : REAL(sendmmsg)(socket, messages, messages ? ready : n, flags);
}

/* What the shell inherits is flushed first. */
TB_WRAPPER int system(const char *command)
{
    return tb_coherent_for_exec() ? -1 : REAL(system)(command);
}

TB_WRAPPER FILE *popen(const char *command, const char *mode)
{
    return tb_coherent_for_exec() ? NULL : REAL(popen)(command, mode);
}
