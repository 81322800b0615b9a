/*
 * tb-layers CONFIG
 *
 * Where the time of a buffered transfer goes.  Makes an instance of its own of the
 * configuration and moves the same random 4 KiB blocks through ever more layers of
 * the engine: nothing but the copy (and memcpy beside it); the medium of a known buffer (no look-up); look-up
 * and locks; the whole layer as adapters call it.  The same for single bytes shows
 * the layers without the copy: of blocks of the whole file, which no cache and no TLB holds, and of its first
 * MiB, which they do. A file written again and again shows allocation.
 * Prints a JSON list of {"layer", "operation", "bytes", "of", "ns"}: processor time, medians over rounds
 * in which all take turns; the blocks were random ones of the first "of" bytes of the file.
 */
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "copy/copy.h"
#include "buffer/map.h"
#include "buffer/medium.h"
#include "file/file.h"
#include "instance/instance.h"
#include "instance/make.h"
#include "layer/data.h"
#include "layer/descriptions.h"
#include "region/handle.h"

#define FILE_BYTES (64u << 20) /* more than the last cache of most processors: a random block is not in it */
#define CACHED (1u << 20)      /* of it: a line of each block is in the first cache, and each page in the TLB */
#define BLOCK 4096u
#define OPERATIONS 20000 /* of a step in a round */
#define ROUNDS 15        /* odd, so that the median is one of them */

struct place {
    tb_engine *engine;
    struct tb_io *io;
    int fd;
    struct tb_target target;
    struct tb_buffer **buffers; /* of each block */
    char *bytes;
    size_t of; /* bytes of the file that a step moves blocks of */
    uint64_t random;
};

/* xorshift, from the same seed in every run. It is cheap beside a copy, and a part of every figure, also that of memcpy. */
static uint64_t next_block(struct place *p)
{
    p->random ^= p->random << 13;
    p->random ^= p->random >> 7;
    p->random ^= p->random << 17;
    return p->random % (p->of / BLOCK);
}

static uint32_t inside(const struct place *p, uint64_t block)
{
    return (uint32_t)(block * BLOCK - tb_buffer_start(p->engine, p->buffers[block]));
}

/* The address itself: memcpy and copy need a tier in memory. */
static char *bytes_of(const struct place *p, uint64_t block)
{
    return p->engine->region.base + tb_medium_offset(p->engine, p->buffers[block], inside(p, block));
}

/*
 * The steps, the lowest first: libc's copy, the engine's copy, the medium of a known buffer, the
 * look-up with its lock, the table that adapters call. A step is what the one before it does and
 * one thing more, so the difference of two figures is the price of that thing.
 */
static void memcpy_read(struct place *p, uint64_t block, size_t n)
{
    memcpy(p->bytes, bytes_of(p, block), n);
    __asm__ volatile("" : : "r"(p->bytes) : "memory");
}

static void memcpy_write(struct place *p, uint64_t block, size_t n)
{
    memcpy(bytes_of(p, block), p->bytes, n);
}

/*
 * The same, waited for: what the memory alone costs, one access after the other. A loop of nothing but memcpy of single bytes has ten
 * of them under way at once, which a program with work between its calls has not.
 */
static void memory_read(struct place *p, uint64_t block, size_t n)
{
    memcpy_read(p, block, n);
    atomic_thread_fence(memory_order_seq_cst);
}

static void memory_write(struct place *p, uint64_t block, size_t n)
{
    memcpy_write(p, block, n);
    atomic_thread_fence(memory_order_seq_cst);
}

static void copy_read(struct place *p, uint64_t block, size_t n)
{
    tb_copy_out(&p->engine->copy, p->bytes, bytes_of(p, block), n);
}

static void copy_write(struct place *p, uint64_t block, size_t n)
{
    tb_copy_in(&p->engine->copy, bytes_of(p, block), p->bytes, n);
}

static void medium_read(struct place *p, uint64_t block, size_t n)
{
    tb_medium_read(p->engine, p->buffers[block], inside(p, block), (uint32_t)n, p->bytes);
}

static void medium_write(struct place *p, uint64_t block, size_t n)
{
    tb_medium_write(p->engine, p->buffers[block], inside(p, block), (uint32_t)n, p->bytes);
}

/*
 * From here on a failure ends the program: a figure of calls that did nothing would look like a
 * very fast one.
 */
static void data_read(struct place *p, uint64_t block, size_t n)
{
    if (tb_data_read(&p->target, p->bytes, n, block * BLOCK) != (ssize_t)n)
        abort();
}

static void data_write(struct place *p, uint64_t block, size_t n)
{
    if (tb_data_write(&p->target, p->bytes, n, block * BLOCK) != (ssize_t)n)
        abort();
}

static void layer_read(struct place *p, uint64_t block, size_t n)
{
    if (TB_IO(p->io, pread, p->fd, p->bytes, n, (off_t)(block * BLOCK)) != (ssize_t)n)
        abort();
}

static void layer_write(struct place *p, uint64_t block, size_t n)
{
    if (TB_IO(p->io, pwrite, p->fd, p->bytes, n, (off_t)(block * BLOCK)) != (ssize_t)n)
        abort();
}

static const struct step {
    const char *layer, *operation;
    size_t bytes, of;
    void (*act)(struct place *, uint64_t block, size_t n);
} steps[] = {
/* Single bytes show what a layer costs without the copy. */
#define STEPS_OF(way)                                                                                        \
    {"memcpy", #way, BLOCK, FILE_BYTES, memcpy_##way}, {"copy", #way, BLOCK, FILE_BYTES, copy_##way},        \
        {"medium", #way, BLOCK, FILE_BYTES, medium_##way}, {"look-up", #way, BLOCK, FILE_BYTES, data_##way}, \
        {"layer", #way, BLOCK, FILE_BYTES, layer_##way}, {"memcpy", #way, 1, FILE_BYTES, memcpy_##way},      \
        {"memory", #way, 1, FILE_BYTES, memory_##way}, {"medium", #way, 1, FILE_BYTES, medium_##way},        \
        {"look-up", #way, 1, FILE_BYTES, data_##way}, {"layer", #way, 1, FILE_BYTES, layer_##way},           \
        {"memory", #way, 1, CACHED, memory_##way},                                                           \
    {                                                                                                        \
        "layer", #way, 1, CACHED, layer_##way                                                                \
    }
    STEPS_OF(read),
    STEPS_OF(write),
};
#define N_STEPS (sizeof(steps) / sizeof(steps[0]))
#define N_ALLOCATION 2

/* Of the processor: a time in which another process had it counts for no step. */
static double now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* Nanoseconds an operation. */
static double time_step(struct place *p, const struct step *s)
{
    p->of = s->of;
    double start = now_ns();
    for (int i = 0; i < OPERATIONS; i++)
        s->act(p, next_block(p), s->bytes);
    return (now_ns() - start) / OPERATIONS;
}

/* A new file in order, then the same bytes again: the difference is what taking and publishing buffers costs. */
static void time_allocation(struct place *p, double *first, double *again)
{
    char path[TB_PATH_MAX + 32];
    snprintf(path, sizeof(path), "%s/tb-layers.new", p->engine->header->config.pfs.path);
    int fd = TB_IO(p->io, open, path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    double *into[] = {first, again};
    for (int pass = 0; pass < 2; pass++) {
        double start = now_ns();
        for (uint64_t block = 0; block < FILE_BYTES / BLOCK; block++)
            TB_IO(p->io, pwrite, fd, p->bytes, BLOCK, (off_t)(block * BLOCK));
        *into[pass] = (now_ns() - start) / (FILE_BYTES / BLOCK);
    }
    TB_IO(p->io, unlink, path, 0);
    TB_IO(p->io, close, fd);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double median(double *values)
{
    qsort(values, ROUNDS, sizeof(*values), by_value);
    return values[ROUNDS / 2];
}

static void print(const struct step *s, double ns, bool last)
{
    printf("  {\"layer\": \"%s\", \"operation\": \"%s\", \"bytes\": %zu, \"of\": %zu, \"ns\": %.1f}%s\n", s->layer, s->operation, s->bytes,
           s->of, ns, last ? "" : ",");
}

/*
 * All steps take turns in each round, so that a machine that slows down does so for all of them. The median
 * leaves out rounds in which something else ran.
 */
static void measure(struct place *p)
{
    static double taken[N_STEPS + N_ALLOCATION][ROUNDS];
    for (int r = 0; r < ROUNDS; r++) {
        for (size_t s = 0; s < N_STEPS; s++)
            taken[s][r] = time_step(p, &steps[s]);
        time_allocation(p, &taken[N_STEPS][r], &taken[N_STEPS + 1][r]);
    }
    puts("[");
    for (size_t s = 0; s < N_STEPS; s++)
        print(&steps[s], median(taken[s]), false);
    print(&(struct step){"layer", "write in order, new buffers", BLOCK, FILE_BYTES, NULL}, median(taken[N_STEPS]), false);
    print(&(struct step){"layer", "write in order, again", BLOCK, FILE_BYTES, NULL}, median(taken[N_STEPS + 1]), true);
    puts("]");
}

/* The file whole in buffers, and where each of its blocks is. */
static int fill(struct place *p)
{
    char path[TB_PATH_MAX + 32];
    snprintf(path, sizeof(path), "%s/tb-layers", p->engine->header->config.pfs.path);
    p->fd = TB_IO(p->io, open, path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (p->fd < 0)
        return p->fd;
    const struct tb_open *o = tb_open_of(p->engine, p->fd);
    p->target =
        (struct tb_target){.engine = p->engine, .io = p->engine->pfs, .file = o->file, .fd = p->fd, .can_read = true, .can_write = true};
    for (uint64_t at = 0, end; at < FILE_BYTES; at += 1u << 20) {
        ssize_t w = TB_IO(p->io, pwrite, p->fd, p->bytes, 1u << 20, (off_t)at);
        if (w != 1 << 20)
            return w < 0 ? (int)w : -5;
        for (uint64_t b = at / BLOCK; b < (at + (1u << 20)) / BLOCK; b++)
            p->buffers[b] = tb_map_owner(p->engine, o->file, b * BLOCK, b * BLOCK + 1, &end);
    }
    return unlink(path); /* what is measured is in buffers */
}

/* Only this process uses the instance, and it has no daemon: nothing flushes or moves bytes during the measurement. */
int main(int argc, char **argv)
{
    struct tb_config *config = calloc(1, sizeof(*config));
    struct tb_error err = {""};
    struct place p = {
        .random = UINT64_C(88172645463325252), .bytes = malloc(1u << 20), .buffers = calloc(FILE_BYTES / BLOCK, sizeof(*p.buffers))};
    char name[32];
    if (argc != 2 || !config || !p.bytes || !p.buffers) {
        fputs("usage: tb-layers CONFIG\n", stderr);
        return 2;
    }
    snprintf(name, sizeof(name), "layers-%d", (int)getpid());
    memset(p.bytes, 'b', 1u << 20);
    int rc = tb_config_read(argv[1], config, &err);
    if (!rc)
        rc = tb_instance_create(config, name, tb_io_libc(), NULL, NULL, &p.engine, &err);
    if (rc) {
        fprintf(stderr, "tb-layers: %s\n", err.text);
        return 2;
    }
    p.io = &p.engine->any.io;
    rc = fill(&p);
    if (rc)
        fprintf(stderr, "tb-layers: %s\n", strerror(-rc));
    else
        measure(&p);
    tb_instance_destroy(p.engine);
    return rc ? 1 : 0;
}
