/*
 * Actions by which others come in: children, programs that are executed, threads, and signal handlers. A child has no fcntl locks of
 * its parent, and must not take them away; an executed program goes on with them.
 */
#include "locks.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

static void end_child(void)
{
    pid_t p = fork();
    if (!p)
        _exit(0);
    waitpid(p, NULL, 0);
}

static void child_closes(void)
{
    pid_t p = fork();
    if (!p) {
        close(fd);
        close(second);
        closefrom(3);
        _exit(0);
    }
    waitpid(p, NULL, 0);
}

void child_acts(void)
{
    pid_t p = fork();
    if (!p) {
        truncate_name();
        link_unlink();
        sync_fd();
        close(open(f, O_RDWR));
        exit(0);
    }
    waitpid(p, NULL, 0);
}

static void vfork_child(void)
{
    pid_t p = vfork();
    if (!p)
        _exit(0);
    waitpid(p, NULL, 0);
}

static void run_shell(void)
{
    (void)!system("true");
}

void run_program(void)
{
    char *args[] = {"true", NULL};
    pid_t p;
    if (posix_spawnp(&p, "true", NULL, NULL, args, environ) == 0)
        waitpid(p, NULL, 0);
}

static void run_pipe(void)
{
    pclose(popen("true", "r"));
}

static void drain(void)
{
    const char *command = getenv("TB_DRAIN");
    (void)!system(command ? command : "true");
}

static void ignore(int number)
{
    (void)number;
}

/* A lock that another process has: waiting for it ends by a signal. */
static void lock_interrupted(void)
{
    struct flock range = {.l_type = F_WRLCK, .l_len = 1};
    int ready[2];
    char c;
    if (pipe(ready))
        die("pipe");
    pid_t p = fork();
    if (!p) {
        fcntl(other, F_SETLK, &range);
        (void)!write(ready[1], "x", 1);
        pause();
    }
    (void)!read(ready[0], &c, 1);
    sigaction(SIGALRM, &(struct sigaction){.sa_handler = ignore}, NULL);
    setitimer(ITIMER_REAL, &(struct itimerval){.it_value.tv_usec = 50000}, NULL);
    int rc = fcntl(other, F_SETLKW, &range);
    printf("%d %s\n", rc, strerror(errno));
    kill(p, SIGKILL);
    waitpid(p, NULL, 0);
    truncate_name();
    alarm(200);
}

static void act_in_handler(int number)
{
    (void)number;
    struct flock range = {.l_type = F_WRLCK, .l_start = 300, .l_len = 1};
    fcntl(fd, F_SETLK, &range);
    truncate_name();
    close(dup(other));
}

static void lock_in_handler(void)
{
    sigaction(SIGALRM, &(struct sigaction){.sa_handler = act_in_handler, .sa_flags = SA_RESTART}, NULL);
    setitimer(ITIMER_REAL, &(struct itimerval){{0, 700}, {0, 700}}, NULL);
    for (int i = 0; i < 40; i++) {
        truncate_longer();
        append_sync();
        link_unlink();
    }
    setitimer(ITIMER_REAL, &(struct itimerval){{0, 0}, {0, 0}}, NULL);
    act_in_handler(0);
    alarm(200);
}

static void *acts_in_thread(void *act)
{
    ((void (*)(void)) * (void **)act)();
    return NULL;
}

static void in_thread(void (*act)(void))
{
    pthread_t t;
    void *what = (void *)act;
    pthread_create(&t, NULL, acts_in_thread, &what);
    pthread_join(t, NULL);
}

static void thread_syncs(void)
{
    in_thread(append_sync);
}

static void thread_truncates(void)
{
    in_thread(truncate_name);
}

static void thread_closes(void)
{
    in_thread(close_second);
}

/* The program goes on as another one: "exec" acts before, and again after it; its name says which files. */
static void execute(const char *what, bool but_second)
{
    char numbers[4][16];
    if (but_second)
        fcntl(second, F_SETFD, FD_CLOEXEC);
    for (int i = 0; i < 4; i++)
        snprintf(numbers[i], sizeof(numbers[i]), "%d", (int[]){fd, appended, other, second}[i]);
    execl("/proc/self/exe", "locks", "after", what, f, numbers[0], numbers[1], numbers[2], numbers[3], NULL);
    die("exec");
}

static void exec_it(void)
{
    execute("nothing", false);
}

static void exec_after(void)
{
    truncate_name();
    link_unlink();
    execute("nothing", false);
}

static void exec_before(void)
{
    execute("names", false);
}

static void exec_both(void)
{
    truncate_name();
    execute("names", false);
}

static void exec_twice(void)
{
    truncate_name();
    execute("twice", false);
}

static void exec_closes(void)
{
    execute("close", false);
}

static void exec_closing(void)
{
    execute("nothing", true);
}

static void exec_fails(void)
{
    truncate_name();
    execl("/nothing/such", "x", NULL);
    truncate_longer();
}

static void exec_mapped(void)
{
    (void)!mmap(NULL, BYTES, PROT_READ, MAP_SHARED, fd, 0);
    execute("names", false);
}

/* The program that the locker executed. */
int after_exec(char **args)
{
    snprintf(f, sizeof(f), "%s", args[1]);
    snprintf(second_name, sizeof(second_name), "second-%s", f);
    fd = atoi(args[2]);
    appended = atoi(args[3]);
    other = atoi(args[4]);
    second = atoi(args[5]);
    if (strcmp(args[0], "names") == 0) {
        truncate_name();
        link_unlink();
    }
    if (strcmp(args[0], "close") == 0)
        close(second);
    if (strcmp(args[0], "twice") == 0) {
        truncate_longer();
        execute("names", false);
    }
    tell(TELL);
    hear(HEAR);
    return 0;
}

const struct action process_actions[] = {
    ACTION(end_child),        ACTION(child_closes),    ACTION(child_acts),   ACTION(vfork_child),  ACTION(run_shell),
    ACTION(run_program),      ACTION(run_pipe),        ACTION(drain),        ACTION(thread_syncs), ACTION(thread_truncates),
    ACTION(thread_closes),    ACTION(exec_it),         ACTION(exec_after),   ACTION(exec_before),  ACTION(exec_both),
    ACTION(exec_twice),       ACTION(exec_closes),     ACTION(exec_closing), ACTION(exec_fails),   ACTION(exec_mapped),
    ACTION(lock_interrupted), ACTION(lock_in_handler), {NULL, NULL},
};
