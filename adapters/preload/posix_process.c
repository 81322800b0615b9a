/*
 * Processes.  A forked child shares descriptions through the region; a program
 * that is executed knows nothing of them, so what it inherits is made coherent,
 * and so are the files that libc or the kernel open for it.
 */
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <tierbench/program.h>

#include "adapter.h"
#include "record_locks.h"

/* pthread_atfork tells nobody that a fork failed: what was made for the child goes again. */
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

static const char *variable(char *const *environment, const char *name)
{
    size_t n = strlen(name);
    for (; environment && *environment; environment++)
        if (strncmp(*environment, name, n) == 0 && (*environment)[n] == '=')
            return *environment + n + 1;
    return NULL;
}

static const char library[] = "libtierbench_preload";
static bool by_environment; /* we were preloaded by it, and not by the system's list */

static __attribute__((constructor)) void note_environment(void)
{
    const char *list = getenv("LD_PRELOAD");
    by_environment = list && strstr(list, library);
}

/* The next program's environment lacks the adapter, or says of no instance. */
static bool leaves_adapter(char *const *next)
{
    const char *list = variable(next, "LD_PRELOAD");
    bool finds = variable(next, "TIERBENCH_INSTANCE") || variable(next, "TIERBENCH_CONFIG") || variable(next, "HERMES_CONF");
    return by_environment && (!list || !strstr(list, library) || !finds);
}

/*
 * A program that loads no adapter goes to the PFS itself.  It finds there what was
 * written until now, and one line says that it goes past the tiers.
 */
static void announce_unserved(const char *path, char *const *environment)
{
    tb_engine *e = tb_inside ? NULL : tb_adapter_engine();
    char text[PATH_MAX + 128];
    int saved = errno;
    tb_enter();
    const char *why = e && path ? tb_program_unserved(path) : NULL;
    if (e && path && !why && leaves_adapter(environment) && access(path, X_OK) == 0)
        why = "is started without the adapter's environment";
    if (why) {
        tb_engine_flush(e, -1);
        int n = snprintf(text, sizeof(text), "tierbench: %s %s: its I/O passes the tiers by\n", path, why);
        if (REAL(write)(STDERR_FILENO, text, (size_t)n) < 0)
            errno = 0; /* nobody listens */
    }
    tb_leave();
    errno = saved;
}

/* Of a descriptor (where `path` is empty), or of a name beside a directory's. */
static void announce_at(int dirfd, const char *path, char *const *environment)
{
    char text[PATH_MAX];
    if (!path || (dirfd != AT_FDCWD && *path != '/' && snprintf(text, sizeof(text), "/proc/self/fd/%d%s%s", dirfd, *path ? "/" : "", path) >= PATH_MAX))
        return;
    announce_unserved(dirfd == AT_FDCWD || *path == '/' ? path : text, environment);
}

/* The kernel reads the program itself. */
static const char *program(const char *path, char *const *environment, struct tb_path *p)
{
    tb_coherent_for_exec();
    announce_unserved(path, environment);
    if (tb_path_find(AT_FDCWD, path, p))
        tb_path_flush(p);
    tb_path_real(&(int){AT_FDCWD}, &path, TB_NAME_LOOK, p); /* where it fails the kernel has no such name either */
    return path;
}

/* As execvp looks for it; longer names than fit are left to it. */
static const char *named_program(const char *file, char *const *environment, struct tb_path *p)
{
    char path[PATH_MAX];
    const char *list = getenv("PATH");
    if (!file || strchr(file, '/'))
        return program(file, environment, p);
    for (const char *at = list ? list : "/bin:/usr/bin"; *at; at += strspn(at, ":")) {
        size_t n = strcspn(at, ":");
        if (snprintf(path, sizeof(path), "%.*s/%s", (int)n, at, file) < (int)sizeof(path) && access(path, X_OK) == 0)
            return program(path, environment, p) == path ? file : p->real;
        at += n;
    }
    tb_coherent_for_exec();
    return file;
}

/* This process goes on as another program, with its record locks; or the call fails. */
#define REPLACE(call)                                                                                                            \
    (__extension__({                                                                                                             \
        bool begun = tb_locks_exec_begin();                                                                                      \
        int result = (call);                                                                                                     \
        tb_locks_exec_end(begun);                                                                                                \
        result;                                                                                                                  \
    }))

TB_WRAPPER int execve(const char *path, char *const argv[], char *const envp[])
{
    struct tb_path p;
    path = program(path, envp, &p);
    return REPLACE(REAL(execve)(path, argv, envp));
}

TB_WRAPPER int execv(const char *path, char *const argv[])
{
    struct tb_path p;
    path = program(path, environ, &p);
    return REPLACE(REAL(execv)(path, argv));
}

TB_WRAPPER int execvp(const char *file, char *const argv[])
{
    struct tb_path p;
    file = named_program(file, environ, &p);
    return REPLACE(REAL(execvp)(file, argv));
}

TB_WRAPPER int execvpe(const char *file, char *const argv[], char *const envp[])
{
    struct tb_path p;
    file = named_program(file, envp, &p);
    return REPLACE(REAL(execvpe)(file, argv, envp));
}

TB_WRAPPER int fexecve(int fd, char *const argv[], char *const envp[])
{
    tb_coherent_for_exec();
    announce_at(fd, "", envp);
    tb_fd_coherent(fd);
    return REPLACE(REAL(fexecve)(fd, argv, envp));
}

TB_WRAPPER int execveat(int dirfd, const char *path, char *const argv[], char *const envp[], int flags)
{
    tb_coherent_for_exec();
    announce_at(dirfd, path, envp);
    return REPLACE(REAL(execveat)(dirfd, path, argv, envp, flags));
}

typedef int spawn_function(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
                           const posix_spawnattr_t *attributes, char *const argv[], char *const envp[]);

/* libc forks past every wrapper: the child holds what it inherits all the same, whatever this process closes meanwhile. */
static int spawn(spawn_function *real, pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
                 const posix_spawnattr_t *attributes, char *const argv[], char *const envp[])
{
    tb_engine *e = tb_inside || tb_fd_highest() < 0 ? NULL : tb_adapter_engine();
    pid_t made = 0;
    if (!e)
        return real(pid, path, actions, attributes, argv, envp);
    tb_enter();
    tb_engine_atfork_prepare(e);
    int rc = real(&made, path, actions, attributes, argv, envp);
    tb_engine_atfork_parent(e);
    if (rc)
        tb_engine_atfork_failed(e);
    else
        tb_engine_spawned(e, made);
    tb_leave();
    if (rc == 0 && pid)
        *pid = made;
    return rc;
}

TB_WRAPPER int posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
                           const posix_spawnattr_t *attributes, char *const argv[], char *const envp[])
{
    struct tb_path p;
    return spawn(REAL(posix_spawn), pid, program(path, envp, &p), actions, attributes, argv, envp);
}

TB_WRAPPER int posix_spawnp(pid_t *pid, const char *file, const posix_spawn_file_actions_t *actions,
                            const posix_spawnattr_t *attributes, char *const argv[], char *const envp[])
{
    struct tb_path p;
    return spawn(REAL(posix_spawnp), pid, named_program(file, envp, &p), actions, attributes, argv, envp);
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

TB_WRAPPER ssize_t sendmsg(int socket, const struct msghdr *message, int flags)
{
    if (message && message->msg_controllen)
        pass_on((struct msghdr *)message);
    return REAL(sendmsg)(socket, message, flags);
}

TB_WRAPPER int system(const char *command)
{
    tb_coherent_for_exec();
    return REAL(system)(command);
}

TB_WRAPPER FILE *popen(const char *command, const char *mode)
{
    tb_coherent_for_exec();
    return REAL(popen)(command, mode);
}
