/*
 * Signal handlers that do I/O, as POSIX allows them to (signal-safety(7)), at any
 * moment of their thread's own I/O, while other processes come and go: all that a
 * handler wrote is there, nothing hangs, and a handler that jumps out leaves nothing locked.
 *   handlers ROUNDS     in a managed folder
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define LINE 100

static int failures;
#define CHECK(ok) ((ok) ? (void)0 : (void)(failures++ < 10 && printf("%d: %s (%s)\n", __LINE__, #ok, strerror(errno))))

static int lines_fd;
static volatile int n_lines, n_refused;

static void line_of(int k, char *out)
{
    memset(out, 'a' + k % 26, LINE);
    snprintf(out, LINE, "line %d", k);
}

/* Appends to one file, and makes, writes and removes another. */
static void write_lines(int sig, siginfo_t *info, void *context)
{
    char line[LINE];
    (void)context;
    int saved = errno;
    line_of(n_lines, line);
    if (sig == SIGALRM && info->si_signo == SIGALRM && write(lines_fd, line, LINE) == LINE)
        n_lines++;
    else
        n_refused++;
    int fd = open("mark", O_WRONLY | O_CREAT | O_TRUNC, 0644);
    if (fd < 0 || write(fd, line, LINE) != LINE || fsync(fd) || close(fd) || unlink("mark"))
        n_refused++;
    errno = saved;
}

static sigjmp_buf out;

static void jump_out(int sig)
{
    siglongjmp(out, sig);
}

/* One signal, so many microseconds from now. */
static void signal_in(int microseconds)
{
    setitimer(ITIMER_REAL, &(struct itimerval){{0, 0}, {0, microseconds}}, NULL);
}

/* A repair after a client that is gone looks at everything. */
static void come_and_go(void)
{
    pid_t pid = fork();
    if (pid == 0) {
        char byte = 'x';
        int fd = open("gone", O_WRONLY | O_CREAT, 0644);
        _exit(write(fd, &byte, 1) != 1);
    }
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    CHECK(status == 0);
}

static void work(int fd, int i)
{
    static char block[1 << 16], got[1 << 16];
    memset(block, i, sizeof(block));
    off_t at = (off_t)(i % 24) * (off_t)sizeof(block);
    signal_in(1 + i * 7 % 150);
    CHECK(pwrite(fd, block, sizeof(block), at) == sizeof(block));
    CHECK(pread(fd, got, sizeof(got), at) == sizeof(got) && !memcmp(got, block, sizeof(got)));
    if (i % 10 == 0)
        CHECK(ftruncate(fd, at + (off_t)sizeof(block)) == 0);
    if (i % 25 == 0)
        CHECK(fsync(fd) == 0);
    if (i % 20 == 0)
        come_and_go();
}

static void compare_lines(void)
{
    char line[LINE], got[LINE];
    int fd = open("lines", O_RDONLY);
    for (int k = 0; k < n_lines; k++) {
        line_of(k, line);
        if (read(fd, got, LINE) != LINE || memcmp(got, line, LINE)) {
            CHECK(!"a line of the handler's is missing");
            break;
        }
    }
    CHECK(read(fd, got, 1) == 0);
    close(fd);
}

static void serve(int rounds)
{
    struct sigaction act = {.sa_sigaction = write_lines, .sa_flags = SA_RESTART | SA_SIGINFO}, was;
    lines_fd = open("lines", O_WRONLY | O_CREAT | O_APPEND, 0644);
    int fd = open("worked", O_RDWR | O_CREAT, 0644);
    CHECK(sigaction(SIGALRM, &act, NULL) == 0 && sigaction(SIGALRM, NULL, &was) == 0 && was.sa_sigaction == write_lines);
    for (int i = 0; i < rounds; i++)
        work(fd, i);
    signal_in(0);
    CHECK(signal(SIGALRM, SIG_DFL) == (void (*)(int))(void *)write_lines && signal(SIGALRM, SIG_DFL) == SIG_DFL);
    close(fd);
    close(lines_fd);
    compare_lines();
    printf("%d lines, %d refused\n", n_lines, n_refused);
    CHECK(n_lines > 0 && n_refused == 0);
}

/* A shell's way: what was under way is given up, and the next call finds no lock held by it. */
static void jump(int rounds)
{
    static char block[1 << 16];
    int fd = open("jumped", O_RDWR | O_CREAT, 0644);
    volatile int jumps = 0;
    struct sigaction act = {.sa_handler = jump_out};
    sigaction(SIGALRM, &act, NULL);
    for (volatile int i = 0; i < rounds; i++) {
        if (sigsetjmp(out, 1)) {
            jumps++;
            continue;
        }
        signal_in(1 + i * 7 % 150);
        for (int k = 0; k < 100000; k++)
            CHECK(pwrite(fd, block, sizeof(block), (off_t)(k % 24) * (off_t)sizeof(block)) == sizeof(block));
    }
    signal(SIGALRM, SIG_IGN);
    CHECK(jumps > 0 && fsync(fd) == 0 && close(fd) == 0);
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 500;
    setvbuf(stdout, NULL, _IOLBF, 0);
    serve(rounds);
    jump(rounds / 10);
    printf("%d failures\n", failures);
    return failures != 0;
}
