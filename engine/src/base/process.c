/*
 * What /proc says of a process: when it started, which program it runs, and whether it is
 * stopped. With that a number that is used again is told from the old process.
 */
#include "base/process.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include <tierbench/io.h>

/*
 * Reads one file of /proc/PID; a negative errno if the process is gone or may not be looked
 * into. Through the libc layer, so that a preloaded adapter neither counts nor manages it.
 */
static ssize_t read_process(int pid, const char *what, void *out, size_t size)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/%s", pid, what);
    struct tb_io *io = tb_io_libc();
    int fd = TB_IO(io, open, path, O_RDONLY | O_CLOEXEC, 0);
    if (fd < 0)
        return fd;
    ssize_t n = TB_IO(io, read, fd, out, size);
    TB_IO(io, close, fd);
    return n;
}

/* The text of /proc/PID/stat from a word on; NULL: it has fewer.  The name may hold anything, so words count from its end. */
static const char *stat_word(const char *text, int n)
{
    const char *p = strrchr(text, ')');
    for (int word = 0; p && word < n; word++)
        p = strchr(p + 1, ' ');
    return p ? p + 1 : NULL;
}

/*
 * A killed process keeps its number until its parent asks for its end. A process with a
 * dead first thread and others alive lives.
 */
static bool has_ended(const char *text)
{
    const char *state = stat_word(text, 1), *threads = stat_word(text, 18);
    return state && threads && (*state == 'Z' || *state == 'X') && strtol(threads, NULL, 10) <= 1;
}

/*
 * In clock ticks since the boot, so two processes of one number differ unless they started
 * within a hundredth of a second. 0 also if no descriptor is free: then the caller must not
 * conclude anything.
 */
uint64_t tb_process_start_time(int pid)
{
    char text[1024];
    ssize_t n = read_process(pid, "stat", text, sizeof(text) - 1);
    if (n <= 0)
        return 0;
    text[n] = 0;
    const char *start = stat_word(text, 20);
    if (has_ended(text))
        return TB_PROCESS_ENDED;
    return start ? strtoull(start, NULL, 10) : 0;
}

/* exec gives a process new addresses, so the value tells one program of a process from the next. */
uint64_t tb_process_image(int pid)
{
    uint64_t words[64], mixed = 0;
    ssize_t n = read_process(pid, "auxv", words, sizeof(words));
    for (ssize_t i = 0; i < n / (ssize_t)sizeof(words[0]); i++)
        mixed = (mixed ^ words[i]) * 0x9e3779b97f4a7c15u + 1;
    return mixed;
}

/* The name, and the letter of its state; false: there is no such process. */
static bool look_up(int pid, char *name, size_t size, char *state)
{
    char text[512];
    ssize_t n = read_process(pid, "stat", text, sizeof(text) - 1);
    text[n > 0 ? n : 0] = 0;
    char *from = strchr(text, '('), *to = strrchr(text, ')');
    if (!from || !to || !to[1])
        return false;
    *to = 0;
    snprintf(name, size, "%.60s", from + 1);
    *state = to[2];
    return true;
}

/* Stopped by a signal or held by a debugger: it may stay so for any time. */
bool tb_process_is_stopped(int pid)
{
    char name[64], state;
    return look_up(pid, name, sizeof(name), &state) && (state == 'T' || state == 't');
}

int tb_process_describe(int pid, char *out, size_t size)
{
    char name[64], state;
    if (look_up(pid, name, sizeof(name), &state))
        return snprintf(out, size, "process %d (%s%s)", pid, name, state == 'T' || state == 't' ? ", stopped" : "");
    return snprintf(out, size, "process %d", pid);
}

/* Where the limit cannot be asked or raised it stays. */
void tb_process_writes_any_size(void)
{
    struct rlimit most;
    signal(SIGXFSZ, SIG_IGN);
    if (getrlimit(RLIMIT_FSIZE, &most) == 0 && most.rlim_cur < most.rlim_max) {
        most.rlim_cur = most.rlim_max;
        setrlimit(RLIMIT_FSIZE, &most);
    }
}
