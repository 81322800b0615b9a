/*
 * Locks of one thread, names and descriptors of others: the first takes a lock again and again while two threads act on the same
 * file and a third starts children and programs. The parent asks after each lock whether it is there.
 */
#include "locks.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define RACE_ROUNDS 150

static volatile bool stops;

static void *disturb(void *arg)
{
    (void)arg;
    while (!stops) {
        truncate_name();
        append_sync();
        link_unlink();
        map_it();
    }
    return NULL;
}

static void *disturb_by_children(void *arg)
{
    (void)arg;
    while (!stops) {
        child_acts();
        run_program();
    }
    return NULL;
}

static void lock_in_thread(void)
{
    pthread_t t[3];
    fd = make(f, O_CREAT);
    put(fd, BYTES, 0);
    appended = open(f, O_WRONLY | O_APPEND);
    for (int i = 0; i < 3; i++)
        pthread_create(&t[i], NULL, i < 2 ? disturb : disturb_by_children, NULL);
    for (int i = 0; i < RACE_ROUNDS; i++) {
        struct flock all = {.l_type = F_UNLCK};
        if (run_lock(fd, FCNTL))
            die("lock");
        for (int j = 0; j < i % 7; j++)
            usleep(300);
        tell(to_parent[1]);
        hear(to_child[0]);
        if (i % 3 == 0)
            close(dup(fd));
        else
            fcntl(fd, F_SETLK, &all);
    }
    stops = true;
    for (int i = 0; i < 3; i++)
        pthread_join(t[i], NULL);
    _exit(0);
}

int race(void)
{
    int lost = 0, asked = 0;
    name_files("race", FCNTL, "thread");
    if (pipe(to_parent) || pipe(to_child))
        die("pipe");
    pid_t child = fork();
    if (child == 0)
        lock_in_thread();
    close(to_parent[1]);
    while (hear(to_parent[0])) {
        lost += strcmp(seen_anew(FCNTL, f), "none") == 0;
        asked++;
        tell(to_child[1]);
    }
    waitpid(child, NULL, 0);
    printf("race: asked %d times, lost %d\n", asked, lost);
    return 0;
}
