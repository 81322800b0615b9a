/*
 * Threads that are cancelled at any moment of their calls, in the current folder: they end, and leave no lock that the others wait for.
 * The same is right without the tiers.
 */
#include <pthread.h>

#include "checks.h"

#define ROUNDS 60

static int fd;
static char bytes[1 << 15];

static void *write_and_sync(void *arg)
{
    for (int i = 0;; i++)
        if (pwrite(fd, bytes, sizeof(bytes), (off_t)(i % 64) * (off_t)sizeof(bytes)) < 0 || fsync(fd))
            return arg;
}

static void *read_only(void *arg)
{
    while (pread(fd, bytes, 1, 0) >= 0)
        ;
    return arg;
}

static void *open_and_close(void *arg)
{
    int own;
    while ((own = open("cancelled", O_RDWR)) >= 0)
        close(own);
    return arg;
}

static void cancel(void *(*run)(void *), int round)
{
    char got = 0, put = (char)round;
    pthread_t thread;
    void *result;
    CHECK(pthread_create(&thread, NULL, run, NULL) == 0);
    usleep(500 + (unsigned)round * 137 % 3000);
    CHECK(pthread_cancel(thread) == 0 && pthread_join(thread, &result) == 0 && result == PTHREAD_CANCELED);
    CHECK(pwrite(fd, &put, 1, 5) == 1 && fsync(fd) == 0 && pread(fd, &got, 1, 5) == 1 && got == put);
}

int main(void)
{
    alarm(60); /* one that waits for ever fails */
    fd = open("cancelled", O_RDWR | O_CREAT, 0644);
    CHECK(fd >= 0 && write(fd, bytes, sizeof(bytes)) == sizeof(bytes));
    for (int round = 0; round < ROUNDS; round++)
        cancel(round % 3 == 0 ? read_only : round % 3 == 1 ? open_and_close : write_and_sync, round);
    CHECK(close(fd) == 0);
    return failures != 0;
}
