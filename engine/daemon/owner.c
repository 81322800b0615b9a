/*
 * The owner of a private daemon, seen through a pipe: which process its program is, whether
 * the instance is to stay, and when the owner itself is gone (owner.h). The pipe itself shows
 * whether the owner lives: at its end, also by a kill, the kernel closes the other side, and a
 * read finds no more words.
 */
#include "owner.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

void owner_begin(struct owner *o, int fd)
{
    *o = (struct owner){.fd = fd, .program = -1};
}

static void forget_program(struct owner *o)
{
    if (o->program >= 0)
        close(o->program);
    o->program = -1;
}

/* After `keep` the owner counts as not gone, whatever becomes of it: the instance stays. */
static void end_pipe(struct owner *o, bool gone)
{
    close(o->fd);
    o->fd = -1;
    o->gone = gone;
}

/* Words come whole: each is one short write to an empty pipe. */
static void obey(struct owner *o, char *words)
{
    int pid;
    for (char *rest = words, *word; (word = strsep(&rest, "\n"));)
        if (sscanf(word, "program %d", &pid) == 1) {
            forget_program(o);
            o->program = (int)syscall(SYS_pidfd_open, pid, 0); /* an old kernel has none: then only clients are waited for */
        } else if (strcmp(word, "keep") == 0 && o->fd >= 0) {
            end_pipe(o, false);
        }
}

/* Called when poll has seen something in the pipe, so that the read does not wait. */
void owner_hear(struct owner *o)
{
    char words[256];
    ssize_t n = read(o->fd, words, sizeof(words) - 1);
    if (n < 0 && errno == EINTR)
        return;
    words[n > 0 ? n : 0] = 0;
    if (n > 0)
        obey(o, words);
    else
        end_pipe(o, true);
}

/* A pidfd is readable once its process has ended, even if its number is another process's by now. */
bool owner_has_program(struct owner *o)
{
    struct pollfd end = {.fd = o->program, .events = POLLIN};
    if (o->program >= 0 && poll(&end, 1, 0) > 0)
        forget_program(o);
    return o->program >= 0;
}
