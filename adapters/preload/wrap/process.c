/*
 * Processes.  A forked child shares descriptions through the region; what another
 * program inherits or is sent is made coherent, and so are the files that libc
 * opens for it.
 */
#include <fcntl.h>
#include <sched.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/adapter.h"

/* pthread_atfork does not tell that a fork failed: what was made for the child is given back here. */
TB_WRAPPER pid_t fork(void)
{
    pid_t pid = REAL(fork)();
    tb_engine *e = pid < 0 && !tb_inside ? tb_adapter_engine() : NULL;
    if (e) {
        int saved = errno;
        tb_enter();
        tb_engine_atfork_failed(e);
        tb_leave();
        errno = saved;
    }
    return pid;
}

/* A vfork child shares our memory: its close and dup2 would change the parent's table. */
TB_WRAPPER pid_t vfork(void)
{
    return fork();
}

/* No handler runs. */
TB_WRAPPER pid_t _Fork(void)
{
    tb_adapter_bare_fork();
    return REAL(_Fork)();
}

/* A thread is none: it shares all. */
TB_WRAPPER int clone(int (*run)(void *), void *stack, int flags, void *argument, ...)
{
    va_list args;
    va_start(args, argument);
    void *parent = va_arg(args, void *), *tls = va_arg(args, void *), *child = va_arg(args, void *);
    va_end(args);
    if (!(flags & CLONE_VM))
        tb_adapter_bare_fork();
    return REAL(clone)(run, stack, flags, argument, parent, tls, child);
}

/*
 * libc opens it in the child, past every wrapper, and the program there keeps
 * it: opened here too, coherent, until this process ends.
 */
TB_WRAPPER int posix_spawn_file_actions_addopen(posix_spawn_file_actions_t *actions, int fd, const char *path, int flags, mode_t mode)
{
    struct tb_path p;
    if (!tb_path_find(AT_FDCWD, path, &p))
        return REAL(posix_spawn_file_actions_addopen)(actions, fd, path, flags, mode);
    int held = open(path, flags | O_CLOEXEC, mode);
    if (held >= 0)
        tb_fd_coherent(held);
    tb_path_real(&(int){AT_FDCWD}, &path, TB_NAME_LOOK, &p);
    return REAL(posix_spawn_file_actions_addopen)(actions, fd, path, flags & ~(held >= 0 ? O_EXCL : 0), mode);
}

/* The copy is inherited, whatever becomes of the descriptor itself. */
TB_WRAPPER int posix_spawn_file_actions_adddup2(posix_spawn_file_actions_t *actions, int fd, int newfd)
{
    tb_fd_coherent(fd);
    return REAL(posix_spawn_file_actions_adddup2)(actions, fd, newfd);
}

/* Descriptors on their way to another process, which knows nothing of them. */
static void pass_on(struct msghdr *m)
{
    for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
        size_t n = c->cmsg_len > CMSG_LEN(0) ? (c->cmsg_len - CMSG_LEN(0)) / sizeof(int) : 0;
        for (size_t i = 0; c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS && i < n; i++)
            tb_fd_coherent(((int *)(void *)CMSG_DATA(c))[i]);
    }
}

/* Before it is sent: the receiver may read at once. */
TB_WRAPPER ssize_t sendmsg(int socket, const struct msghdr *message, int flags)
{
    if (message && message->msg_controllen)
        pass_on((struct msghdr *)message);
    return REAL(sendmsg)(socket, message, flags);
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
