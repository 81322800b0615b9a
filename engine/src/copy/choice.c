/*
 * Measuring the ways to copy, and choosing one (copy/choice.h). The daemon does it once, when it makes an instance: a few
 * milliseconds of copies in several sizes and places. Clients read the result in the header and never measure.
 */
#include "copy/choice.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PAGE 4096u
#define WINDOW (64u << 20) /* of the region: more than the last cache of most processors */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define ROUNDS 1 /* a sanitizer copies in its own way, and takes ten times as long: only so that there are figures */
#else
#define ROUNDS 4 /* 5 to 6 ms each, less in a small region */
#endif

static const size_t sizes[TB_COPY_SIZES] = {4096, 65536, 1u << 20};
static const uint32_t copies[TB_COPY_SIZES] = {32, 4, 1}; /* between two looks at the clock */

/* Where the program's side begins in its page. The region's begins with a page, as most buffers do. */
static const struct place {
    const char *name;
    size_t in, out; /* copied into the region, and out of it */
} places[TB_COPY_PLACES] = {
    {"aligned", 2048, 2048},
    {"misaligned by 1", 2049, 2049},
    {"misaligned by 16", 2064, 2064},
    {"page-aliased", PAGE - 16, 16}, /* the destination's place in its page is 16 bytes after the source's */
};

#define OWN_BYTES ((1u << 20) + PAGE) /* the largest size, wherever it begins in a page */

struct trial {
    char *shared, *own;
    size_t n; /* of shared */
    uint64_t random;
};

/* xorshift: blocks that no way finds in a cache because the one before it was there. */
static char *next_block(struct trial *t, size_t size)
{
    assert(size <= t->n);
    t->random ^= t->random << 13;
    t->random ^= t->random >> 7;
    t->random ^= t->random << 17;
    return t->shared + t->random % ((t->n - size) / PAGE + 1) * PAGE;
}

/* Of the processor: a time in which another process had it counts for no way. */
static double processor_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* Nanoseconds of one copy. */
static double time_one(struct trial *t, tb_copy_bytes *copy, uint32_t size, const struct place *place)
{
    double start = processor_ns();
    for (uint32_t i = 0; i < copies[size]; i++) {
        copy(next_block(t, sizes[size]), t->own + place->in, sizes[size]);
        copy(t->own + place->out, next_block(t, sizes[size]), sizes[size]);
    }
    return (processor_ns() - start) / (2.0 * copies[size]);
}

/* The least of all rounds counts: whatever else the machine does can only make a copy slower. */
static void measure_ways(struct trial *t, uint32_t size, uint32_t place, struct tb_copy_choice *out)
{
    for (uint32_t w = 0; w < TB_COPY_WAYS; w++) {
        double *least = &out->ns[w][size][place];
        if (!tb_copy_ways[w].is_here())
            continue;
        double ns = time_one(t, tb_copy_ways[w].copy, size, &places[place]);
        if (*least <= 0 || ns < *least)
            *least = ns;
    }
}

/* By turns, so that a minute in which the processor is slow meets all ways alike. A small region has no block of the largest size. */
static void measure_all(struct trial *t, struct tb_copy_choice *out)
{
    for (uint32_t size = 0; size < TB_COPY_SIZES && sizes[size] <= t->n; size++)
        for (uint32_t place = 0; place < TB_COPY_PLACES; place++)
            measure_ways(t, size, place, out);
}

void tb_copy_measure(char *shared, size_t n, struct tb_copy_choice *out)
{
    struct trial t = {.shared = shared, .n = n < WINDOW ? n : WINDOW, .random = UINT64_C(88172645463325252)};
    memset(out, 0, sizeof(*out));
    t.own = aligned_alloc(PAGE, OWN_BYTES);
    if (!t.own)
        return;                  /* memcpy, and no figures: the start goes on */
    memset(t.own, 0, OWN_BYTES); /* touched: else the first way would pay for the page faults */
    for (int r = 0; r < ROUNDS; r++)
        measure_all(&t, out);
    free(t.own);
    out->way = tb_copy_choose(out);
}

/* Of all that was measured, the average over libc's time; above 1 where it is too slow anywhere or was not measured. */
static double cost(const struct tb_copy_choice *c, uint32_t way)
{
    const double *libc = &c->ns[TB_COPY_LIBC][0][0], *ns = &c->ns[way][0][0];
    double sum = 0;
    uint32_t n = 0;
    for (uint32_t i = 0; i < TB_COPY_SIZES * TB_COPY_PLACES; i++) {
        if (libc[i] <= 0)
            continue;
        if (ns[i] <= 0 || ns[i] > TB_COPY_WORST * libc[i])
            return 2;
        sum += ns[i] / libc[i];
        n++;
    }
    return n ? sum / n : 2;
}

/* libc's memcpy stays unless another way is faster by the margin: within it the same choice could fall otherwise at the next start. */
uint32_t tb_copy_choose(const struct tb_copy_choice *c)
{
    uint32_t best = TB_COPY_LIBC;
    double least = TB_COPY_MARGIN;
    for (uint32_t w = TB_COPY_LIBC + 1; w < TB_COPY_WAYS; w++) {
        double each = cost(c, w);
        if (each < least) {
            least = each;
            best = w;
        }
    }
    assert(best < TB_COPY_WAYS && least <= TB_COPY_MARGIN);
    return best;
}

/* The header is shared, so an index is checked before it is used. */
uint32_t tb_copy_chosen(const struct tb_copy_choice *c)
{
    return c->way < TB_COPY_WAYS ? c->way : TB_COPY_LIBC;
}

/* What the daemon's build has, the program's may lack: a sanitizer, or another processor's list. Then it copies by memcpy. */
tb_copy_bytes *tb_copy_by(const struct tb_copy_choice *c)
{
    const struct tb_copy_way *way = &tb_copy_ways[tb_copy_chosen(c)];
    return way->is_here() ? way->copy : tb_copy_ways[TB_COPY_LIBC].copy;
}

size_t tb_copy_size(uint32_t size)
{
    assert(size < TB_COPY_SIZES);
    return sizes[size];
}

const char *tb_copy_place_name(uint32_t place)
{
    assert(place < TB_COPY_PLACES);
    return places[place].name;
}

/* Bytes a second, or 0 where it was not measured. */
uint64_t tb_copy_rate(const struct tb_copy_choice *c, uint32_t way, uint32_t size, uint32_t place)
{
    assert(way < TB_COPY_WAYS && size < TB_COPY_SIZES && place < TB_COPY_PLACES);
    double ns = c->ns[way][size][place];
    return ns > 0 ? (uint64_t)((double)sizes[size] / ns * 1e9) : 0;
}
