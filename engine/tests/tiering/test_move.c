/*
 * Moves: between tiers of any buffer sizes, with writers at work, every byte
 * stays; what a killed mover left is undone or ended.
 */
#include "fixture.h"

#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "buffer/heat.h"
#include "instance/invariants.h"
#include "buffer/map.h"
#include "buffer/of_file.h"
#include "instance/drain.h"
#include "instance/stats.h"
#include "io/io_layer.h"
#include "layer/descriptions.h"
#include "layer/repair.h"
#include "region/counters.h"
#include "tiering/move.h"

#define SPAN (1u << 20) /* bytes of each writer */
#define WRITERS 2
#define TIERS 3

static uint32_t next_random(uint32_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 17;
    return *state ^= *state << 5;
}

/* Three tiers, each of buffers of one size, in blocks of 4 KiB. */
static void start_on(struct fixture *x, const uint32_t *units, struct tb_io *base)
{
    char path[300];
    fixture_init(x, TB_MODE_PERSISTENT_ASYNC);
    struct tb_config *c = &x->config;
    fixture_tier(&c->tiers[0], "ram", NULL, 12u << 20, 4096);
    for (uint32_t t = 1; t < TIERS; t++) {
        snprintf(path, sizeof(path), "%s/tier-%u", x->root, t);
        fixture_tier(&c->tiers[t], t == 1 ? "nvme" : "bb", path, 8u << 20, 4096);
    }
    for (uint32_t t = 0; t < TIERS; t++)
        fixture_slab(&c->tiers[t], units[t], 1.0);
    x->base = base;
    fixture_start(x);
}

static void start(struct fixture *x, const uint32_t *units)
{
    start_on(x, units, NULL);
}

struct writer {
    struct fixture *x;
    pthread_t thread;
    _Atomic bool *stop;
    int fd;
    uint64_t start;
    uint32_t seed;
    unsigned char *bytes; /* what its part of the file holds */
};

static void write_random(struct writer *w)
{
    unsigned char piece[20000];
    size_t offset = next_random(&w->seed) % SPAN, n = 1 + next_random(&w->seed) % (next_random(&w->seed) % 4 ? 5000 : sizeof(piece));
    n = offset + n > SPAN ? SPAN - offset : n;
    memset(piece, (int)(next_random(&w->seed) & 0xff), n);
    assert_int_equal(TB_IO(w->x->io, pwrite, w->fd, piece, n, (off_t)(w->start + offset)), (ssize_t)n);
    memcpy(w->bytes + offset, piece, n);
}

static void check_random(struct writer *w)
{
    unsigned char piece[20000];
    size_t offset = next_random(&w->seed) % (SPAN - sizeof(piece));
    assert_int_equal(TB_IO(w->x->io, pread, w->fd, piece, sizeof(piece), (off_t)(w->start + offset)), (ssize_t)sizeof(piece));
    assert_memory_equal(piece, w->bytes + offset, sizeof(piece));
}

static void *write_until_stopped(void *arg)
{
    struct writer *w = arg;
    while (!*w->stop) {
        write_random(w);
        check_random(w);
    }
    return NULL;
}

/* Every buffer of the file that is in tier `from`; returns how many moved. */
static uint32_t move_all(tb_engine *e, uint32_t file, uint32_t from, uint32_t to)
{
    uint32_t n, moved = 0;
    struct tb_buffer_ref *refs = tb_file_buffers(e, file, TB_BUFFERS_ALL, &n);
    for (uint32_t i = 0; i < n; i++)
        if (tb_slab_layout(e, &e->region.buffers[refs[i].buffer])->tier == from)
            moved += tb_move(e, file, &refs[i], to, TB_HEAT_ANY) == 0;
    free(refs);
    return moved;
}

static uint32_t count_in(tb_engine *e, uint32_t file, uint32_t tier)
{
    uint32_t n, in = 0;
    struct tb_buffer_ref *refs = tb_file_buffers(e, file, TB_BUFFERS_ALL, &n);
    for (uint32_t i = 0; i < n; i++)
        in += tb_slab_layout(e, &e->region.buffers[refs[i].buffer])->tier == tier;
    free(refs);
    return in;
}

static void compare(struct fixture *x, struct writer *w, bool on_pfs)
{
    static unsigned char bytes[SPAN];
    for (int i = 0; i < WRITERS; i++) {
        ssize_t r = on_pfs ? pread(w[i].fd, bytes, SPAN, (off_t)w[i].start) : TB_IO(x->io, pread, w[i].fd, bytes, SPAN, (off_t)w[i].start);
        assert_int_equal(r, SPAN);
        assert_memory_equal(bytes, w[i].bytes, SPAN);
    }
}

static void start_writers(struct fixture *x, struct writer *w, _Atomic bool *stop, int fd)
{
    for (int i = 0; i < WRITERS; i++) {
        w[i] = (struct writer){
            .x = x, .stop = stop, .fd = fd, .start = (uint64_t)i * SPAN, .seed = 77u + (uint32_t)i, .bytes = calloc(1, SPAN)};
        assert_int_equal(TB_IO(x->io, pwrite, fd, w[i].bytes, SPAN, (off_t)w[i].start), SPAN);
        assert_int_equal(pthread_create(&w[i].thread, NULL, write_until_stopped, &w[i]), 0);
    }
}

/* Round and round through the tiers, both ways, while the writers write; then once more in peace, and nothing is left. */
static void move_around(struct fixture *x, uint32_t *moved)
{
    struct writer w[WRITERS];
    _Atomic bool stop = false;
    tb_engine *e = x->engine;
    int fd = TB_IO(x->io, open, fixture_path(x, "f"), O_RDWR | O_CREAT, 0600);
    uint32_t file = tb_open_of(e, fd)->file;
    start_writers(x, w, &stop, fd);
    for (uint32_t step = 0; step < 12; step++)
        *moved += move_all(e, file, step % TIERS, (step + 1 + step / 6) % TIERS);
    stop = true;
    for (int i = 0; i < WRITERS; i++)
        pthread_join(w[i].thread, NULL);
    assert_true(tb_region_is_valid(e));
    for (uint32_t step = 0; step < 6; step++) {
        uint32_t from = step % TIERS, to = (step + 1 + step / 3) % TIERS;
        move_all(e, file, from, to);
        if (x->config.tiers[to].slabs[0].units <= x->config.tiers[from].slabs[0].units)
            assert_int_equal(count_in(e, file, from), 0); /* what is gathered must half fill a buffer */
        assert_true(tb_region_is_valid(e));
        compare(x, w, false);
    }
    assert_int_equal(tb_instance_drain(e, 2, NULL, NULL, NULL), 0);
    compare(x, w, true);
    for (int i = 0; i < WRITERS; i++)
        free(w[i].bytes);
    TB_IO(x->io, close, fd);
}

static void every_pair_of_tiers_and_sizes(void **state)
{
    (void)state;
    static const uint32_t sizes[] = {1, 16, 256};
    uint32_t moved = 0;
    for (uint32_t k = 0; k < 27; k++) {
        struct fixture x;
        start(&x, (uint32_t[]){sizes[k % 3], sizes[k / 3 % 3], sizes[k / 9]});
        move_around(&x, &moved);
        fixture_stop(&x);
    }
    assert_true(moved > 0); /* how many of them writers let through is the machine's to say */
}

/* What is hinted to be kept and how hot it is go with the bytes. */
static void heat_goes_along(void **state)
{
    (void)state;
    struct fixture x;
    start(&x, (uint32_t[]){1, 16, 256});
    static unsigned char bytes[65536];
    tb_engine *e = x.engine;
    int fd = TB_IO(x.io, open, fixture_path(&x, "f"), O_RDWR | O_CREAT, 0600);
    uint32_t file = tb_open_of(e, fd)->file, n;
    assert_int_equal(TB_IO(x.io, pwrite, fd, bytes, sizeof(bytes), 0), sizeof(bytes));
    struct tb_buffer *hot = tb_map_find(e, file, 0, 3);
    tb_heat_set(e, hot, TB_HEAT_WARM, false);
    tb_heat_set(e, tb_map_find(e, file, 0, 4), 0, false);
    struct tb_buffer_ref *refs = tb_file_buffers(e, file, TB_BUFFERS_ALL, &n);
    assert_int_equal(n, 16);
    assert_int_equal(tb_move(e, file, &refs[4], 1, TB_HEAT_ANY), 0);
    free(refs);
    assert_ptr_equal(tb_map_find(e, file, 0, 3), hot); /* too hot to come along with a cold one */
    assert_int_equal(count_in(e, file, 1), 1);
    const struct tb_buffer *moved = tb_map_find(e, file, 1, 0);
    assert_int_equal(tb_heat_of(e, moved), TB_HEAT_WRITE);
    assert_int_equal(tb_moved_in(e, 1), 15 * 4096);
    e->header->movement.heat_epoch += 2;
    assert_int_equal(tb_heat_of(e, moved), TB_HEAT_WRITE / 4);
    assert_true(tb_region_is_valid(e));
    TB_IO(x.io, close, fd);
    fixture_stop(&x);
}

/* What another thread does while a move writes its copy to the tier. */
static struct {
    void *(*act)(void *);
    struct fixture *x;
    int fd;
    int acted;
} during_move;

static ssize_t interrupted_pwrite(struct tb_io *io, int fd, const void *buf, size_t n, off_t offset)
{
    void *(*act)(void *) = during_move.act;
    pthread_t other;
    during_move.act = NULL; /* its own writes are not interrupted */
    if (act && pthread_create(&other, NULL, act, NULL) == 0) {
        pthread_join(other, NULL);
        during_move.acted++;
    }
    return TB_IO(io->next, pwrite, fd, buf, n, offset);
}

static void *write_meanwhile(void *unused)
{
    assert_int_equal(TB_IO(during_move.x->io, pwrite, during_move.fd, "new", 3, 100), 3);
    return unused;
}

static void *cut_meanwhile(void *unused)
{
    assert_int_equal(TB_IO(during_move.x->io, ftruncate, during_move.fd, 50), 0);
    return unused;
}

static void *drain_meanwhile(void *unused)
{
    assert_int_equal(tb_instance_drain(during_move.x->engine, 1, NULL, NULL, NULL), 0);
    return unused;
}

static void *fsync_meanwhile(void *unused)
{
    assert_int_equal(TB_IO(during_move.x->io, fsync, during_move.fd, false), 0);
    return unused;
}

/* Whatever became of the buffer since it was copied, the copy is not taken for it. */
static void what_changes_under_a_move_stays(void **state)
{
    (void)state;
    static const struct tb_io_ops own = {.name = "interrupted", .pwrite = interrupted_pwrite};
    static void *(*const acts[])(void *) = {write_meanwhile, cut_meanwhile, drain_meanwhile, fsync_meanwhile};
    struct tb_io_ops table;
    struct tb_io base;
    for (size_t i = 0; i < sizeof(acts) / sizeof(acts[0]); i++) {
        struct fixture x;
        uint32_t n;
        tb_io_layer_init(&base, &table, &own, tb_io_libc());
        start_on(&x, (uint32_t[]){1, 1, 1}, &base);
        int fd = TB_IO(x.io, open, fixture_path(&x, "f"), O_RDWR | O_CREAT, 0600);
        char bytes[4096], got[4096] = "";
        memset(bytes, 'o', sizeof(bytes));
        assert_int_equal(TB_IO(x.io, pwrite, fd, bytes, sizeof(bytes), 0), sizeof(bytes));
        uint32_t file = tb_open_of(x.engine, fd)->file;
        struct tb_buffer_ref *refs = tb_file_buffers(x.engine, file, TB_BUFFERS_ALL, &n);
        during_move = (__typeof__(during_move)){.act = acts[i], .x = &x, .fd = fd};
        assert_int_equal(tb_move(x.engine, file, &refs[0], 2, TB_HEAT_ANY), -EAGAIN);
        assert_int_equal(during_move.acted, 1);
        free(refs);
        assert_int_equal(x.engine->region.files[file].n_dirty, acts[i] != drain_meanwhile);
        assert_true(tb_region_is_valid(x.engine));
        if (acts[i] == write_meanwhile)
            memcpy(bytes + 100, "new", 3);
        size_t size = acts[i] == cut_meanwhile ? 50 : sizeof(bytes);
        assert_int_equal(TB_IO(x.io, pread, fd, got, sizeof(got), 0), (ssize_t)size);
        assert_memory_equal(got, bytes, size);
        TB_IO(x.io, close, fd);
        fixture_stop(&x);
    }
}

static void move_until_killed(struct fixture *x, uint32_t file, _Atomic uint32_t *moved)
{
    tb_engine_atfork_child(x->engine);
    for (uint32_t step = 0;; step++)
        *moved += move_all(x->engine, file, step % TIERS, (step + 1 + step / 3 % 2) % TIERS);
}

/* Wherever it dies. */
static void a_killed_mover_loses_nothing(void **state)
{
    (void)state;
#ifdef __SANITIZE_THREAD__
    skip(); /* a repair takes more locks at once than the sanitizer can count */
#endif
    struct fixture x;
    struct writer w[WRITERS];
    uint32_t seed = 4711;
    _Atomic uint32_t *moved = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    start(&x, (uint32_t[]){1, 16, 256});
    int fd = TB_IO(x.io, open, fixture_path(&x, "f"), O_RDWR | O_CREAT, 0600);
    for (int i = 0; i < WRITERS; i++) {
        w[i] = (struct writer){.x = &x, .fd = fd, .start = (uint64_t)i * SPAN, .seed = 5u + (uint32_t)i, .bytes = calloc(1, SPAN)};
        assert_int_equal(TB_IO(x.io, pwrite, fd, w[i].bytes, SPAN, (off_t)w[i].start), SPAN);
    }
    for (int round = 0; round < 40; round++) {
        tb_engine_atfork_prepare(x.engine);
        pid_t child = fork();
        if (child == 0)
            move_until_killed(&x, tb_open_of(x.engine, fd)->file, moved);
        tb_engine_atfork_parent(x.engine);
        for (uint32_t before = *moved; *moved == before;) /* at work, however busy the machine is */
            usleep(100);
        usleep(next_random(&seed) % 8000);
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
        for (int i = 0; i < 40; i++)
            write_random(&w[i % WRITERS]);
        tb_repair(x.engine);
        compare(&x, w, false);
    }
    assert_int_equal(tb_instance_drain(x.engine, 2, NULL, NULL, NULL), 0);
    compare(&x, w, true);
    for (int i = 0; i < WRITERS; i++)
        free(w[i].bytes);
    TB_IO(x.io, close, fd);
    munmap((void *)moved, 4096);
    fixture_stop(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_pair_of_tiers_and_sizes),
        cmocka_unit_test(heat_goes_along),
        cmocka_unit_test(what_changes_under_a_move_stays),
        cmocka_unit_test(a_killed_mover_loses_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
