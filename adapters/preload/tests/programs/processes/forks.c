/*
 * Every kind of fork, in the current folder, which is managed: a child uses what it inherited and closes it, and its
 * parent's descriptor stays what it was. A child that can use the engine makes a file, too; one that can't is told so.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "checks.h"

static int inherited;

static int make(const char *path, const char *text)
{
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0644);
    CHECK(write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    return fd;
}

/* In the child; its exit status. */
static int use_inherited(void *makes)
{
    failures = 0;
    CHECK(pwrite(inherited, "child", 5, 5) == 5 && close(inherited) == 0);
    if (makes)
        close(make("made", makes));
    return failures;
}

static int open_managed(void *name)
{
    return open(name, O_RDONLY) < 0;
}

static int run_program(void *name)
{
    execlp("grep", "grep", "-q", "made", name, (char *)NULL);
    return 1;
}

static void goes_on_after(pid_t pid, const char *how)
{
    int status, before = failures, other;
    CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0);
    other = make("other", "xx"); /* not by the description that the child gave back */
    CHECK(pwrite(inherited, "again", 5, 10) == 5 && holds("inherited", "firstchildagain") && holds("other", "xx"));
    CHECK(close(other) == 0 && close(inherited) == 0);
    if (failures > before)
        printf("after %s\n", how);
}

static pid_t by_fork_number(void)
{
#ifdef SYS_fork
    return (pid_t)syscall(SYS_fork);
#else
    return fork();
#endif
}

static pid_t by_clone_number(void)
{
    return (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, 0);
}

static void forks(void)
{
    static const struct {
        pid_t (*make)(void);
        const char *name;
    } kinds[] = {{fork, "fork"}, {_Fork, "_Fork"}, {by_fork_number, "SYS_fork"}, {by_clone_number, "SYS_clone"}};
    for (int i = 0; i < 4; i++) {
        inherited = make("inherited", "first");
        pid_t pid = kinds[i].make();
        if (pid == 0)
            _exit(use_inherited("made"));
        goes_on_after(pid, kinds[i].name);
        CHECK(holds("made", "made") && unlink("made") == 0);
    }
}

static pid_t cloned(int (*run)(void *), int flags, void *argument)
{
    static char stack[1 << 20] __attribute__((aligned(16)));
    static pid_t number;
    return clone(run, stack + sizeof(stack), flags, argument, &number, NULL, NULL);
}

/* With more flags a child has no engine: as in another PID namespace. */
static void clones(void)
{
    int status;
    inherited = make("inherited", "first");
    goes_on_after(cloned(use_inherited, SIGCHLD, "made"), "clone");
    CHECK(holds("made", "made"));
    inherited = make("inherited", "first");
    goes_on_after(cloned(use_inherited, SIGCHLD | CLONE_PARENT_SETTID, NULL), "clone with flags");
    pid_t pid = cloned(run_program, SIGCHLD | CLONE_PARENT_SETTID, "made");
    CHECK(waitpid(pid, &status, 0) == pid && status == 0);
    pid = cloned(open_managed, SIGCHLD | CLONE_PARENT_SETTID, "made");
    CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 2);
    CHECK(cloned(use_inherited, CLONE_THREAD, NULL) == -1 && errno == EINVAL); /* not without shared memory */
    CHECK(syscall(SYS_clone, CLONE_THREAD, NULL, NULL, NULL, 0) == -1 && errno == EINVAL);
    CHECK(syscall(SYS_clone3, NULL, 0) == -1);
    CHECK(holds("made", "made"));
}

int main(void)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    forks();
    clones();
    printf("%d failures\n", failures);
    return failures != 0;
}
