/* exec HOW PROGRAM FILE: write FILE, keep it open and unflushed, and execute PROGRAM FILE in one of the ways there are. */
#include <fcntl.h>
#include <libgen.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static int finish(pid_t pid, int rc)
{
    int status = 0;
    if (rc || waitpid(pid, &status, 0) != pid)
        return 3;
    return WEXITSTATUS(status);
}

int main(int argc, char **argv)
{
    if (argc != 4)
        return 2;
    char *how = argv[1], *program = argv[2], *words[] = {"p", argv[3], NULL}, *none[] = {NULL};
    int fd = open(argv[3], O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0666);
    if (fd < 0 || write(fd, how, strlen(how)) != (ssize_t)strlen(how))
        return 3;
    char *name = basename(strdup(program)), *folder = dirname(strdup(program));
    pid_t pid = 0;
    setenv("PATH", folder, 1);
    if (!strcmp(how, "execl"))
        execl(program, "p", argv[3], NULL);
    else if (!strcmp(how, "execle"))
        execle(program, "p", argv[3], NULL, environ);
    else if (!strcmp(how, "execlp"))
        execlp(name, "p", argv[3], NULL);
    else if (!strcmp(how, "execv"))
        execv(program, words);
    else if (!strcmp(how, "execve"))
        execve(program, words, environ);
    else if (!strcmp(how, "execve-bare"))
        execve(program, words, none);
    else if (!strcmp(how, "execvp"))
        execvp(name, words);
    else if (!strcmp(how, "execvpe"))
        execvpe(name, words, environ);
    else if (!strcmp(how, "fexecve"))
        fexecve(open(program, O_RDONLY), words, environ);
    else if (!strcmp(how, "execveat"))
        execveat(open(folder, O_RDONLY | O_DIRECTORY), name, words, environ, 0);
    else if (!strcmp(how, "execveat-fd"))
        execveat(open(program, O_RDONLY), "", words, environ, AT_EMPTY_PATH);
    else if (!strcmp(how, "posix_spawn"))
        return finish(pid, posix_spawn(&pid, program, NULL, NULL, words, environ));
    else if (!strcmp(how, "posix_spawn-bare"))
        return finish(pid, posix_spawn(&pid, program, NULL, NULL, words, none));
    else if (!strcmp(how, "posix_spawnp"))
        return finish(pid, posix_spawnp(&pid, name, NULL, NULL, words, environ));
    perror(how);
    return 3;
}
