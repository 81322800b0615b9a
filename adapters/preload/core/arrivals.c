/*
 * TIERBENCH_STAGE_IN=SOCKET:FOLDER says where files arrive and who brings them. A name that is
 * there costs one look; one that is not is a message to the mover, which answers when it has
 * moved the file, or knows of none. A mover that has ended has moved all.
 *
 * Limit: a folder that is read shows what has arrived.
 */
#include "core/arrivals.h"

#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "core/adapter.h"

static struct {
    struct sockaddr_un address;
    socklen_t length;
    const char *folder; /* NULL: nothing arrives */
    size_t n;
} arrivals;

static void read_environment(void)
{
    const char *given = secure_getenv("TIERBENCH_STAGE_IN"), *colon = given ? strchr(given, ':') : NULL;
    if (!colon || colon[1] != '/' || (size_t)(colon - given) >= sizeof(arrivals.address.sun_path) - 1)
        return;
    size_t n = (size_t)(colon - given);
    arrivals.address.sun_family = AF_UNIX;
    memcpy(arrivals.address.sun_path + 1, given, n);
    arrivals.length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + n);
    arrivals.folder = strdup(colon + 1);
    arrivals.n = strlen(colon + 1);
}

static bool is_coming(const char *name)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct stat st;
    pthread_once(&once, read_environment);
    return arrivals.folder && strncmp(name, arrivals.folder, arrivals.n) == 0 && name[arrivals.n] == '/' && name[arrivals.n + 1] &&
           REAL(lstat)(name, &st) && errno == ENOENT;
}

static bool is_of_this_user(int fd)
{
    struct ucred who;
    socklen_t n = sizeof(who);
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &n) == 0 && who.uid == geteuid();
}

/* What the mover says; 0 where there is none. */
static int ask(int fd, const char *name)
{
    int error = 0;
    ssize_t n;
    if (REAL(connect)(fd, (struct sockaddr *)&arrivals.address, arrivals.length) || !is_of_this_user(fd) ||
        send(fd, name, strlen(name), MSG_NOSIGNAL) < 0)
        return 0;
    while ((n = recv(fd, &error, sizeof(error), 0)) < 0 && errno == EINTR)
        ;
    return n == sizeof(error) ? error : 0;
}

void tb_arrival_await(const char *name)
{
    if (!is_coming(name))
        return;
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    int error = fd < 0 ? 0 : ask(fd, name);
    if (fd >= 0)
        REAL(close)(fd);
    if (error && error != ENOENT)
        fprintf(stderr, "tierbench: %s: could not be staged in (%s); spectral.log says why\n", name, strerror(error));
}
