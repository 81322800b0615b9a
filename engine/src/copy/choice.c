/*
 * Measuring the ways to copy, and choosing among them (copy/choice.h). The daemon does it once, when it makes an instance: a few
 * milliseconds of copies in several sizes and places. Clients read the result in the header and never measure.
 */
#include "copy/choice.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PAGE 4096u
#define WINDOW (64u << 20) /* of the region: more than the last cache of most processors */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define ROUNDS 1 /* a sanitizer copies in its own way, and takes ten times as long: only so that there are figures */
#else
#define ROUNDS 4 /* some ms each, less in a small region */
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
    _Atomic uint32_t noted;
};

static const char *const kind_names[TB_COPY_KINDS] = {"in", "out", "in, asked for ahead"};

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

/* The region's bytes are zeros, so the next block is what it would be; but it is not known before the last of them are here. */
static void copy_out(struct trial *t, tb_copy_bytes *copy, size_t size, char *own)
{
    copy(own, next_block(t, size), size);
    uint64_t last;
    memcpy(&last, own + size - sizeof(last), sizeof(last));
    t->random ^= last;
}

/* The note of a writer in place (buffer/chunk.h) is a locked instruction before the copy. */
static void copy_in(struct trial *t, tb_copy_bytes *copy, size_t size, const char *own, bool ahead)
{
    char *to = next_block(t, size);
    if (ahead)
        tb_copy_ask_ahead(to, size);
    atomic_fetch_add(&t->noted, 1);
    copy(to, own, size);
}

/* Nanoseconds of one copy. */
static double time_one(struct trial *t, uint32_t kind, tb_copy_bytes *copy, uint32_t size, const struct place *place)
{
    double start = processor_ns();
    for (uint32_t i = 0; i < copies[size]; i++)
        if (kind == TB_COPY_OUT)
            copy_out(t, copy, sizes[size], t->own + place->out);
        else
            copy_in(t, copy, sizes[size], t->own + place->in, kind == TB_COPY_IN_AHEAD);
    return (processor_ns() - start) / copies[size];
}

/* The least of all rounds counts: whatever else the machine does can only make a copy slower. */
static void measure_ways(struct trial *t, uint32_t kind, uint32_t size, uint32_t place, struct tb_copy_choice *out)
{
    for (uint32_t w = 0; w < TB_COPY_WAYS; w++) {
        double *least = &out->ns[kind][w][size][place];
        if (!tb_copy_ways[w].is_here())
            continue;
        double ns = time_one(t, kind, tb_copy_ways[w].copy, size, &places[place]);
        if (*least <= 0 || ns < *least)
            *least = ns;
    }
}

static bool size_is_long(uint32_t size)
{
    return sizes[size] >= TB_COPY_LONG;
}

/* By turns, so that a minute in which the processor is slow meets all ways alike. A small region has no block of the largest size. */
static void measure_all(struct trial *t, struct tb_copy_choice *out)
{
    for (uint32_t size = 0; size < TB_COPY_SIZES && sizes[size] <= t->n; size++)
        for (uint32_t i = 0; i < TB_COPY_KINDS * TB_COPY_PLACES; i++)
            if (i % TB_COPY_KINDS != TB_COPY_IN_AHEAD || !size_is_long(size))
                measure_ways(t, i % TB_COPY_KINDS, size, i / TB_COPY_KINDS, out);
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
    tb_copy_choose(out);
}

/*
 * Of all that was measured of such copies, the average over libc's time without asking ahead; TOO_MUCH where it is too slow anywhere or
 * was not measured.
 */
#define TOO_MUCH 2.0
static double cost(const struct tb_copy_choice *c, uint32_t kind, bool is_long, uint32_t way)
{
    double sum = 0;
    uint32_t n = 0;
    for (uint32_t i = 0; i < TB_COPY_SIZES * TB_COPY_PLACES; i++) {
        uint32_t size = i / TB_COPY_PLACES, place = i % TB_COPY_PLACES;
        double libc = c->ns[kind == TB_COPY_IN_AHEAD ? TB_COPY_IN : kind][TB_COPY_LIBC][size][place], ns = c->ns[kind][way][size][place];
        if (libc <= 0 || size_is_long(size) != is_long)
            continue;
        if (ns <= 0 || ns > TB_COPY_WORST * libc)
            return TOO_MUCH;
        sum += ns / libc;
        n++;
    }
    return n ? sum / n : TOO_MUCH;
}

/* libc's memcpy stays unless another way is faster by the margin: within it the same choice could fall otherwise at the next start. */
static double choose_way(const struct tb_copy_choice *c, uint32_t kind, bool is_long, uint32_t *way)
{
    double libc = cost(c, kind, is_long, TB_COPY_LIBC), least = TB_COPY_MARGIN * libc;
    *way = TB_COPY_LIBC;
    for (uint32_t w = TB_COPY_LIBC + 1; w < TB_COPY_WAYS; w++) {
        double each = cost(c, kind, is_long, w);
        if (each < least) {
            least = each;
            *way = w;
        }
    }
    return *way == TB_COPY_LIBC ? libc : least;
}

void tb_copy_choose(struct tb_copy_choice *c)
{
    uint32_t way;
    for (uint32_t i = 0; i < 2 * TB_COPY_DIRECTIONS; i++)
        choose_way(c, i / 2, i % 2, &c->way[i / 2][i % 2]);
    double without = cost(c, TB_COPY_IN, false, c->way[TB_COPY_IN][0]);
    c->ahead = choose_way(c, TB_COPY_IN_AHEAD, false, &way) < TB_COPY_MARGIN * without;
    if (c->ahead)
        c->way[TB_COPY_IN][0] = way;
}

/* The header is shared, so an index is checked before it is used. */
uint32_t tb_copy_chosen(const struct tb_copy_choice *c, uint32_t direction, bool is_long)
{
    assert(direction < TB_COPY_DIRECTIONS);
    uint32_t way = c->way[direction][is_long];
    return way < TB_COPY_WAYS ? way : TB_COPY_LIBC;
}

/* What the daemon's build has, the program's may lack: a sanitizer, or another processor's list. Then it copies by memcpy. */
static tb_copy_bytes *usable(uint32_t way)
{
    return tb_copy_ways[tb_copy_ways[way].is_here() ? way : TB_COPY_LIBC].copy;
}

struct tb_copier tb_copy_by(const struct tb_copy_choice *c)
{
    struct tb_copier by = {.ahead = c->ahead};
    for (uint32_t is_long = 0; is_long < 2; is_long++) {
        by.in[is_long] = usable(tb_copy_chosen(c, TB_COPY_IN, is_long));
        by.out[is_long] = usable(tb_copy_chosen(c, TB_COPY_OUT, is_long));
    }
    return by;
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

const char *tb_copy_kind_name(uint32_t kind)
{
    assert(kind < TB_COPY_KINDS);
    return kind_names[kind];
}

/* Bytes a second, or 0 where it was not measured. */
uint64_t tb_copy_rate(const struct tb_copy_choice *c, uint32_t kind, uint32_t way, uint32_t size, uint32_t place)
{
    assert(kind < TB_COPY_KINDS && way < TB_COPY_WAYS && size < TB_COPY_SIZES && place < TB_COPY_PLACES);
    double ns = c->ns[kind][way][size][place];
    return ns > 0 ? (uint64_t)((double)sizes[size] / ns * 1e9) : 0;
}
