/*
 * tb-bench CASE DIR [-n PROCESSES] [-s MIB] [-o]
 *
 * Sets a case up in DIR, says `ready`, then does one repetition for each line it
 * reads and answers it with the seconds that took, so that a driver can
 * interleave it with the same case elsewhere.  It ends, and cleans up, at the
 * end of its input.  It uses plain libc and does not know what is underneath.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "workers.h"

#define SMALL 4096
#define LARGE (1 << 20)
#define SMALL_OPERATIONS 20000 /* some 10 ms from memory: long against the clock, short against a change of the machine */
#define OPENS 2000             /* each is several system calls */
#define SYNCS 50               /* each may wait for a disk */

struct bench {
    char path[4096];
    const char *name;
    int fd;
    int phase;       /* how many files `phase` has written */
    size_t bytes;    /* of this process: its file or memory, or its blocks of what all have */
    size_t every;    /* of so many small blocks one is this process's; 1: it has a file of its own */
    size_t first;    /* its first one */
    char *buffer;    /* LARGE bytes, touched */
    char *shared;    /* for memcpy, touched */
    uint64_t random; /* state of random_offset, never 0 */
};

/* A repetition that went wrong has no time: the program ends, and its driver sees that. */
static void __attribute__((noreturn, format(printf, 1, 2))) fail(const char *format, ...)
{
    int error = errno;
    va_list args;
    va_start(args, format);
    fputs("tb-bench: ", stderr);
    vfprintf(stderr, format, args);
    va_end(args);
    fprintf(stderr, ": %s\n", strerror(error));
    exit(1);
}

/* A call that must transfer all. */
static void transferred(const struct bench *b, ssize_t result, size_t n)
{
    if (result != (ssize_t)n)
        fail("%s: %s: transferred %zd of %zu bytes", b->name, b->path, result, n);
}

/* Of one of this process's small blocks. In one file of all processes they lie in turn, as ranks write records. */
static off_t offset_of(const struct bench *b, size_t block)
{
    return (off_t)((block * b->every + b->first) * SMALL);
}

/* xorshift: an offset of a small block, the same sequence in every process of that rank. */
static off_t random_offset(struct bench *b)
{
    b->random ^= b->random << 13;
    b->random ^= b->random >> 7;
    b->random ^= b->random << 17;
    return offset_of(b, b->random % (b->bytes / SMALL));
}

/* Its time counts: a program that seeks pays for it. */
static void seek(const struct bench *b, off_t offset)
{
    if (lseek(b->fd, offset, SEEK_SET) != offset)
        fail("%s: lseek %s", b->name, b->path);
}

/*
 * The four ways to move small blocks. Those with lseek are there because the offset of a
 * description is shared by processes, and moving it has a price of its own.
 */
static void pwrite_small(void *arg)
{
    struct bench *b = arg;
    for (int i = 0; i < SMALL_OPERATIONS; i++)
        transferred(b, pwrite(b->fd, b->buffer, SMALL, random_offset(b)), SMALL);
}

/* In order: the same blocks as at random, and the processor sees the next one coming. */
static void pwrite_small_in_order(void *arg)
{
    struct bench *b = arg;
    for (size_t i = 0; i < SMALL_OPERATIONS; i++)
        transferred(b, pwrite(b->fd, b->buffer, SMALL, offset_of(b, i % (b->bytes / SMALL))), SMALL);
}

/* What a data base does: each block is safe before the next one is written. */
static void pwrite_small_and_sync(void *arg)
{
    struct bench *b = arg;
    for (int i = 0; i < SYNCS; i++) {
        transferred(b, pwrite(b->fd, b->buffer, SMALL, random_offset(b)), SMALL);
        if (fsync(b->fd) != 0)
            fail("%s: fsync %s", b->name, b->path);
    }
}

static void pread_small(void *arg)
{
    struct bench *b = arg;
    for (int i = 0; i < SMALL_OPERATIONS; i++)
        transferred(b, pread(b->fd, b->buffer, SMALL, random_offset(b)), SMALL);
}

static void seek_write_small(void *arg)
{
    struct bench *b = arg;
    for (int i = 0; i < SMALL_OPERATIONS; i++) {
        seek(b, random_offset(b));
        transferred(b, write(b->fd, b->buffer, SMALL), SMALL);
    }
}

static void seek_read_small(void *arg)
{
    struct bench *b = arg;
    for (int i = 0; i < SMALL_OPERATIONS; i++) {
        seek(b, random_offset(b));
        transferred(b, read(b->fd, b->buffer, SMALL), SMALL);
    }
}

/*
 * In order and from the start, as a checkpoint is written. The file has its full length after
 * the first time, so each repetition writes over what is there.
 */
static void write_large(void *arg)
{
    struct bench *b = arg;
    seek(b, 0);
    for (size_t done = 0; done < b->bytes; done += LARGE)
        transferred(b, write(b->fd, b->buffer, LARGE), LARGE);
}

/* What it writes is only for the while that it takes. */
static void write_burst(void *arg)
{
    write_large(arg);
}

/* The buffer is the same for every block: it stays in the cache, and the source of the bytes is what is measured. */
static void read_large(void *arg)
{
    struct bench *b = arg;
    seek(b, 0);
    for (size_t done = 0; done < b->bytes; done += LARGE)
        transferred(b, read(b->fd, b->buffer, LARGE), LARGE);
}

/*
 * What no way of serving bytes from shared memory can beat: rates of large transfers are
 * compared with these.
 */
static void copy_in(void *arg)
{
    struct bench *b = arg;
    for (size_t done = 0; done < b->bytes; done += LARGE)
        memcpy(b->shared + done, b->buffer, LARGE);
}

static void copy_out(void *arg)
{
    struct bench *b = arg;
    for (size_t done = 0; done < b->bytes; done += LARGE) {
        memcpy(b->buffer, b->shared + done, LARGE);
        __asm__ volatile("" : : "r"(b->buffer) : "memory"); /* the copy must be made */
    }
}

/* libc's: for a length that it knows, the compiler may make a string move of its own instead. */
static size_t small(void)
{
    size_t n = SMALL;
    __asm__ volatile("" : "+r"(n));
    return n;
}

/* What serving small blocks from shared memory costs without the serving. */
static void copy_small_in(void *arg)
{
    struct bench *b = arg;
    for (int i = 0; i < SMALL_OPERATIONS; i++)
        memcpy(b->shared + random_offset(b), b->buffer, small());
}

static void copy_small_out(void *arg)
{
    struct bench *b = arg;
    for (int i = 0; i < SMALL_OPERATIONS; i++) {
        memcpy(b->buffer, b->shared + random_offset(b), small());
        __asm__ volatile("" : : "r"(b->buffer) : "memory");
    }
}

/* No byte is moved: names, descriptors and the record of the file alone. */
static void open_and_close(void *arg)
{
    struct bench *b = arg;
    for (int i = 0; i < OPENS; i++) {
        int fd = open(b->path, O_RDWR);
        if (fd < 0 || close(fd) != 0)
            fail("%s: open and close %s", b->name, b->path);
    }
}

/* An open whose file must be known, as that of most programs. */
static void open_use_and_close(void *arg)
{
    struct bench *b = arg;
    char byte;
    for (int i = 0; i < OPENS; i++) {
        int fd = open(b->path, O_RDWR);
        if (fd < 0 || read(fd, &byte, 1) != 1 || close(fd) != 0)
            fail("%s: open, read and close %s", b->name, b->path);
    }
}

static void open_file(struct bench *b)
{
    b->fd = open(b->path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (b->fd < 0)
        fail("open %s", b->path);
}

/* Of one file of all processes, block by block: each touches its own alone. */
static void make_blocks(struct bench *b)
{
    for (size_t i = 0; i < b->bytes / SMALL; i++)
        transferred(b, pwrite(b->fd, b->buffer, SMALL, offset_of(b, i)), SMALL);
    for (size_t i = 0; i < b->bytes / SMALL; i++)
        transferred(b, pread(b->fd, b->buffer, SMALL, offset_of(b, i)), SMALL);
}

/*
 * For cases that measure transfers and no allocation: the whole file is written and read once,
 * so that its pages or buffers are there before the first repetition.
 */
static void make_file(struct bench *b)
{
    open_file(b);
    if (b->every > 1) {
        make_blocks(b);
        return;
    }
    write_large(b);
    read_large(b);
}

/* A file that the driver has put there. */
static void open_input(struct bench *b)
{
    b->fd = open(b->path, O_RDONLY | O_CLOEXEC);
    if (b->fd < 0)
        fail("open %s", b->path);
}

static void no_file(struct bench *b)
{
    b->fd = -1;
}

/* What a phase of I/O costs a program: a new file, written and closed. */
static void write_phase(void *arg)
{
    struct bench *b = arg;
    size_t n = strlen(b->path);
    snprintf(b->path + n, sizeof(b->path) - n, ".%d", b->phase++);
    open_file(b);
    write_large(b);
    if (close(b->fd) != 0)
        fail("close %s", b->path);
    b->fd = -1;
    b->path[n] = 0;
}

/* What all processes share is a file of the folder's file system. */
static void make_common_memory(struct bench *b)
{
    size_t n = b->bytes * b->every;
    open_file(b);
    if (ftruncate(b->fd, (off_t)n) != 0)
        fail("ftruncate %s", b->path);
    b->shared = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_SHARED, b->fd, 0);
    if (b->shared == MAP_FAILED)
        fail("cannot map %zu bytes", n);
    for (size_t i = 0; i < b->bytes / SMALL; i++)
        memset(b->shared + offset_of(b, i), 1, SMALL);
}

/* Touched, so that no repetition pays for page faults. */
static void make_memory(struct bench *b)
{
    if (b->every > 1) {
        make_common_memory(b);
        return;
    }
    b->shared = mmap(NULL, b->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (b->shared == MAP_FAILED)
        fail("cannot map %zu bytes", b->bytes);
    memset(b->shared, 1, b->bytes);
}

/*
 * A case is what is made once and what each repetition does. `fill`, `phase` and `burst` begin
 * without a file, because new bytes are what they measure.
 */
static const struct bench_case {
    const char *name;
    void (*set_up)(struct bench *b);
    tb_worker_work *work;
    bool takes_turns; /* its processes may have one file */
} cases[] = {
    {"pwrite-4k", make_file, pwrite_small, true},
    {"pread-4k", make_file, pread_small, true},
    {"pwrite-4k-in-order", make_file, pwrite_small_in_order, false},
    {"pwrite-4k-fsync", make_file, pwrite_small_and_sync, false},
    {"lseek-write-4k", make_file, seek_write_small, false},
    {"lseek-read-4k", make_file, seek_read_small, false},
    {"write-1m", make_file, write_large, false},
    {"read-1m", make_file, read_large, false},
    {"open-close", make_file, open_and_close, false},
    {"open-read-close", make_file, open_use_and_close, false},
    {"fill", open_file, write_large, false},
    {"reread", open_input, read_large, false},
    {"phase", no_file, write_phase, false},
    {"burst", open_file, write_burst, false},
    {"memcpy-in", make_memory, copy_in, false},
    {"memcpy-out", make_memory, copy_out, false},
    {"memcpy-4k-in", make_memory, copy_small_in, true},
    {"memcpy-4k-out", make_memory, copy_small_out, true},
};

static const struct bench_case *find_case(const char *name)
{
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        if (strcmp(cases[i].name, name) == 0)
            return &cases[i];
    }
    return NULL;
}

static int usage(void)
{
    fputs("usage: tb-bench CASE DIR [-n PROCESSES] [-s MIB] [-o] [-f]\n"
          "  -n  processes at once, each with its own file (1)\n"
          "  -s  size of each file (64)\n"
          "  -o  one file of all processes, their blocks by turns; -s is each one's part (pwrite-4k, pread-4k, memcpy-4k-*)\n"
          "  -f  each repetition in a fresh process, on the file of the first (one process)\n"
          "one repetition per line of input, answered by its seconds; cases:",
          stderr);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        fprintf(stderr, " %s", cases[i].name);
    fputc('\n', stderr);
    return 2;
}

struct options {
    const struct bench_case *which;
    const char *folder;
    long processes, mib;
    bool one_file, fresh;
    bool again; /* this is the fresh process: the file is there, one repetition */
};

/* -F is not in the usage text: it is what the program gives itself for a fresh process. */
static bool parse(int argc, char **argv, struct options *o)
{
    *o = (struct options){.processes = 1, .mib = 64};
    for (int c; (c = getopt(argc, argv, "n:s:ofF")) != -1;) {
        switch (c) {
        case 'n': o->processes = strtol(optarg, NULL, 10); break;
        case 's': o->mib = strtol(optarg, NULL, 10); break;
        case 'o': o->one_file = true; break;
        case 'f': o->fresh = true; break;
        case 'F': o->again = true; break;
        default: return false;
        }
    }
    if (argc - optind != 2 || o->processes < 1 || o->processes > 64 || o->mib < 1 || o->mib > 65536)
        return false;
    o->which = find_case(argv[optind]);
    o->folder = argv[optind + 1];
    return o->which != NULL && !(o->fresh && o->processes > 1) && (!o->one_file || o->which->takes_turns);
}

/*
 * A rank's own file and its own seed, the same in every run: two builds that are compared move
 * the same blocks in the same order.
 */
static void prepare(struct bench *b, const struct options *o, int rank)
{
    b->name = o->which->name;
    b->bytes = (size_t)o->mib * LARGE;
    b->random = UINT64_C(88172645463325252) + (uint64_t)rank;
    b->fd = -1;
    b->every = o->one_file ? (size_t)o->processes : 1;
    b->first = o->one_file ? (size_t)rank : 0;
    snprintf(b->path, sizeof(b->path), "%s/tb-bench.%s.%d", o->folder, b->name, o->one_file ? 0 : rank);
    b->buffer = malloc(LARGE);
    if (b->buffer == NULL)
        fail("no memory");
    memset(b->buffer, 'b', LARGE);
}

/* The repetition of a process that has touched nothing yet; it answers by itself. */
static void repeat_fresh(char **argv)
{
    pid_t pid = fork();
    int status = 1;
    if (pid == 0) {
        argv[0] = "/proc/self/exe";
        execv(argv[0], argv);
        fail("exec");
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0)
        exit(1);
}

/*
 * Of -f: nothing of the file was touched by this process when the clock starts. The first
 * process has made the file, so it is opened here and not made.
 */
static void run_again(struct bench *b, const struct options *o)
{
    struct timespec start, end;
    if (o->which->set_up == make_file)
        open_file(b);
    else
        o->which->set_up(b);
    clock_gettime(CLOCK_MONOTONIC, &start);
    o->which->work(b);
    clock_gettime(CLOCK_MONOTONIC, &end);
    printf("%.9f\n", (double)(end.tv_sec - start.tv_sec) + (double)(end.tv_nsec - start.tv_nsec) * 1e-9);
}

/* Repetitions at the command of standard input, in rank 0; the others follow. */
static void serve(struct bench *b, const struct options *o, struct tb_workers *workers, int rank, char **again)
{
    char line[64];
    double seconds;
    if (rank > 0) {
        while (tb_workers_repeat(workers, o->which->work, b, &seconds))
            ;
        return;
    }
    puts("ready");
    fflush(stdout);
    while (fgets(line, sizeof(line), stdin) != NULL) {
        if (o->fresh) {
            repeat_fresh(again);
            continue;
        }
        tb_workers_repeat(workers, o->which->work, b, &seconds);
        printf("%.9f\n", seconds);
        fflush(stdout);
    }
    tb_workers_end(workers);
}

/*
 * `phase` leaves its files, too: what they become after the last close is the driver's to look
 * at and to remove.
 */
static void clean_up(struct bench *b, const struct options *o)
{
    if (b->fd < 0)
        return;
    close(b->fd);
    if (b->first > 0)
        return; /* the file is the first process's */
    if (o->which->set_up == make_file || o->which->set_up == make_memory || o->which->work == write_burst)
        unlink(b->path); /* what `fill` wrote is the driver's */
}

int main(int argc, char **argv)
{
    struct options options;
    struct bench bench = {0};
    int rank = 0;
    if (!parse(argc, argv, &options))
        return usage();
    if (options.again) {
        prepare(&bench, &options, 0);
        run_again(&bench, &options);
        return 0;
    }
    struct tb_workers *workers = tb_workers_start((int)options.processes, &rank);
    if (workers == NULL)
        fail("cannot start %ld processes", options.processes);
    prepare(&bench, &options, rank);
    options.which->set_up(&bench);
    char mib[32];
    snprintf(mib, sizeof(mib), "%ld", options.mib);
    char *again[] = {argv[0], "-F", "-s", mib, (char *)options.which->name, (char *)options.folder, NULL}; /* of repeat_fresh */
    serve(&bench, &options, workers, rank, again);
    clean_up(&bench, &options);
    return 0;
}
