/*
 * Faults for the mover under test, by LD_PRELOAD: TB_STAGE_FAULT=CALL:FIRST:COUNT:ERRNO, or several with semicolons between, makes the
 * calls FIRST to FIRST+COUNT-1 fail with that number; ERRNO 0 kills the process before the
 * call, -2 stops it there, and -1 lets it succeed and then spoils the file's first byte. CALL `taken` is a file system whose renames always replace (ERRNO is
 * what it says to others), on which another program takes each new name in the last moment; CALL `clock` sets the coarse clock ERRNO
 * seconds ahead. A call counts where it is about a file of a mover (its name begins with ".tierbench-"
 * or it is a line of the log), so tierctl's own calls are left alone.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static atomic_int calls;

enum due { NOTHING, FAILURE, DAMAGE };

static enum due what_is_due(const char *call)
{
    char wanted[32] = "", name[16] = "";
    int first = 0, count = 0, error = 0, now = 0;
    prctl(PR_GET_NAME, name);
    if (strcmp(name, "tb-mover") != 0)
        return NOTHING;
    for (const char *fault = getenv("TB_STAGE_FAULT"); fault; fault = strchr(fault, ';'), fault = fault ? fault + 1 : NULL) {
        if (sscanf(fault, "%31[^:]:%d:%d:%d", wanted, &first, &count, &error) != 4 || strcmp(wanted, call) != 0)
            continue;
        now = now ? now : ++calls;
        if (now < first || now >= first + count)
            continue;
        if (!error)
            kill(getpid(), SIGKILL);
        if (error == -2)
            return kill(getpid(), SIGSTOP) ? FAILURE : NOTHING;
        errno = error;
        return error < 0 ? DAMAGE : FAILURE;
    }
    return NOTHING;
}

static int is_due(const char *call)
{
    return what_is_due(call) != NOTHING;
}

#define SHOWN __attribute__((visibility("default")))
#define NEXT(name) ((__typeof__(name) *)dlsym(RTLD_NEXT, #name))

static void spoil(int fd)
{
    unsigned char first;
    if (pread(fd, &first, 1, 0) == 1) {
        first ^= 1;
        NEXT(pwrite64)(fd, &first, 1, 0);
    }
}

SHOWN ssize_t pwrite64(int fd, const void *bytes, size_t n, off64_t at)
{
    enum due due = what_is_due("pwrite");
    ssize_t done = due == FAILURE ? -1 : NEXT(pwrite64)(fd, bytes, n, at);
    if (due == DAMAGE)
        spoil(fd);
    return done;
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
    enum due due = what_is_due(folder ? "fsync-folder" : own ? "fsync" : "fsync-there");
    int done = due == FAILURE ? -1 : NEXT(fsync)(fd);
    if (due == DAMAGE)
        spoil(fd);
    return done;
}

SHOWN int renameat2(int from, const char *old, int to, const char *new, unsigned flags)
{
    return is_due("rename") || is_due("taken") ? -1 : NEXT(renameat2)(from, old, to, new, flags);
}

static void take(int folder, const char *name)
{
    const char *fault = getenv("TB_STAGE_FAULT");
    int fd = fault && strncmp(fault, "taken:", 6) == 0 ? openat(folder, name, O_WRONLY | O_CREAT | O_EXCL, 0600) : -1;
    if (fd < 0)
        return;
    if (NEXT(write)(fd, "theirs", 6) < 0)
        abort();
    close(fd);
}

SHOWN int renameat(int from, const char *old, int to, const char *new)
{
    take(to, new);
    return NEXT(renameat)(from, old, to, new);
}

SHOWN int linkat(int from, const char *old, int to, const char *new, int flags)
{
    take(to, new);
    return NEXT(linkat)(from, old, to, new, flags);
}

SHOWN int clock_gettime(clockid_t clock, struct timespec *now)
{
    const char *fault = getenv("TB_STAGE_FAULT");
    int rc = NEXT(clock_gettime)(clock, now), ahead;
    if (rc == 0 && clock == CLOCK_REALTIME_COARSE && fault && sscanf(fault, "clock:1:1:%d", &ahead) == 1)
        now->tv_sec += ahead;
    return rc;
}

SHOWN struct dirent64 *readdir64(DIR *dir)
{
    return is_due("readdir") ? NULL : NEXT(readdir64)(dir);
}

SHOWN int futimens(int fd, const struct timespec times[2])
{
    return is_due("attributes") ? -1 : NEXT(futimens)(fd, times);
}
