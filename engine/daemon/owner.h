/*
 * The owner of a private daemon: the `tierctl run` that started it.
 *
 * Problem: an owner that is killed leaves an instance that nothing drains.
 *
 * Idea: the owner holds the other end of a pipe for as long as it lives.  Its end is
 * the end of the pipe; then the daemon waits for the owner's program and for all
 * clients, drains and removes the instance itself.  Through the pipe the owner says
 * which process its program is ("program PID"), and that the instance is to stay
 * when it ends ("keep").
 */
#ifndef TB_OWNER_H
#define TB_OWNER_H

#include <stdbool.h>

struct owner {
    int fd;      /* -1: there is none (any more) */
    int program; /* its descriptor (pidfd), -1: unknown, or it has ended */
    bool gone;   /* it ended without a word: what it left is the daemon's to end */
};

void owner_begin(struct owner *owner, int fd);
/* Its descriptor has something to read. */
void owner_hear(struct owner *owner);
/* Its program runs. */
bool owner_has_program(struct owner *owner);

#endif
