/*
 * A program of which every count is known: what it does is written down in
 * test_trace_logs.py.  Argument: a folder.
 */
#include <aio.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

/* Not assert: the calls inside are made in every build. */
#define MUST(condition)         \
    do {                        \
        if (!(condition)) {     \
            perror(#condition); \
            exit(1);            \
        }                       \
    } while (0)

static _Alignas(4096) char bytes[1 << 20];
static char path[4096];

static const char *in(const char *folder, const char *name)
{
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    return path;
}

/* Ten of 4 KiB in order, one back at 0, unaligned ones, one past a gap, then reads. */
static void patterns(const char *folder)
{
    int fd = open(in(folder, "patterns"), O_RDWR | O_CREAT | O_TRUNC, 0640);
    MUST(fd >= 0);
    for (int i = 0; i < 10; i++)
        MUST(write(fd, bytes, 4096) == 4096);
    MUST(pwrite(fd, bytes, 512, 0) == 512);
    for (int i = 0; i < 3; i++)
        MUST(pwrite(fd, bytes + 1, 1000, 100000 + 5000 * i) == 1000);
    MUST(lseek(fd, 8192, SEEK_SET) == 8192);
    for (int i = 0; i < 5; i++)
        MUST(read(fd, bytes, 100) == 100);
    MUST(pread(fd, bytes, 2048, 4096) == 2048);
    MUST(write(fd, bytes, 200) == 200); /* where Darshan has the file: after the pread */
    MUST(fsync(fd) == 0 && fdatasync(fd) == 0);
    struct stat st;
    MUST(fstat(fd, &st) == 0 && stat(path, &st) == 0);
    MUST(read(fd, bytes, 0) == 0);
    MUST(close(fd) == 0);
}

/* The copies share one offset. The name changes after the last of them is closed. */
static void vectors_and_copies(const char *folder)
{
    struct iovec v[3] = {{bytes, 1000}, {bytes + 4096, 3000}, {bytes + 8192, 96}};
    int fd = open(in(folder, "vectors"), O_RDWR | O_CREAT | O_TRUNC, 0600), more;
    MUST(fd >= 0);
    MUST(writev(fd, v, 3) == 4096 && pwritev(fd, v, 2, 100000) == 4000);
    MUST(lseek(fd, 0, SEEK_SET) == 0 && readv(fd, v, 3) == 4096 && preadv(fd, v, 2, 100000) == 4000);
    MUST((more = dup(fd)) >= 0);
    MUST(pwrite(more, bytes, 1 << 20, 0) == 1 << 20);
    MUST(dup2(fd, 300) == 300 && write(300, bytes, 10) == 10);
    MUST(close(300) == 0 && close(more) == 0 && close(fd) == 0);
    char to[4200];
    snprintf(to, sizeof(to), "%s2", path);
    MUST(rename(path, to) == 0);
}

/* Bytes that the stream writes: 7 times 1000, then 6, 1 and 9. */
static void streams(const char *folder)
{
    char line[100];
    FILE *f = fopen(in(folder, "stream"), "w+");
    MUST(f);
    for (int i = 0; i < 7; i++)
        MUST(fwrite(bytes, 100, 10, f) == 10);
    MUST(fputs("hello\n", f) >= 0 && fputc('x', f) == 'x' && fprintf(f, "%d %s\n", 42, "words") == 9);
    MUST(fflush(f) == 0 && fseek(f, 7000, SEEK_SET) == 0);
    MUST(fgets(line, sizeof(line), f) && strcmp(line, "hello\n") == 0);
    MUST(fgetc(f) == 'x');
    rewind(f);
    MUST(fread(bytes, 1, 5000, f) == 5000);
    int fd = fileno(f);
    MUST(fd >= 0 && pwrite(fd, bytes, 33, 0) == 33);
    MUST(fclose(f) == 0);
}

/* The bytes change through the map, which no call shows. */
static void mapped(const char *folder)
{
    int fd = open(in(folder, "mapped"), O_RDWR | O_CREAT, 0600);
    MUST(fd >= 0 && ftruncate(fd, 8192) == 0);
    void *at = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    MUST(at != MAP_FAILED);
    memset(at, 1, 8192);
    MUST(munmap(at, 8192) == 0 && close(fd) == 0);
}

/* The write counts when aio_return fetches its result, which is before the close. */
static void asynchronous(const char *folder)
{
    struct aiocb b = {.aio_buf = bytes, .aio_nbytes = 3000, .aio_offset = 6000, .aio_lio_opcode = LIO_WRITE};
    b.aio_fildes = open(in(folder, "aio"), O_RDWR | O_CREAT | O_TRUNC, 0600);
    const struct aiocb *list[1] = {&b};
    MUST(b.aio_fildes >= 0 && aio_write(&b) == 0);
    while (aio_error(&b) == EINPROGRESS)
        aio_suspend(list, 1, NULL);
    MUST(aio_return(&b) == 3000 && close(b.aio_fildes) == 0);
}

/* More sizes than are told apart. */
static void many_sizes(const char *folder)
{
    int fd = open(in(folder, "sizes"), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    MUST(fd >= 0);
    for (int i = 1; i <= 50; i++)
        for (int again = 0; again < (i % 7) + 1; again++)
            MUST(write(fd, bytes, (size_t)i * 10) == i * 10);
    MUST(write(fd, bytes, 1 << 20) == 1 << 20);
    MUST(close(fd) == 0);
}

/* Called last, because it changes the working directory. */
static void relative_names(const char *folder)
{
    int at = open(folder, O_RDONLY | O_DIRECTORY), fd;
    MUST(chdir(folder) == 0);
    MUST(at >= 0 && (fd = openat(at, "at", O_WRONLY | O_CREAT, 0600)) >= 0);
    MUST(write(fd, bytes, 77) == 77 && close(fd) == 0 && close(at) == 0);
    MUST((fd = open("././/relative", O_WRONLY | O_CREAT, 0600)) >= 0);
    MUST(write(fd, bytes, 78) == 78 && close(fd) == 0);
}

/* Appending, seeks of every kind, reads at the end; opened twice, and once for good. */
static void appended(const char *folder)
{
    int fd = open(in(folder, "appended"), O_RDWR | O_CREAT | O_APPEND | O_TRUNC, 0600), again;
    MUST(fd >= 0 && write(fd, bytes, 700) == 700 && write(fd, bytes, 700) == 700);
    MUST((again = open(path, O_WRONLY | O_APPEND)) >= 0 && write(again, bytes, 300) == 300 && close(again) == 0);
    MUST(lseek(fd, -100, SEEK_END) == 1600 && read(fd, bytes, 500) == 100 && read(fd, bytes, 500) == 0);
    MUST(lseek(fd, 10, SEEK_SET) == 10 && lseek(fd, 20, SEEK_CUR) == 30 && read(fd, bytes, 50) == 50);
    MUST(lseek(fd, -1, SEEK_SET) < 0 && close(-1) < 0 && pread(fd, bytes, 10, 1 << 20) == 0);
}

static void *write_blocks(void *arg)
{
    for (int i = 0; i < 100; i++)
        MUST(pwrite(*(int *)arg, bytes, 512, (off_t)i * 512) == 512);
    return NULL;
}

/* Three threads write the same blocks by one descriptor: no count may get lost. */
static void by_threads(const char *folder)
{
    pthread_t threads[3];
    int fd = open(in(folder, "threads"), O_RDWR | O_CREAT, 0600);
    for (int i = 0; i < 3; i++)
        MUST(pthread_create(&threads[i], NULL, write_blocks, &fd) == 0);
    for (int i = 0; i < 3; i++)
        MUST(pthread_join(threads[i], NULL) == 0);
    MUST(close(fd) == 0);
}

int main(int argc, char **argv)
{
    MUST(argc == 2);
    patterns(argv[1]);
    vectors_and_copies(argv[1]);
    streams(argv[1]);
    mapped(argv[1]);
    asynchronous(argv[1]);
    many_sizes(argv[1]);
    appended(argv[1]);
    by_threads(argv[1]);
    relative_names(argv[1]);
    return 0;
}
