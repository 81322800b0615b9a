/*
 * Faults for the mover under test, by LD_PRELOAD: TB_STAGE_FAULT=CALL:FIRST:COUNT:ERRNO makes the
 * calls FIRST to FIRST+COUNT-1 fail with that number; ERRNO 0 kills the process before the
 * call. A call counts where it is about a file of a mover (its name begins with ".tierbench-"
 * or it is a line of the log), so tierctl's own calls are left alone.
 */
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

static atomic_int calls;

static int is_due(const char *call)
{
    char wanted[32] = "", name[16] = "";
    int first = 0, count = 0, error = 0;
    const char *fault = getenv("TB_STAGE_FAULT");
    prctl(PR_GET_NAME, name);
    if (!fault || strcmp(name, "tb-mover") != 0 || sscanf(fault, "%31[^:]:%d:%d:%d", wanted, &first, &count, &error) != 4 ||
        strcmp(wanted, call) != 0)
        return 0;
    int now = ++calls;
    if (now < first || now >= first + count)
        return 0;
    if (!error)
        kill(getpid(), SIGKILL);
    errno = error;
    return 1;
}

#define SHOWN __attribute__((visibility("default")))
#define NEXT(name) ((__typeof__(name) *)dlsym(RTLD_NEXT, #name))

SHOWN ssize_t pwrite64(int fd, const void *bytes, size_t n, off64_t at)
{
    return is_due("pwrite") ? -1 : NEXT(pwrite64)(fd, bytes, n, at);
}

SHOWN ssize_t write(int fd, const void *bytes, size_t n)
{
    return n > 9 && (!memcmp(bytes, "Spectral ", 9) || !memcmp(bytes, "Tierbench", 9)) && is_due("log") ? -1 : NEXT(write)(fd, bytes, n);
}

SHOWN int fsync(int fd)
{
    char link[40], path[4096] = "";
    struct stat st;
    int folder = fstat(fd, &st) == 0 && S_ISDIR(st.st_mode);
    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    int own = readlink(link, path, sizeof(path) - 1) > 0 && strstr(path, "/.tierbench-");
    return (folder || own) && is_due(folder ? "fsync-folder" : "fsync") ? -1 : NEXT(fsync)(fd);
}

SHOWN int renameat2(int from, const char *old, int to, const char *new, unsigned flags)
{
    return is_due("rename") ? -1 : NEXT(renameat2)(from, old, to, new, flags);
}

SHOWN int futimens(int fd, const struct timespec times[2])
{
    return is_due("attributes") ? -1 : NEXT(futimens)(fd, times);
}
