/*
 * Is a page a linearizable register?  Writers overwrite one page with values
 * that no two writes share, readers read it whole, and each notes when its
 * calls began and returned. At the same time the file is flushed and fsynced, and
 * other files push its buffers out.  A torn page ends the test at once.
 *
 * The check is Gibbons' and Korach's (SIAM J. Comput. 26, 1997) for unique
 * values.  A write and the reads of its value form a cluster; first is its
 * earliest return, last its latest begin.  Where first < last the page must have held
 * the value all the time between: such a zone is forward, and no two may overlap.
 * Else the cluster fits one instant of [last, first]: a backward zone, which may
 * not be inside a forward one.  And no read returns before its write began.
 */
#include "stress.h"

#include <sched.h>

#define PAGE 4096
#define WRITERS 3
#define READERS 3
#define HELPERS 2 /* one flushes, one takes buffers away */
#define ALIGNED (64u << 10)
#define ACROSS ((300u << 10) + 1000) /* across two small buffers of one chunk */
#define OTHER_BYTES (8u << 20)

struct operation {
    uint64_t begin, end;     /* nanoseconds */
    uint32_t writer, serial; /* of the value; serial 0: what was there at first */
    bool is_write;
};

struct history {
    uint64_t offset;
    uint32_t per_worker;
    _Atomic uint32_t busy; /* workers that still write or read */
    uint32_t n[WRITERS + READERS];
    struct operation operation[]; /* per_worker of each */
};

static struct operation *note(struct worker *w, bool is_write)
{
    struct history *h = w->arg;
    struct operation *o = &h->operation[(size_t)w->id * h->per_worker + h->n[w->id]++];
    o->is_write = is_write;
    return o;
}

static void write_page(struct worker *w, int fd)
{
    const struct history *h = w->arg;
    unsigned char page[PAGE];
    struct operation *o = note(w, true);
    o->writer = (uint32_t)w->id;
    o->serial = h->n[w->id];
    stamp_block(page, PAGE, o->writer, o->serial, h->offset);
    o->begin = now_ns();
    ssize_t n = TB_IO(w->io, pwrite, fd, page, PAGE, (off_t)h->offset);
    o->end = now_ns();
    must(n == PAGE, "write: %zd", n);
}

static void read_page(struct worker *w, int fd)
{
    const struct history *h = w->arg;
    unsigned char page[PAGE];
    struct stamp s;
    struct operation *o = note(w, false);
    o->begin = now_ns();
    ssize_t n = TB_IO(w->io, pread, fd, page, PAGE, (off_t)h->offset);
    o->end = now_ns();
    must(n == PAGE && stamp_read(page, PAGE, h->offset, &s), "read: %zd bytes, or a torn page", n);
    o->writer = s.writer;
    o->serial = s.serial;
}

static int open_file(struct worker *w, const char *name)
{
    char path[512];
    snprintf(path, sizeof(path), "%s/%s", w->x->pfs, name);
    int fd = TB_IO(w->io, open, path, O_RDWR | O_CREAT, 0600);
    must(fd >= 0, "open %s: %d", name, fd);
    return fd;
}

static void flush_page(struct worker *w, int fd, uint32_t i)
{
    int rc = i % 4 ? tb_engine_flush(w->engine, fd) : TB_IO(w->io, fsync, fd, false);
    must(rc >= 0, "flush: %d", rc);
}

/* Writes more than the tiers hold, so that what is clean is reclaimed. */
static void press(struct worker *w, int other, uint32_t *at)
{
    static const unsigned char bytes[PAGE * 16];
    must(TB_IO(w->io, pwrite, other, bytes, sizeof(bytes), *at) == sizeof(bytes), "pressure");
    *at = (*at + (uint32_t)sizeof(bytes)) % OTHER_BYTES;
    if (*at % (1u << 20) == 0)
        must(tb_engine_flush(w->engine, other) >= 0, "flush of the other file");
}

static void work(struct worker *w)
{
    struct history *h = w->arg;
    bool helps = w->id >= WRITERS + READERS;
    int fd = open_file(w, "register"), other = open_file(w, "other");
    uint32_t at = 0;
    for (uint32_t i = 0; helps ? h->busy : i < h->per_worker; i++) {
        if (w->id < WRITERS)
            write_page(w, fd);
        else if (!helps)
            read_page(w, fd);
        else if (w->id % HELPERS)
            flush_page(w, fd, i);
        else
            press(w, other, &at);
        if (next_random(&w->seed) % 64 == 0)
            sched_yield();
    }
    if (!helps)
        h->busy--;
    must(TB_IO(w->io, close, fd) == 0 && TB_IO(w->io, close, other) == 0, "close");
}

struct zone {
    uint64_t low, high;
    bool forward;
};

struct cluster {
    uint64_t first, last, written; /* earliest return, latest begin, begin of the write */
    bool known;
};

static struct cluster *cluster_of(const struct history *h, struct cluster *all, uint32_t writer, uint32_t serial)
{
    return serial ? &all[1 + (size_t)writer * h->per_worker + serial - 1] : &all[0];
}

static void add_to_clusters(const struct history *h, struct cluster *all, const struct operation *o)
{
    must(o->writer < WRITERS && o->serial <= h->per_worker, "no call wrote value %u of writer %u", o->serial, o->writer);
    struct cluster *c = cluster_of(h, all, o->writer, o->serial);
    if (!c->known)
        *c = (struct cluster){.first = UINT64_MAX, .known = true};
    if (o->is_write)
        c->written = o->begin;
    c->first = o->end < c->first ? o->end : c->first;
    c->last = o->begin > c->last ? o->begin : c->last;
}

static int by_low(const void *a, const void *b)
{
    const struct zone *x = a, *y = b;
    return x->low < y->low ? -1 : x->low > y->low;
}

static void check_zones(const struct zone *zone, size_t n)
{
    const struct zone *forward = NULL; /* the one with the latest end so far */
    for (size_t i = 0; i < n; i++) {
        const struct zone *z = &zone[i];
        if (forward && z->forward)
            must(z->low >= forward->high, "two values were both there from %llu to %llu", (unsigned long long)z->low,
                 (unsigned long long)forward->high);
        if (forward && !z->forward)
            must(z->high >= forward->high || z->low < forward->low, "a value came and went while another was there, at %llu",
                 (unsigned long long)z->low);
        if (z->forward)
            forward = z;
    }
}

/* Every read's value was written, and not after the read. */
static void check_linearizable(const struct history *h)
{
    size_t n_values = 1 + (size_t)WRITERS * h->per_worker, n = 0;
    struct cluster *all = calloc(n_values, sizeof(*all));
    struct zone *zone = malloc(n_values * sizeof(*zone));
    add_to_clusters(h, all, &(struct operation){.is_write = true}); /* what was there at first, before all time */
    for (uint32_t k = 0; k < WRITERS + READERS; k++)
        for (uint32_t i = 0; i < h->n[k]; i++)
            add_to_clusters(h, all, &h->operation[(size_t)k * h->per_worker + i]);
    for (size_t i = 0; i < n_values; i++) {
        const struct cluster *c = &all[i];
        if (!c->known)
            continue;
        must(c->first >= c->written, "a read returned a value before its write had begun");
        bool forward = c->first < c->last;
        zone[n++] = (struct zone){forward ? c->first : c->last, forward ? c->last : c->first, forward};
    }
    qsort(zone, n, sizeof(*zone), by_low);
    check_zones(zone, n);
    free(zone);
    free(all);
}

static void start_register(struct fixture *x, uint64_t offset)
{
    unsigned char page[PAGE];
    int fd = TB_IO(x->io, open, fixture_path(x, "register"), O_RDWR | O_CREAT, 0600);
    stamp_block(page, PAGE, 0, 0, offset);
    assert_true(fd >= 0 && TB_IO(x->io, pwrite, fd, page, PAGE, (off_t)offset) == PAGE);
    assert_int_equal(TB_IO(x->io, close, fd), 0);
}

static void only_directory(struct fixture *x)
{
    x->config.tiers[0] = x->config.tiers[1];
    x->config.n_tiers = 1;
}

static void run(bool processes, bool directory, uint64_t offset)
{
    struct fixture x;
    uint32_t per_worker = (uint32_t)stress_amount(8000);
    struct history *h = stress_shared(sizeof(*h) + (WRITERS + READERS) * per_worker * sizeof(struct operation));
    h->offset = offset;
    h->per_worker = per_worker;
    h->busy = WRITERS + READERS;
    fixture_init(&x, TB_MODE_PERSISTENT_ASYNC);
    if (directory)
        only_directory(&x);
    fixture_start(&x);
    start_register(&x, offset);
    run_workers(&x, WRITERS + READERS + HELPERS, processes, work, h);
    check_linearizable(h);
    assert_true(tb_region_is_valid(x.engine));
    fixture_stop(&x);
    munmap(h, sizeof(*h) + (WRITERS + READERS) * per_worker * sizeof(struct operation));
}

static void memory_by_threads(void **state)
{
    (void)state;
    run(false, false, ALIGNED);
    run(false, false, ACROSS);
}

static void directory_by_threads(void **state)
{
    (void)state;
    run(false, true, ALIGNED);
    run(false, true, ACROSS);
}

#ifndef __SANITIZE_THREAD__
static void by_processes(void **state)
{
    (void)state;
    run(true, false, ALIGNED);
    run(true, false, ACROSS);
    run(true, true, ALIGNED);
}
#endif

/* The checker itself: a history that no register has. */
static void checker_refuses(const struct operation *o, uint32_t n)
{
    pid_t pid = fork();
    int status;
    if (pid == 0) {
        struct history *h = calloc(1, sizeof(*h) + (WRITERS + READERS) * n * sizeof(*o));
        h->per_worker = n;
        h->n[0] = n;
        memcpy(h->operation, o, n * sizeof(*o));
        if (!freopen("/dev/null", "w", stderr))
            _exit(1);
        check_linearizable(h);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
}

static void checker_finds_stale_reads(void **state)
{
    (void)state;
    /* Read after a newer write was acknowledged. */
    checker_refuses((struct operation[]){{10, 20, 0, 1, true}, {30, 40, 0, 2, true}, {50, 60, 0, 1, false}}, 3);
    /* Two readers see two overlapping writes in both orders. */
    checker_refuses(
        (struct operation[]){
            {10, 90, 0, 1, true}, {10, 90, 1, 1, true}, {20, 30, 0, 1, false}, {31, 40, 1, 1, false}, {41, 50, 0, 1, false}},
        5);
    /* Read before the write began. */
    checker_refuses((struct operation[]){{10, 20, 0, 1, false}, {30, 40, 0, 1, true}}, 2);
    /* The first value again, long after. */
    checker_refuses((struct operation[]){{10, 20, 0, 1, true}, {30, 40, 0, 0, false}}, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(checker_finds_stale_reads),
        cmocka_unit_test(memory_by_threads),
        cmocka_unit_test(directory_by_threads),
#ifndef __SANITIZE_THREAD__
        cmocka_unit_test(by_processes),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
