/*
 * Questions of a program to a mover: is this file there? (stage/asked.h). A question is a message with a path, its answer one
 * with an errno. Another user gets no answer.
 */
#include "stage/asked.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define MOST_WAITING 128

/*
 * An abstract name is in no folder: nothing is left after a kill, and no path has to fit. Any user of the node can
 * connect, so is_own looks at each.
 */
int tb_asked_begin(struct tb_asked *a, const char *name)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int n = snprintf(address.sun_path + 1, sizeof(address.sun_path) - 1, "%s", name);
    LIST_INIT(&a->open);
    a->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (a->fd < 0)
        return -errno;
    socklen_t length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
    if (bind(a->fd, (struct sockaddr *)&address, length) || listen(a->fd, MOST_WAITING)) {
        int rc = -errno;
        close(a->fd);
        a->fd = -1;
        return rc;
    }
    return 0;
}

static void forget(struct tb_question *q)
{
    LIST_REMOVE(q, next);
    close(q->fd);
    free(q);
}

void tb_asked_end(struct tb_asked *a)
{
    while (a->fd >= 0 && !LIST_EMPTY(&a->open))
        forget(LIST_FIRST(&a->open));
    if (a->fd >= 0)
        close(a->fd);
    a->fd = -1;
}

/* A program that was killed while it waited is found by the failing send, and forgotten. */
static void answer(struct tb_question *q, int error)
{
    if (send(q->fd, &error, sizeof(error), MSG_NOSIGNAL | MSG_DONTWAIT) < 0 && errno == EAGAIN)
        return; /* a reader that does not read now is told the next time */
    forget(q);
}

static int is_own(int fd)
{
    struct ucred who;
    socklen_t n = sizeof(who);
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &n) == 0 && who.uid == geteuid();
}

/*
 * The question comes with the connection, or next. Closed is the connection of another user, and one for which there is no
 * memory.
 */
static void take_new(struct tb_asked *a)
{
    for (int fd; (fd = accept4(a->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0;) {
        struct tb_question *q = is_own(fd) ? calloc(1, sizeof(*q)) : NULL;
        if (!q) {
            close(fd);
            continue;
        }
        q->fd = fd;
        LIST_INSERT_HEAD(&a->open, q, next);
    }
}

/* Has it asked? What ended without a question is forgotten: -1. */
static int has_path(struct tb_question *q, int *is_first)
{
    *is_first = !q->path[0];
    if (q->path[0])
        return 1;
    ssize_t n = recv(q->fd, q->path, sizeof(q->path) - 1, 0);
    if (n > 0)
        return 1;
    q->path[0] = '\0';
    return n < 0 && errno == EAGAIN ? 0 : -1;
}

/*
 * Called by the mover's loop alone, so the list needs no lock. All open questions are looked at each time: they are few,
 * one for each thread that waits.
 */
void tb_asked_serve(struct tb_asked *a, tb_asked_look *look, void *arg)
{
    if (a->fd < 0)
        return;
    take_new(a);
    for (struct tb_question *q = LIST_FIRST(&a->open), *next; q; q = next) {
        int is_first, has = has_path(q, &is_first);
        next = LIST_NEXT(q, next);
        if (has < 0) {
            forget(q);
            continue;
        }
        int error = has > 0 ? look(arg, q->path, is_first) : TB_ASKED_WAITS;
        if (error != TB_ASKED_WAITS)
            answer(q, error);
    }
}
