/*
 * tb-copy
 *
 * What the engine's ways to copy a block cost on this processor (copy/ways.h). A block
 * is copied into shared memory or out of it, as the engine does: a random one of many, or the same one again. The
 * program's side begins at another byte of its page each time: on some processors a way is many times slower
 * where the two sides are aligned differently, and no flag says so. Prints a JSON list of {"way", "block", "copied",
 * "program", "bytes", "ns"}: medians over rounds in which all take turns.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "copy/ways.h"

#define PAGE 4096u
#define MEMORY (64u << 20)     /* more than the last cache of most processors */
#define BATCH_BYTES (1u << 20) /* some 100 us: long against the clock, short against another process's turn */
#define ROUNDS 31              /* odd, so that the median is one of them */

/* Where the program's side begins in its page. Shared memory's begins with a page, as buffers do. */
static const struct program {
    const char *name;
    size_t in, out; /* copied into shared memory, and out of it */
} programs[] = {
    {"aligned", 2048, 2048},
    {"misaligned by 1", 2049, 2049},
    {"misaligned by 16", 2064, 2064},
    {"page-aliased", PAGE - 16, 16}, /* the destination's place in its page is 16 bytes after the source's */
};

static const size_t sizes[] = {1024, 4096, 65536};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define CELLS (TB_COPY_WAYS * COUNT(programs) * COUNT(sizes) * 4)

struct cell {
    const struct tb_copy_way *way;
    const struct program *program;
    size_t bytes;
    bool is_random, is_out;
    double ns[ROUNDS];
};

struct memory {
    char *shared, *own;
    uint64_t random;
};

/* xorshift: the same blocks in every run. Each begins with a page. */
static size_t next_block(struct memory *m, const struct cell *c)
{
    size_t step = c->bytes > PAGE ? c->bytes : PAGE;
    m->random ^= m->random << 13;
    m->random ^= m->random >> 7;
    m->random ^= m->random << 17;
    return c->is_random ? m->random % (MEMORY / step) * step : 0;
}

static double now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static double time_batch(struct memory *m, const struct cell *c)
{
    size_t n = BATCH_BYTES / c->bytes;
    double start = now_ns();
    for (size_t i = 0; i < n; i++) {
        char *shared = m->shared + next_block(m, c);
        if (c->is_out)
            c->way->copy(m->own + c->program->out, shared, c->bytes);
        else
            c->way->copy(shared, m->own + c->program->in, c->bytes);
    }
    return (now_ns() - start) / (double)n;
}

static size_t list(struct cell *cells)
{
    size_t n = 0;
    for (size_t i = 0; i < CELLS; i++) {
        const struct tb_copy_way *way = &tb_copy_ways[i / 4 / COUNT(sizes) / COUNT(programs)];
        if (way->is_here())
            cells[n++] = (struct cell){.way = way,
                                       .program = &programs[i / 4 / COUNT(sizes) % COUNT(programs)],
                                       .bytes = sizes[i / 4 % COUNT(sizes)],
                                       .is_random = i / 2 % 2,
                                       .is_out = i % 2};
    }
    return n;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static void print(struct cell *c, const char *end)
{
    qsort(c->ns, ROUNDS, sizeof(c->ns[0]), by_value);
    printf("  {\"way\": \"%s\", \"block\": \"%s\", \"copied\": \"%s\", \"program\": \"%s\", \"bytes\": %zu, \"ns\": %.1f}%s\n",
           c->way->name, c->is_random ? "random" : "same", c->is_out ? "out" : "in", c->program->name, c->bytes, c->ns[ROUNDS / 2], end);
}

/* The first round is made twice: its page faults, and what the processor learns in it, are no part of the price. */
int main(int argc, char **argv)
{
    static struct cell cells[CELLS];
    struct memory m = {.random = UINT64_C(88172645463325252)};
    if (argc != 1)
        return fprintf(stderr, "usage: %s\n", argv[0]), 2;
    m.shared = mmap(NULL, MEMORY, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    m.own = aligned_alloc(PAGE, 65536 + PAGE);
    if (m.shared == MAP_FAILED || !m.own)
        return fputs("tb-copy: no memory\n", stderr), 1;
    memset(m.shared, 1, MEMORY);
    memset(m.own, 1, 65536 + PAGE);
    size_t n = list(cells);
    for (int r = -1; r < ROUNDS; r++)
        for (size_t i = 0; i < n; i++)
            cells[i].ns[r < 0 ? 0 : r] = time_batch(&m, &cells[i]);
    puts("[");
    for (size_t i = 0; i < n; i++)
        print(&cells[i], i + 1 < n ? "," : "");
    puts("]");
    return 0;
}
