/*
 * Processes.  A forked child shares descriptions through the region; a program
 * that is executed knows nothing of them, so what it inherits is made coherent.
 */
#include <spawn.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

#include "adapter.h"

/* A vfork child shares our memory: its close and dup2 would change the parent's table. */
TB_WRAPPER pid_t vfork(void)
{
    return fork();
}

TB_WRAPPER int execve(const char *path, char *const argv[], char *const envp[])
{
    tb_coherent_for_exec();
    return REAL(execve)(path, argv, envp);
}

TB_WRAPPER int execv(const char *path, char *const argv[])
{
    tb_coherent_for_exec();
    return REAL(execv)(path, argv);
}

TB_WRAPPER int execvp(const char *file, char *const argv[])
{
    tb_coherent_for_exec();
    return REAL(execvp)(file, argv);
}

TB_WRAPPER int execvpe(const char *file, char *const argv[], char *const envp[])
{
    tb_coherent_for_exec();
    return REAL(execvpe)(file, argv, envp);
}

TB_WRAPPER int fexecve(int fd, char *const argv[], char *const envp[])
{
    tb_coherent_for_exec();
    return REAL(fexecve)(fd, argv, envp);
}

#define LIST_LIMIT 4096

/* The words of execl and its kin, up to the NULL; what stands behind it stays in `args`. */
static int collect(const char *first, va_list *args, const char *argv[LIST_LIMIT])
{
    int n = 0;
    for (const char *word = first; word && n < LIST_LIMIT - 1; word = va_arg(*args, const char *))
        argv[n++] = word;
    argv[n] = NULL;
    return n;
}

TB_WRAPPER int execl(const char *path, const char *first, ...)
{
    const char *argv[LIST_LIMIT];
    va_list args;
    va_start(args, first);
    collect(first, &args, argv);
    va_end(args);
    return execv(path, (char *const *)argv);
}

TB_WRAPPER int execlp(const char *file, const char *first, ...)
{
    const char *argv[LIST_LIMIT];
    va_list args;
    va_start(args, first);
    collect(first, &args, argv);
    va_end(args);
    return execvp(file, (char *const *)argv);
}

TB_WRAPPER int execle(const char *path, const char *first, ...)
{
    const char *argv[LIST_LIMIT];
    va_list args;
    va_start(args, first);
    collect(first, &args, argv);
    char *const *envp = va_arg(args, char *const *);
    va_end(args);
    return execve(path, (char *const *)argv, envp);
}

TB_WRAPPER int posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
                           const posix_spawnattr_t *attributes, char *const argv[], char *const envp[])
{
    tb_coherent_for_exec();
    return REAL(posix_spawn)(pid, path, actions, attributes, argv, envp);
}

TB_WRAPPER int posix_spawnp(pid_t *pid, const char *file, const posix_spawn_file_actions_t *actions,
                            const posix_spawnattr_t *attributes, char *const argv[], char *const envp[])
{
    tb_coherent_for_exec();
    return REAL(posix_spawnp)(pid, file, actions, attributes, argv, envp);
}

TB_WRAPPER int system(const char *command)
{
    tb_coherent_for_exec();
    return REAL(system)(command);
}
