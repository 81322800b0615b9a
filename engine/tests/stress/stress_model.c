/*
 * Random operations against a model in plain memory, by several ranks at once.
 *
 * A rank owns two files: it writes, reads, truncates, renames (itself, over its
 * other file, or the directory they are in), unlinks while open and makes them
 * again, while flush threads of the instance flush and buffers are reclaimed
 * and moved between tiers under it.  In a file that all ranks share it owns every n-th range.  What it
 * reads must be the model's bytes at any time; at quiescent points the region
 * must be valid, and after the drain the PFS must hold the model's bytes.
 */
#include "stress.h"

#include "buffer/heat.h"
#include "buffer/of_file.h"
#include "instance/background.h"
#include "instance/drain.h"
#include "layer/descriptions.h"
#include "tiering/move.h"

#define RANKS 5
#define OWN 2
#define SPAN (300u << 10) /* bytes of a file of one rank */
#define RANGE 20000u      /* bytes of one range of the shared file */
#define RANGES (RANKS * 12u)

struct own {
    unsigned char *bytes;
    size_t size;
    int fd;
    char name[16];
};

struct rank {
    struct worker *w;
    struct own file[OWN];
    char directory[400];
    uint32_t serial; /* of names */
    int shared_fd;
    unsigned char *shared; /* RANGES * RANGE, of which it owns some */
    unsigned char *scratch;
};

struct plan {
    uint64_t steps;
    pthread_barrier_t *quiet; /* threads only */
};

static struct tb_io *io_of(const struct rank *r)
{
    return r->w->io;
}

static void path_of(const struct rank *r, const char *name, char *out, size_t size)
{
    snprintf(out, size, "%s/%s", r->directory, name);
}

static void open_own(struct rank *r, struct own *f)
{
    char path[512];
    path_of(r, f->name, path, sizeof(path));
    f->fd = TB_IO(io_of(r), open, path, O_RDWR | O_CREAT, 0600);
    must(f->fd >= 0, "open %s: %d", path, f->fd);
}

static void close_own(struct rank *r, struct own *f)
{
    int rc = TB_IO(io_of(r), close, f->fd);
    must(rc == 0, "close %s: %d", f->name, rc);
}

static void fill_random(unsigned char *to, size_t n, uint32_t *seed)
{
    for (size_t i = 0; i < n; i++)
        to[i] = (unsigned char)next_random(seed);
}

static size_t random_length(uint32_t *seed, size_t limit)
{
    size_t n = 1 + next_random(seed) % (next_random(seed) % 4 ? 9000 : 150000);
    return n < limit ? n : limit;
}

static void write_own(struct rank *r, struct own *f)
{
    uint32_t *seed = &r->w->seed;
    size_t at = next_random(seed) % SPAN, n = random_length(seed, SPAN - at);
    fill_random(f->bytes + at, n, seed);
    ssize_t done = TB_IO(io_of(r), pwrite, f->fd, f->bytes + at, n, (off_t)at);
    must(done == (ssize_t)n, "write %s: %zd of %zu", f->name, done, n);
    if (at + n > f->size)
        f->size = at + n;
}

static void compare(const unsigned char *got, const unsigned char *expected, size_t n, const char *name, size_t at)
{
    for (size_t i = 0; i < n; i++)
        must(got[i] == expected[i], "%s: byte %zu of [%zu, %zu) is %u, not %u", name, at + i, at, at + n, got[i], expected[i]);
}

static void read_own(struct rank *r, struct own *f)
{
    uint32_t *seed = &r->w->seed;
    size_t at = next_random(seed) % SPAN, n = random_length(seed, SPAN);
    size_t expected = at >= f->size ? 0 : f->size - at < n ? f->size - at : n;
    ssize_t got = TB_IO(io_of(r), pread, f->fd, r->scratch, n, (off_t)at);
    must(got == (ssize_t)expected, "read %s: %zd, not %zu", f->name, got, expected);
    compare(r->scratch, f->bytes + at, expected, f->name, at);
}

static void truncate_own(struct rank *r, struct own *f)
{
    size_t length = next_random(&r->w->seed) % SPAN;
    int rc = TB_IO(io_of(r), ftruncate, f->fd, (off_t)length);
    must(rc == 0, "truncate %s: %d", f->name, rc);
    if (length < f->size)
        memset(f->bytes + length, 0, f->size - length);
    f->size = length;
}

static void reopen_own(struct rank *r, struct own *f)
{
    char path[512];
    struct stat st;
    close_own(r, f);
    path_of(r, f->name, path, sizeof(path));
    must(TB_IO(io_of(r), stat, path, &st, 0) == 0 && (size_t)st.st_size == f->size, "%s: size %zu, not %zu", f->name, (size_t)st.st_size,
         f->size);
    open_own(r, f);
}

/* The old file lives until its descriptor closes, beside a new one of its name. */
static void unlink_own(struct rank *r, struct own *f)
{
    char path[512];
    struct own old = *f;
    path_of(r, f->name, path, sizeof(path));
    int rc = TB_IO(io_of(r), unlink, path, 0);
    must(rc == 0, "unlink: %d", rc);
    f->bytes = calloc(1, SPAN);
    f->size = 0;
    open_own(r, f);
    write_own(r, &old);
    read_own(r, &old);
    write_own(r, f);
    close_own(r, &old);
    free(old.bytes);
}

static void rename_own(struct rank *r, struct own *f)
{
    char from[512], to[512], name[16];
    snprintf(name, sizeof(name), "n%u", r->serial++);
    path_of(r, f->name, from, sizeof(from));
    path_of(r, name, to, sizeof(to));
    int rc = TB_IO(io_of(r), rename, from, to, 0);
    must(rc == 0, "rename: %d", rc);
    memcpy(f->name, name, sizeof(name));
}

static void rename_over(struct rank *r, struct own *from, struct own *to)
{
    char a[512], b[512];
    path_of(r, from->name, a, sizeof(a));
    path_of(r, to->name, b, sizeof(b));
    int rc = TB_IO(io_of(r), rename, a, b, 0);
    must(rc == 0, "rename over: %d", rc);
    close_own(r, to);
    struct own name = *to;
    unsigned char *bytes = to->bytes;
    *to = *from;
    memcpy(to->name, name.name, sizeof(name.name));
    from->bytes = memset(bytes, 0, SPAN);
    from->size = 0;
    open_own(r, from);
}

static void rename_directory(struct rank *r)
{
    char to[400];
    snprintf(to, sizeof(to), "%s/rank-%d-%u", r->w->x->pfs, r->w->id, r->serial++);
    int rc = TB_IO(io_of(r), rename, r->directory, to, 0);
    must(rc == 0, "rename of a directory: %d", rc);
    memcpy(r->directory, to, sizeof(to));
}

/* A range of the shared file, whole or in part; the others write its neighbours in the same blocks. */
static void use_shared(struct rank *r)
{
    uint32_t *seed = &r->w->seed;
    uint32_t k = next_random(seed) % (RANGES / RANKS) * RANKS + (uint32_t)r->w->id;
    size_t at = (size_t)k * RANGE + next_random(seed) % RANGE, n = random_length(seed, (size_t)(k + 1) * RANGE - at);
    if (next_random(seed) % 2) {
        fill_random(r->shared + at, n, seed);
        must(TB_IO(io_of(r), pwrite, r->shared_fd, r->shared + at, n, (off_t)at) == (ssize_t)n, "shared write");
    }
    ssize_t got = TB_IO(io_of(r), pread, r->shared_fd, r->scratch, n, (off_t)at);
    must(got == (ssize_t)n, "shared read: %zd of %zu", got, n);
    compare(r->scratch, r->shared + at, n, "shared", at);
}

/* A few buffers of a file to some other tier, while others write to it, flush and cut it. */
static void move_some(struct rank *r, int fd)
{
    tb_engine *e = r->w->engine;
    uint32_t file = tb_open_of(e, fd)->file, n, *seed = &r->w->seed;
    struct tb_buffer_ref *refs = tb_file_buffers(e, file, TB_BUFFERS_ALL, &n);
    for (uint32_t k = 0; k < 8 && n; k++) {
        int rc = tb_move(e, file, &refs[next_random(seed) % n], next_random(seed) % tb_config_of(e)->n_tiers, TB_HEAT_ANY);
        must(rc == 0 || rc == -ENOSPC || rc == -EBUSY || rc == -EAGAIN, "move: %d", rc);
    }
    free(refs);
}

static void one_step(struct rank *r)
{
    uint32_t dice = next_random(&r->w->seed) % 100;
    struct own *f = &r->file[next_random(&r->w->seed) % OWN];
    if (dice < 30)
        write_own(r, f);
    else if (dice < 50)
        read_own(r, f);
    else if (dice < 76)
        use_shared(r);
    else if (dice < 80)
        move_some(r, dice % 2 ? f->fd : r->shared_fd);
    else if (dice < 86)
        truncate_own(r, f);
    else if (dice < 90)
        reopen_own(r, f);
    else if (dice < 92)
        must(TB_IO(io_of(r), fsync, dice == 90 ? f->fd : r->shared_fd, false) == 0, "fsync");
    else if (dice < 94)
        unlink_own(r, f);
    else if (dice < 96)
        rename_own(r, f);
    else if (dice < 97)
        rename_over(r, &r->file[0], &r->file[1]);
    else if (dice < 98)
        rename_directory(r);
    else
        must(tb_engine_flush(r->w->engine, f->fd) >= 0, "flush");
}

static void start_rank(struct rank *r, struct worker *w)
{
    char path[512];
    *r = (struct rank){.w = w, .shared = calloc(RANGES, RANGE), .scratch = malloc(SPAN)};
    snprintf(r->directory, sizeof(r->directory), "%s/rank-%d", w->x->pfs, w->id);
    must(TB_IO(w->io, mkdir, r->directory, 0700) == 0, "mkdir");
    for (int i = 0; i < OWN; i++) {
        snprintf(r->file[i].name, sizeof(r->file[i].name), "own-%d", i);
        r->file[i].bytes = calloc(1, SPAN);
        open_own(r, &r->file[i]);
    }
    snprintf(path, sizeof(path), "%s/shared", w->x->pfs);
    r->shared_fd = TB_IO(w->io, open, path, O_RDWR, 0);
    must(r->shared_fd >= 0, "open shared");
}

static void compare_on_pfs(struct rank *r, const char *path, const unsigned char *bytes, size_t size)
{
    int fd = open(path, O_RDONLY);
    unsigned char *got = malloc(size + 1);
    must(fd >= 0, "open %s", path);
    ssize_t n = pread(fd, got, size + 1, 0);
    must(n == (ssize_t)size, "%s on the PFS: %zd bytes, not %zu", path, n, size);
    if (bytes == r->shared)
        for (uint32_t k = (uint32_t)r->w->id; k < RANGES; k += RANKS)
            compare(got + (size_t)k * RANGE, bytes + (size_t)k * RANGE, RANGE, path, (size_t)k * RANGE);
    else
        compare(got, bytes, size, path, 0);
    close(fd);
    free(got);
}

/* Flushed file by file, while others still work on theirs: fsync of `pfs` and close leave nothing dirty. */
static void end_rank(struct rank *r)
{
    char path[512];
    for (int i = 0; i < OWN; i++) {
        must(tb_engine_flush(r->w->engine, r->file[i].fd) >= 0, "last flush");
        path_of(r, r->file[i].name, path, sizeof(path));
        compare_on_pfs(r, path, r->file[i].bytes, r->file[i].size);
        close_own(r, &r->file[i]);
        free(r->file[i].bytes);
    }
    must(tb_engine_flush(r->w->engine, r->shared_fd) >= 0, "last flush");
    snprintf(path, sizeof(path), "%s/shared", r->w->x->pfs);
    compare_on_pfs(r, path, r->shared, (size_t)RANGES * RANGE);
    must(TB_IO(io_of(r), close, r->shared_fd) == 0, "close shared");
    free(r->shared);
    free(r->scratch);
}

static void work(struct worker *w)
{
    const struct plan *p = w->arg;
    struct rank r;
    start_rank(&r, w);
    for (uint64_t s = 0; s < p->steps; s++) {
        one_step(&r);
        if (!p->quiet || s % 200 != 0)
            continue;
        pthread_barrier_wait(p->quiet);
        if (w->id == 0)
            must(tb_region_is_valid(w->engine), "the region at step %llu", (unsigned long long)s);
        pthread_barrier_wait(p->quiet);
    }
    end_rank(&r);
}

static void make_shared_file(struct fixture *x)
{
    int fd = TB_IO(x->io, open, fixture_path(x, "shared"), O_RDWR | O_CREAT, 0600);
    assert_true(fd >= 0);
    assert_int_equal(TB_IO(x->io, ftruncate, fd, (off_t)RANGES * RANGE), 0);
    assert_int_equal(TB_IO(x->io, close, fd), 0);
}

/*
 * The ranks at work, with flush threads beside them if `background`. Processes are forked
 * before there are threads: a child inherits the locks of the sanitizer's allocator as they
 * are, and one that a flush thread holds at the fork is never given back in the child.
 */
static void run_ranks(struct fixture *x, bool processes, bool background, struct plan *p)
{
    static struct crew ranks;
    if (background)
        assert_int_equal(tb_instance_become_daemon(x->engine), 0);
    if (background && !processes)
        assert_int_equal(tb_background_start(x->engine), 0);
    start_workers(&ranks, x, RANKS, processes, work, p);
    if (background && processes)
        assert_int_equal(tb_background_start(x->engine), 0);
    wait_workers(&ranks);
    tb_background_stop(x->engine);
}

/* Without `background` the ranks of threads meet where the region is quiescent, and it is checked there. */
static void run(bool processes, enum tb_flush_policy policy, bool background, enum tb_fsync promise)
{
    struct fixture x;
    pthread_barrier_t quiet;
    struct plan p = {.steps = stress_amount(processes ? 2000 : 1200), .quiet = processes || background ? NULL : &quiet};
    pthread_barrier_init(&quiet, NULL, RANKS);
    fixture_init(&x, TB_MODE_PERSISTENT_ASYNC);
    x.config.fsync = promise;
    x.config.flush.policy = policy;
    x.config.flush.background = background;
    x.config.flush.high = 0.3;
    x.config.flush.low = 0.1;
    fixture_start(&x);
    make_shared_file(&x);
    run_ranks(&x, processes, background, &p);
    assert_int_equal(tb_instance_drain(x.engine, 2, NULL, NULL, NULL), 0);
    assert_true(tb_region_is_valid(x.engine));
    fixture_stop(&x);
    pthread_barrier_destroy(&quiet);
}

static void manual(void **state)
{
    (void)state;
    run(false, TB_FLUSH_MANUAL, false, TB_FSYNC_TIER);
}

static void on_close(void **state)
{
    (void)state;
    run(false, TB_FLUSH_ON_CLOSE, false, TB_FSYNC_PFS);
    run(false, TB_FLUSH_ON_CLOSE, true, TB_FSYNC_TIER);
}

static void watermark(void **state)
{
    (void)state;
    run(false, TB_FLUSH_WATERMARK, true, TB_FSYNC_TIER);
}

#ifndef __SANITIZE_THREAD__
static void by_processes(void **state)
{
    (void)state;
    run(true, TB_FLUSH_ON_CLOSE, true, TB_FSYNC_TIER);
    run(true, TB_FLUSH_WATERMARK, true, TB_FSYNC_PFS);
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(manual),
        cmocka_unit_test(on_close),
        cmocka_unit_test(watermark),
#ifndef __SANITIZE_THREAD__
        cmocka_unit_test(by_processes),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
