/*
 * tb-trace-cost pwrite|pread BYTES FOLDER REPETITIONS
 *
 * What tracing adds to a call, in one process: batches of calls through the trace
 * library, past it, and past it between two looks at the clock take turns on one file, so
 * that what else the machine does, and where the file's pages are, meets all.  To be run
 * under `tierctl run --trace`.  Prints a line a repetition: nanoseconds of a call traced,
 * untraced, and untraced between two looks, which is the least that a trace with times can
 * take: means over the batches during which no other process was given the processor.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define FILE_BYTES (64u << 20)
#define BATCH_BYTES (4u << 20) /* of large calls */
#define BATCH 64               /* of small ones */
#define BATCHES 100            /* of each kind, in a repetition */

typedef ssize_t call(int fd, void *bytes, size_t n, off_t at);
enum way { TRACED, PLAIN, TIMED, WAYS };

struct place {
    call *traced, *plain;
    int fd, in_batch;
    size_t n;
    uint64_t random;
    uint64_t ticks; /* of all timed calls: kept, as a trace keeps its times */
    char *bytes;
};

static void fail(const char *what)
{
    fprintf(stderr, "tb-trace-cost: %s\n", what);
    exit(2);
}

/* The same function as a library has it. */
static call *function_of(const char *library, const char *name)
{
    void *handle = dlopen(library, RTLD_NOW | RTLD_NOLOAD);
    void *function = handle ? dlsym(handle, name) : NULL;
    if (!function)
        fail("to be run under `tierctl run --trace`");
    return (call *)function;
}

static off_t next_offset(struct place *p)
{
    p->random ^= p->random << 13;
    p->random ^= p->random >> 7;
    p->random ^= p->random << 17;
    return (off_t)(p->random % (FILE_BYTES / p->n) * p->n);
}

/* Also those that were asked for: a call that waited says nothing about the price of tracing. */
static long switches(void)
{
    struct rusage usage;
    getrusage(RUSAGE_THREAD, &usage);
    return usage.ru_nivcsw + usage.ru_nvcsw;
}

static double now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* What a trace looks at: engine/src/trace/clock.h. */
static uint64_t look(void)
{
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#else
    return (uint64_t)now_ns();
#endif
}

static ssize_t timed(struct place *p, off_t at)
{
    uint64_t start = look();
    ssize_t n = p->plain(p->fd, p->bytes, p->n, at);
    p->ticks += look() - start;
    return n;
}

static ssize_t one_call(struct place *p, enum way way, off_t at)
{
    return way == TIMED ? timed(p, at) : (way == TRACED ? p->traced : p->plain)(p->fd, p->bytes, p->n, at);
}

struct mean {
    double sum;
    int n;
};

/* Means over batches, because the clock itself costs as much as what tracing adds to one call. */
static void batch(struct place *p, enum way way, struct mean *into)
{
    long before = switches();
    double start = now_ns();
    for (int i = 0; i < p->in_batch; i++)
        if (one_call(p, way, next_offset(p)) != (ssize_t)p->n)
            fail("a call failed");
    double took = (now_ns() - start) / p->in_batch;
    if (switches() != before)
        return;
    into->sum += took;
    into->n++;
}

/* Each goes first as often as the others: the first finds colder caches. */
static void repeat(struct place *p)
{
    struct mean mean[WAYS] = {0};
    for (unsigned i = 0; i < BATCHES * WAYS; i++) {
        enum way way = (enum way)((i + i / WAYS) % WAYS);
        batch(p, way, &mean[way]);
    }
    for (unsigned i = 0; i < WAYS; i++)
        if (!mean[i].n)
            fail("the machine is too busy");
    for (unsigned i = 0; i < WAYS; i++)
        printf("%.2f%c", mean[i].sum / mean[i].n, i == WAYS - 1 ? '\n' : ' ');
}

static void open_file(struct place *p, const char *folder)
{
    char path[4096];
    snprintf(path, sizeof(path), "%s/tb-trace-cost", folder);
    p->fd = open(path, O_RDWR | O_CREAT, 0600);
    p->bytes = calloc(1, BATCH_BYTES);
    if (p->fd < 0 || !p->bytes)
        fail("cannot make the file");
    for (off_t at = 0; at < (off_t)FILE_BYTES; at += BATCH_BYTES)
        if (pwrite(p->fd, p->bytes, BATCH_BYTES, at) != (ssize_t)BATCH_BYTES)
            fail("cannot write the file");
}

int main(int argc, char **argv)
{
    struct place p = {.random = 88172645463325252};
    if (argc != 5 || (strcmp(argv[1], "pwrite") != 0 && strcmp(argv[1], "pread") != 0) || atol(argv[2]) <= 0 ||
        atol(argv[2]) > (long)BATCH_BYTES)
        fail("usage: tb-trace-cost pwrite|pread BYTES FOLDER REPETITIONS, of at most 4 MiB");
    p.traced = function_of("libtierbench_trace.so", argv[1]);
    p.plain = function_of("libtierbench_preload.so", argv[1]);
    p.n = (size_t)atol(argv[2]);
    p.in_batch = p.n > BATCH_BYTES / BATCH ? (int)(BATCH_BYTES / p.n) : BATCH;
    open_file(&p, argv[3]);
    for (int r = 0; r < atoi(argv[4]); r++)
        repeat(&p);
    return 0;
}
