/*
 * tb-rate DIR: for each line "KIND PROCESSES BYTES OPERATIONS" of input, that many
 * processes make the operations together and the seconds are the answer.
 *
 *   write, read   at offsets in a file of each process, which is DIR/file.RANK (16 MiB)
 *   sync          a write of BYTES and an fsync, one operation
 *   create        an open of a new file and its close
 *   stat          of the process's file
 *
 * Operations are taken from one counter, so that none is alone at the end.  Like
 * tb-bench it uses plain libc and does not know what is underneath.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "workers.h"

#define FILE_BYTES (16u << 20)

/* Between the processes of a line.  Each notes its own time: one that is scheduled late sees less than there was. */
struct shared {
    _Atomic long left;
    _Atomic uint64_t first_start, last_end; /* ns */
};

struct load {
    char folder[2048], path[4096], kind[16];
    int processes, fd;
    size_t bytes;
    struct shared *shared;
    char *buffer;
};

static void __attribute__((noreturn)) fail(const struct load *l, const char *what)
{
    fprintf(stderr, "tb-rate: %s: %s %s: %s\n", l->kind, what, l->path, strerror(errno));
    exit(1);
}

static void create(const struct load *l, long number)
{
    char path[4200];
    snprintf(path, sizeof(path), "%s.new.%ld", l->path, number);
    int fd = open(path, O_CREAT | O_EXCL | O_WRONLY, 0600);
    if (fd < 0 || close(fd) != 0)
        fail(l, "create");
}

/* Offsets follow the common counter, so that all processes together walk through their files in order, and begin again at the end. */
static void operate(const struct load *l, long number)
{
    struct stat st;
    off_t at = (off_t)((size_t)number % (FILE_BYTES / l->bytes) * l->bytes);
    if (strcmp(l->kind, "create") == 0)
        create(l, number);
    else if (strcmp(l->kind, "stat") == 0 && stat(l->path, &st) != 0)
        fail(l, "stat");
    else if (strcmp(l->kind, "read") == 0 && pread(l->fd, l->buffer, l->bytes, at) != (ssize_t)l->bytes)
        fail(l, "read");
    else if ((strcmp(l->kind, "write") == 0 || strcmp(l->kind, "sync") == 0) && pwrite(l->fd, l->buffer, l->bytes, at) != (ssize_t)l->bytes)
        fail(l, "write");
    if (strcmp(l->kind, "sync") == 0 && fsync(l->fd) != 0)
        fail(l, "sync");
}

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* The least or the greatest of what all processes say. Retried where another one was faster. */
static void note(_Atomic uint64_t *to, uint64_t value, bool earlier)
{
    uint64_t seen = atomic_load(to);
    while ((earlier ? value < seen : value > seen) && !atomic_compare_exchange_weak(to, &seen, value))
        ;
}

/* With the close, at which a model is paid in full. */
static void work(void *arg)
{
    struct load *l = arg;
    note(&l->shared->first_start, now_ns(), true);
    for (long number; (number = atomic_fetch_sub(&l->shared->left, 1)) > 0;)
        operate(l, number);
    if (close(l->fd) != 0)
        fail(l, "close");
    note(&l->shared->last_end, now_ns(), false);
}

/* One line, in a process of its own that becomes the group. */
static void __attribute__((noreturn)) run(struct load *l)
{
    int rank;
    double unused;
    struct tb_workers *workers = tb_workers_start(l->processes, &rank);
    if (workers == NULL)
        fail(l, "cannot start processes in");
    snprintf(l->path, sizeof(l->path), "%s/file.%d", l->folder, rank);
    l->fd = open(l->path, O_RDWR);
    l->buffer = malloc(l->bytes);
    if (l->fd < 0 || l->buffer == NULL)
        fail(l, "open");
    memset(l->buffer, 'r', l->bytes);
    tb_workers_repeat(workers, work, l, &unused);
    if (rank == 0) {
        tb_workers_end(workers);
        printf("%.9f\n", (double)(l->shared->last_end - l->shared->first_start) * 1e-9);
        fflush(stdout);
    } else {
        tb_workers_repeat(workers, work, l, &unused);
    }
    exit(0);
}

/* Each line gets processes of its own, so that nothing which an earlier line left in a process is measured. */
int main(int argc, char **argv)
{
    struct load l = {0};
    long operations;
    char line[128];
    int status;
    if (argc != 2 || snprintf(l.folder, sizeof(l.folder), "%s", argv[1]) >= (int)sizeof(l.folder))
        return fputs("usage: tb-rate DIR   (lines: KIND PROCESSES BYTES OPERATIONS)\n", stderr), 2;
    l.shared = mmap(NULL, sizeof(*l.shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (l.shared == MAP_FAILED)
        fail(&l, "no shared memory");
    puts("ready");
    fflush(stdout);
    while (fgets(line, sizeof(line), stdin) != NULL) {
        if (sscanf(line, "%15s %d %zu %ld", l.kind, &l.processes, &l.bytes, &operations) != 4 || l.bytes == 0 || l.bytes > FILE_BYTES)
            return fprintf(stderr, "tb-rate: not understood: %s", line), 2;
        *l.shared = (struct shared){.left = operations, .first_start = UINT64_MAX};
        pid_t pid = fork();
        if (pid == 0)
            run(&l);
        if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0)
            return 1;
    }
    return 0;
}
