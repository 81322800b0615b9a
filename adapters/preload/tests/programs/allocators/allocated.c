/*
 * Threads that ask for memory, write files and fork, on whatever allocator the program has. Argument: how many files each writes.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define THREADS 4

static int n_files;

static void need(int holds, const char *what)
{
    if (holds)
        return;
    perror(what);
    exit(1);
}

static void write_file(const char *name, size_t n)
{
    char *bytes = malloc(n);
    memset(bytes, 'x', n);
    FILE *file = fopen(name, "w");
    need(file && fwrite(bytes, 1, n, file) == n && fclose(file) == 0, name);
    free(bytes);
}

static void write_in_child(const char *name)
{
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        write_file(name, 2000);
        _exit(0);
    }
    need(child > 0 && waitpid(child, &status, 0) == child && status == 0, "child");
}

static void *work(void *arg)
{
    char name[64];
    for (int i = 0; i < n_files; i++) {
        snprintf(name, sizeof(name), "file.%d.%d", *(int *)arg, i % 5);
        if (i % 16 == 15)
            write_in_child(name);
        else
            write_file(name, 100 + (size_t)i * 997);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t threads[THREADS];
    int numbers[THREADS];
    n_files = argc > 1 ? atoi(argv[1]) : 1;
    for (int i = 0; i < THREADS; i++) {
        numbers[i] = i;
        need(pthread_create(&threads[i], NULL, work, &numbers[i]) == 0, "thread");
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    puts("all written");
    return 0;
}
