/*
 * TIERBENCH_STAGE_IN=SOCKET:FOLDER names the mover's socket and the folder in which files arrive. TIERBENCH_STAGE_FROM is
 * the folder of their sources. A name that exists costs one look. For one that does not exist, a message goes to the
 * mover, which answers when it has moved the file, or that it knows of no such file. After a second of waiting a message
 * names the mover. A killed mover does not answer: then a name that is in the folder of the sources is reported as missing.
 *
 * Limit: a listing of the folder shows only what has arrived.
 */
#include "core/arrivals.h"

#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "core/adapter.h"

#define QUIET_MS 1000 /* a longer wait is said */

static struct {
    struct sockaddr_un address;
    socklen_t length;
    const char *folder; /* NULL: nothing arrives */
    const char *real;   /* the same without links, as the mover knows it */
    const char *from;   /* where what arrives comes from */
} arrivals;

/* What is malformed is as if it were not set: then no name is waited for. */
void tb_arrivals_read_environment(void)
{
    const char *given = secure_getenv("TIERBENCH_STAGE_IN"), *from = secure_getenv("TIERBENCH_STAGE_FROM");
    const char *colon = given ? strchr(given, ':') : NULL;
    if (!from || !colon || colon[1] != '/' || (size_t)(colon - given) >= sizeof(arrivals.address.sun_path) - 1)
        return;
    size_t n = (size_t)(colon - given);
    arrivals.address.sun_family = AF_UNIX;
    memcpy(arrivals.address.sun_path + 1, given, n);
    arrivals.length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + n);
    arrivals.real = REAL(realpath)(colon + 1, NULL);
    arrivals.folder = arrivals.real ? strdup(colon + 1) : NULL;
    arrivals.from = strdup(from);
}

/* The name's part below a folder; NULL: it is not there. */
static const char *below(const char *name, const char *folder)
{
    size_t n = strlen(folder);
    return strncmp(name, folder, n) == 0 && name[n] == '/' && name[n + 1] ? name + n : NULL;
}

/* Its part below the folder; NULL: it is there already, or is not in the folder. */
static const char *coming(const char *name)
{
    struct stat st;
    const char *part = arrivals.folder ? below(name, arrivals.folder) : NULL;
    if (!part && arrivals.folder)
        part = below(name, arrivals.real);
    return part && REAL(lstat)(name, &st) && errno == ENOENT ? part : NULL;
}

/* Of this user, its process in `pid`; 0 where it is in another PID namespace. */
static bool is_of_this_user(int fd, int *pid)
{
    struct ucred who;
    socklen_t n = sizeof(who);
    bool own = getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &n) == 0 && who.uid == geteuid();
    *pid = own ? who.pid : 0;
    return own;
}

static void say(const char *name, const char *what, int pid, const char *then)
{
    char process[32] = "";
    if (pid)
        snprintf(process, sizeof(process), ", process %d,", pid);
    fprintf(stderr, "tierbench: %s: %s the mover%s %s\n", name, what, process, then);
}

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* By the clock: a program with an interval timer is interrupted all the time. */
static bool is_heard_in_time(int fd)
{
    struct pollfd answer = {.fd = fd, .events = POLLIN};
    int64_t end = now_ms() + QUIET_MS;
    for (int64_t left = QUIET_MS; left > 0; left = end - now_ms())
        if (poll(&answer, 1, (int)left) > 0)
            return true;
    return false;
}

/* A stopped mover takes no connections, and the kernel's queue of them may be full: then its process is not known. */
static bool reach(int fd, const char *name)
{
    const struct timeval quiet = {.tv_sec = QUIET_MS / 1000};
    bool said = setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &quiet, sizeof(quiet)) != 0;
    while (REAL(connect)(fd, (struct sockaddr *)&arrivals.address, arrivals.length)) {
        if (errno != EINTR && errno != EAGAIN)
            return false;
        if (errno == EAGAIN && !said)
            say(name, "waits for", 0, "to bring it");
        said |= errno == EAGAIN;
    }
    return true;
}

/* What the mover says, an errno or 0; -1: it lives no more. */
static int ask(int fd, const char *name, const char *part, int *pid)
{
    char real[PATH_MAX];
    int error = 0, length = snprintf(real, sizeof(real), "%s%s", arrivals.real, part);
    ssize_t n;
    *pid = 0;
    if (length >= (int)sizeof(real))
        return ENAMETOOLONG;
    if (!reach(fd, name) || !is_of_this_user(fd, pid) || send(fd, real, (size_t)length, MSG_NOSIGNAL) < 0)
        return -1;
    if (!is_heard_in_time(fd))
        say(name, "waits for", *pid, "to bring it");
    while ((n = recv(fd, &error, sizeof(error), 0)) < 0 && errno == EINTR)
        ;
    return n == sizeof(error) ? error : -1;
}

/* The mover may have brought it before it ended; a name that is not among the sources never comes. */
static bool is_missing(const char *name, const char *part)
{
    char source[PATH_MAX];
    struct stat st;
    int n = snprintf(source, sizeof(source), "%s%s", arrivals.from, part);
    return n < (int)sizeof(source) && REAL(lstat)(name, &st) && REAL(lstat)(source, &st) == 0;
}

void tb_arrival_await(const char *name)
{
    const char *part = coming(name);
    if (!part)
        return;
    int pid = 0, fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    int error = fd < 0 ? errno : ask(fd, name, part, &pid);
    if (fd >= 0)
        REAL(close)(fd);
    if (error > 0 && error != ENOENT)
        fprintf(stderr, "tierbench: %s: could not be staged in (%s); spectral.log says why\n", name, strerror(error));
    else if (error < 0 && is_missing(name, part))
        say(name, "is missing:", pid, "ended before it had brought it");
}
