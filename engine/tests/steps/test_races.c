/*
 * Two who meet at a named point of the engine (base/kill_point.h): when one comes there, the
 * other does its part, in the same thread where no lock is held, else in another.
 * Each test is an order of events in which bytes were lost once.
 */
#include "fixture.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <time.h>

#include "base/kill_point.h"
#include "base/report.h"
#include "buffer/heat.h"
#include "buffer/invariants.h"
#include "buffer/map.h"
#include "buffer/of_file.h"
#include "file/file.h"
#include "flush/flush.h"
#include "instance/drain.h"
#include "recovery/recover.h"
#include "layer/descriptions.h"
#include "tiering/move.h"

static _Thread_local struct meeting {
    const char *at;
    void (*act)(void *);
    void *arg;
} meetings[4];

void tb_step(const char *name)
{
    for (size_t i = 0; i < sizeof(meetings) / sizeof(meetings[0]); i++)
        if (meetings[i].at && strcmp(meetings[i].at, name) == 0) {
            struct meeting m = meetings[i];
            meetings[i].at = NULL; /* once */
            m.act(m.arg);
            return;
        }
}

static void meet(const char *at, void (*act)(void *), void *arg)
{
    size_t i = 0;
    while (meetings[i].at)
        i++;
    meetings[i] = (struct meeting){at, act, arg};
}

static void all_met(void)
{
    for (size_t i = 0; i < sizeof(meetings) / sizeof(meetings[0]); i++)
        if (meetings[i].at)
            fail_msg("nobody came to \"%s\"", meetings[i].at);
}

struct scene {
    struct fixture x;
    int fd;
    uint32_t file;
    pthread_t writer;
    sem_t waits;
    ssize_t read;
    char byte;
};

static void start(struct scene *s)
{
    memset(s, 0, sizeof(*s));
    sem_init(&s->waits, 0, 0);
    fixture_init(&s->x, TB_MODE_PERSISTENT_ASYNC);
}

static void begin(struct scene *s)
{
    fixture_start(&s->x);
    s->fd = s->x.io->ops->open(s->x.io, fixture_path(&s->x, "f"), O_RDWR | O_CREAT, 0600);
    assert_true(s->fd >= 0);
    s->file = tb_open_of(s->x.engine, s->fd)->file;
}

static void stop(struct scene *s)
{
    all_met();
    assert_true(tb_region_is_valid(s->x.engine));
    assert_int_equal(s->x.io->ops->close(s->x.io, s->fd), 0);
    fixture_stop(&s->x);
    sem_destroy(&s->waits);
}

static void put(struct scene *s, char what, size_t n, off_t at)
{
    char bytes[65536];
    memset(bytes, what, n);
    assert_int_equal(s->x.io->ops->pwrite(s->x.io, s->fd, bytes, n, at), n);
}

static void expect(int fd, ssize_t (*from)(struct scene *, int, void *, size_t, off_t), struct scene *s, char what, size_t n, off_t at)
{
    char bytes[65536];
    assert_int_equal(from(s, fd, bytes, n, at), n);
    for (size_t i = 0; i < n; i++)
        if (bytes[i] != what)
            fail_msg("byte %zu is %d, not '%c'", (size_t)at + i, bytes[i], what);
}

static ssize_t by_engine(struct scene *s, int fd, void *to, size_t n, off_t at)
{
    return s->x.io->ops->pread(s->x.io, fd, to, n, at);
}

static ssize_t by_kernel(struct scene *s, int fd, void *to, size_t n, off_t at)
{
    (void)s;
    return pread(fd, to, n, at);
}

static void write_second(void *arg)
{
    put(arg, '2', 4096, 0);
}

static void *write_third(void *arg)
{
    put(arg, '3', 4096, 0);
    return NULL;
}

/* Time enough to come first, should nothing hold it up; what it does may wait for the caller. */
static void begin_beside(struct scene *s, void *(*act)(void *))
{
    assert_int_equal(pthread_create(&s->writer, NULL, act, s), 0);
    nanosleep(&(struct timespec){0, 50000000}, NULL);
}

static void begin_third(void *arg)
{
    begin_beside(arg, write_third);
}

/* The second write is buffered behind the first flush, the third one passes through before the second flush. */
static void coherent_while_written(void **state)
{
    (void)state;
    struct scene s;
    start(&s);
    begin(&s);
    put(&s, '1', 4096, 0);
    meet("become coherent", write_second, &s);
    meet("coherent", begin_third, &s);
    assert_int_equal(tb_engine_make_coherent(s.x.engine, s.fd), 0);
    pthread_join(s.writer, NULL);
    assert_int_equal(s.x.engine->region.files[s.file].n_dirty, 0);
    expect(s.fd, by_kernel, &s, '3', 4096, 0);
    expect(s.fd, by_engine, &s, '3', 4096, 0);
    stop(&s);
}

static void *read_first_byte(void *arg)
{
    struct scene *s = arg;
    s->read = by_engine(s, s->fd, &s->byte, 1, 0);
    return NULL;
}

static void begin_reader(void *arg)
{
    begin_beside(arg, read_first_byte);
}

static void coherent_while_read(void **state)
{
    (void)state;
    struct scene s;
    start(&s);
    begin(&s);
    put(&s, '1', 4096, 0);
    meet("become coherent", write_second, &s);
    meet("coherent", begin_reader, &s);
    assert_int_equal(tb_engine_make_coherent(s.x.engine, s.fd), 0);
    pthread_join(s.writer, NULL);
    assert_int_equal(s.read, 1);
    assert_int_equal(s.byte, '2');
    stop(&s);
}

/* As the organizer would. */
static int move_first(struct scene *s)
{
    uint32_t n;
    struct tb_buffer_ref *refs = tb_file_buffers(s->x.engine, s->file, TB_BUFFERS_DIRTY, &n);
    assert_int_equal(n, 1);
    int rc = tb_move(s->x.engine, s->file, refs, 1, TB_HEAT_ANY);
    free(refs);
    return rc;
}

static void move_in_vain(void *arg)
{
    assert_int_equal(move_first(arg), -EBUSY);
}

static void move_in_next_flush(void *arg)
{
    meet("flush written", move_in_vain, arg);
}

/* What is dirty in a coherent file would be flushed over newer bytes one day. */
static void coherent_while_moved(void **state)
{
    (void)state;
    struct scene s;
    start(&s);
    begin(&s);
    put(&s, '1', 4096, 0);
    meet("become coherent", write_second, &s);
    meet("coherent", move_in_next_flush, &s);
    assert_int_equal(tb_engine_make_coherent(s.x.engine, s.fd), 0);
    assert_int_equal(s.x.engine->region.files[s.file].n_dirty, 0);
    expect(s.fd, by_kernel, &s, '2', 4096, 0);
    stop(&s);
}

static void *flush_file(void *arg)
{
    struct scene *s = arg;
    assert_int_equal(tb_flush_file(s->x.engine, s->file, -1, true).error, 0);
    return NULL;
}

static void begin_flush(void *arg)
{
    begin_beside(arg, flush_file);
}

/* The flush has listed the buffer when the move, which was under way before, takes its bytes elsewhere. */
static void flushed_while_moved(void **state)
{
    (void)state;
    struct scene s;
    start(&s);
    begin(&s);
    put(&s, '1', 65536, 0);
    meet("move leaving", begin_flush, &s);
    assert_int_equal(move_first(&s), 0);
    pthread_join(s.writer, NULL);
    assert_int_equal(s.x.engine->region.files[s.file].n_dirty, 0);
    expect(s.fd, by_kernel, &s, '1', 65536, 0);
    stop(&s);
}

/* A nameless file through a descriptor that ignores offsets: what is mapped must be there. */
static void coherent_without_name(void **state)
{
    (void)state;
    struct scene s;
    start(&s);
    begin(&s);
    struct tb_io *io = s.x.io;
    int appends = io->ops->open(io, fixture_path(&s.x, "f"), O_WRONLY | O_APPEND, 0);
    put(&s, '1', 4096, 0);
    assert_int_equal(io->ops->unlink(io, fixture_path(&s.x, "f"), 0), 0);
    assert_int_equal(tb_engine_make_coherent(s.x.engine, appends), 0);
    expect(s.fd, by_kernel, &s, '1', 4096, 0);
    io->ops->close(io, appends);
    stop(&s);
}

static void out_of_fragments(struct scene *s)
{
    s->x.engine->header->fragments.free = TB_NONE;
}

/* A record stands on the buffer, the write goes on in a copy, and no fragment is left for that. */
static void copy_without_fragment(void **state)
{
    (void)state;
    struct scene s;
    start(&s);
    begin(&s);
    put(&s, '1', 65536, 0);
    assert_true(tb_engine_flush(s.x.engine, s.fd) >= 0);
    put(&s, '2', 100, 0);
    assert_int_equal(s.x.io->ops->fsync(s.x.io, s.fd, false), 0);
    uint32_t fragment = s.x.engine->header->fragments.free;
    out_of_fragments(&s);
    put(&s, '3', 100, 8192);
    s.x.engine->header->fragments.free = fragment;
    assert_int_equal(s.x.engine->region.files[s.file].n_dirty, 1);
    assert_true(tb_region_is_valid(s.x.engine));
    assert_true(tb_engine_flush(s.x.engine, s.fd) >= 0);
    expect(s.fd, by_kernel, &s, '2', 100, 0);
    expect(s.fd, by_kernel, &s, '3', 100, 8192);
    stop(&s);
}

static void *write_across(void *arg)
{
    struct scene *s = arg;
    put(s, '3', 8192, 4200);
    return NULL;
}

static void say_waits(void *arg)
{
    sem_post(&((struct scene *)arg)->waits);
}

static void *write_across_and_say(void *arg)
{
    meet("room wanted", say_waits, arg);
    return write_across(arg);
}

/* The writer waits for the flush before it has written anything: others meet all of a write, or nothing. */
static void begin_across(void *arg)
{
    struct scene *s = arg;
    struct stat st;
    assert_int_equal(pthread_create(&s->writer, NULL, write_across_and_say, s), 0);
    sem_wait(&s->waits);
    assert_int_equal(s->x.io->ops->fstat(s->x.io, s->fd, &st), 0);
    assert_int_equal(st.st_size, 4200);
}

static void flush_while_room_is_wanted(void **state)
{
    (void)state;
    struct scene s;
    start(&s);
    s.x.config.n_tiers = 1;
    s.x.config.fsync = TB_FSYNC_PFS;
    begin(&s);
    put(&s, '1', 104, 4096); /* into a small buffer; there is no other small one */
    struct tb_slab *small = &s.x.engine->header->slab[0];
    uint32_t rest = small->free, n_rest = small->n_free;
    small->free = TB_NONE;
    small->n_free = 0;
    put(&s, '2', 100, 0); /* into a large one that surrounds it */
    out_of_fragments(&s);
    meet("flush write", begin_across, &s);
    assert_true(tb_engine_flush(s.x.engine, s.fd) >= 0);
    pthread_join(s.writer, NULL);
    small->free = rest;
    small->n_free = n_rest;
    assert_true(tb_engine_flush(s.x.engine, s.fd) >= 0);
    expect(s.fd, by_kernel, &s, '1', 104, 4096);
    expect(s.fd, by_kernel, &s, '3', 8192, 4200);
    stop(&s);
}

static int make(struct scene *s, const char *name)
{
    int fd = s->x.io->ops->open(s->x.io, fixture_path(&s->x, name), O_RDWR | O_CREAT, 0600);
    assert_true(fd >= 0);
    return fd;
}

static void unlink_name(struct scene *s, const char *name)
{
    assert_int_equal(s->x.io->ops->unlink(s->x.io, fixture_path(&s->x, name), 0), 0);
}

static int replacement;

static void replace_file(void *arg)
{
    unlink_name(arg, "f");
    replacement = make(arg, "f");
}

/* Who unlinks had looked the name up when another made it another file's. */
static void unlinked_while_replaced(void **state)
{
    (void)state;
    struct scene s;
    start(&s);
    begin(&s);
    meet("claim to name", replace_file, &s);
    unlink_name(&s, "f");
    assert_true(s.x.engine->region.files[tb_open_of(s.x.engine, replacement)->file].flags & TB_FILE_UNLINKED);
    assert_int_equal(s.x.io->ops->close(s.x.io, replacement), 0);
    stop(&s);
}

static void unlink_other(void *arg)
{
    unlink_name(arg, "g");
}

/* Both had seen two names. */
static void both_names_unlinked(void **state)
{
    (void)state;
    struct scene s;
    char g[512];
    start(&s);
    begin(&s);
    snprintf(g, sizeof(g), "%s", fixture_path(&s.x, "g"));
    assert_int_equal(s.x.io->ops->link(s.x.io, fixture_path(&s.x, "f"), g), 0);
    meet("claim to name", unlink_other, &s);
    unlink_name(&s, "f");
    assert_true(s.x.engine->region.files[s.file].flags & TB_FILE_UNLINKED);
    stop(&s);
}

static void rename_over(void *arg)
{
    struct scene *s = arg;
    char g[512];
    snprintf(g, sizeof(g), "%s", fixture_path(&s->x, "g"));
    replacement = make(s, "g");
    assert_int_equal(s->x.io->ops->rename(s->x.io, g, fixture_path(&s->x, "f"), 0), 0);
}

/* Two atomic saves of one name: the one that is second replaces what the first one put there. */
static void renamed_over_while_replaced(void **state)
{
    (void)state;
    struct scene s;
    char h[512];
    start(&s);
    begin(&s);
    int last = make(&s, "h");
    snprintf(h, sizeof(h), "%s", fixture_path(&s.x, "h"));
    meet("claim to name", rename_over, &s);
    assert_int_equal(s.x.io->ops->rename(s.x.io, h, fixture_path(&s.x, "f"), 0), 0);
    assert_true(s.x.engine->region.files[tb_open_of(s.x.engine, replacement)->file].flags & TB_FILE_UNLINKED);
    assert_int_equal(s.x.io->ops->close(s.x.io, replacement), 0);
    assert_int_equal(s.x.io->ops->close(s.x.io, last), 0);
    stop(&s);
}

/* The write goes on in a copy; the cut changes that alone. */
static void write_and_cut(void *arg)
{
    struct scene *s = arg;
    put(s, '3', 10, 4990);
    assert_int_equal(s->x.io->ops->ftruncate(s->x.io, s->fd, 5000), 0);
}

static void note_error(void *arg, const struct tb_file_report *r)
{
    *(int *)arg += r->error != 0;
}

/* An fsync had taken its bytes along when a cut dropped their records: what was cut off must not be recorded after that. */
static void cut_while_fsynced(void **state)
{
    (void)state;
    struct scene s;
    struct tb_error err = {""};
    int errors = 0;
    start(&s);
    begin(&s);
    put(&s, '1', 100, 0);
    assert_int_equal(s.x.io->ops->fsync(s.x.io, s.fd, false), 0); /* a journal with a record */
    put(&s, '2', 20000, 0);
    meet("reserved", write_and_cut, &s);
    assert_int_equal(s.x.io->ops->fsync(s.x.io, s.fd, false), 0);
    assert_int_equal(s.x.io->ops->ftruncate(s.x.io, s.fd, 20000), 0);
    assert_int_equal(s.x.io->ops->fsync(s.x.io, s.fd, false), 0);
    all_met();
    fixture_lose_region(&s.x);
    assert_int_equal(tb_instance_recover(&s.x.config, tb_io_libc(), NULL, note_error, &errors, &err), 1);
    assert_int_equal(errors, 0);
    int fd = open(fixture_path(&s.x, "f"), O_RDONLY | O_CLOEXEC);
    expect(fd, by_kernel, &s, '2', 4990, 0);
    expect(fd, by_kernel, &s, '3', 10, 4990);
    expect(fd, by_kernel, &s, 0, 15000, 5000);
    close(fd);
    fixture_stop(&s.x);
    sem_destroy(&s.waits);
}

/* Another program, each time this one has put its bytes aside: its own records stand by then, and it has gone on. */
static int n_others;

static void write_and_fsync_and_write(void *arg)
{
    struct scene *s = arg;
    if (++n_others > 100)
        fail_msg("an fsync goes on and on");
    put(s, (char)('a' + n_others % 20), 4096, 0);
    assert_int_equal(s->x.io->ops->fsync(s->x.io, s->fd, false), 0);
    put(s, (char)('A' + n_others % 20), 4096, 0);
    meet("reserved", write_and_fsync_and_write, arg);
}

static void cut_again(void *arg)
{
    struct scene *s = arg;
    if (++n_others > 100)
        fail_msg("an fsync goes on and on");
    assert_int_equal(s->x.io->ops->ftruncate(s->x.io, s->fd, 4096 - n_others), 0);
    meet("reserved", cut_again, arg);
}

static void fsynced_while_others(void (*act)(void *))
{
    struct scene s;
    struct tb_error err = {""};
    int errors = 0;
    char byte;
    start(&s);
    begin(&s);
    n_others = 0;
    put(&s, '1', 4096, 0);
    meet("reserved", act, &s);
    assert_int_equal(s.x.io->ops->fsync(s.x.io, s.fd, false), 0);
    assert_true(n_others > 1);
    memset(meetings, 0, sizeof(meetings));
    fixture_lose_region(&s.x);
    assert_true(tb_instance_recover(&s.x.config, tb_io_libc(), NULL, note_error, &errors, &err) >= 0);
    assert_int_equal(errors, 0);
    int fd = open(fixture_path(&s.x, "f"), O_RDONLY | O_CLOEXEC);
    for (int at = 0; at < 4000; at++)
        assert_true(pread(fd, &byte, 1, at) == 1 && byte > '0');
    close(fd);
    fixture_stop(&s.x);
    sem_destroy(&s.waits);
}

static void fsynced_while_others_write(void **state)
{
    (void)state;
    fsynced_while_others(write_and_fsync_and_write);
}

static void fsynced_while_others_cut(void **state)
{
    (void)state;
    fsynced_while_others(cut_again);
}

static void expect_size(struct scene *s, off_t size)
{
    struct stat st;
    assert_int_equal(s->x.io->ops->fstat(s->x.io, s->fd, &st), 0);
    assert_int_equal(st.st_size, size);
}

static void *write_past_cut(void *arg)
{
    put(arg, '2', 4096, 8192);
    return NULL;
}

/* The write waits: else its bytes, and older ones before them, would be seen now, go with the cut, and come back. */
static void begin_past_cut(void *arg)
{
    begin_beside(arg, write_past_cut);
    expect_size(arg, 1000);
}

static void written_while_cut(void **state)
{
    (void)state;
    static const char *const steps[] = {"length told", "buffers cut"};
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        struct scene s;
        start(&s);
        begin(&s);
        put(&s, '1', 65536, 0);
        meet(steps[i], begin_past_cut, &s);
        assert_int_equal(s.x.io->ops->ftruncate(s.x.io, s.fd, 1000), 0);
        pthread_join(s.writer, NULL);
        expect_size(&s, 8192 + 4096);
        expect(s.fd, by_engine, &s, '1', 1000, 0);
        expect(s.fd, by_engine, &s, 0, 7192, 1000);
        expect(s.fd, by_engine, &s, '2', 4096, 8192);
        stop(&s);
    }
}

static void *cut_to_1000(void *arg)
{
    struct scene *s = arg;
    assert_int_equal(s->x.io->ops->ftruncate(s->x.io, s->fd, 1000), 0);
    return NULL;
}

static void begin_cut(void *arg)
{
    begin_beside(arg, cut_to_1000);
}

/* The other way round: the cut waits for a write that has begun. */
static void cut_while_written(void **state)
{
    (void)state;
    struct scene s;
    start(&s);
    begin(&s);
    meet("copied", begin_cut, &s);
    put(&s, '1', 4096, 0);
    pthread_join(s.writer, NULL);
    expect_size(&s, 1000);
    stop(&s);
}

/* A write that came after the look at the length, and before the mark: what it wrote past the new length goes. */
static void longer_before_cut(void **state)
{
    (void)state;
    struct scene s;
    start(&s);
    begin(&s);
    put(&s, '1', 10, 0);
    meet("cut to", write_second, &s);
    assert_int_equal(s.x.io->ops->ftruncate(s.x.io, s.fd, 1000), 0);
    expect_size(&s, 1000);
    assert_int_equal(s.x.io->ops->ftruncate(s.x.io, s.fd, 4096), 0);
    expect(s.fd, by_engine, &s, '2', 1000, 0);
    expect(s.fd, by_engine, &s, 0, 3096, 1000);
    stop(&s);
}

static void *seek_to_5(void *arg)
{
    struct scene *s = arg;
    assert_int_equal(s->x.io->ops->lseek(s->x.io, s->fd, 5, SEEK_SET), 5);
    return NULL;
}

static void begin_seek(void *arg)
{
    begin_beside(arg, seek_to_5);
}

static void *read_byte_on(void *arg)
{
    struct scene *s = arg;
    s->read = s->x.io->ops->read(s->x.io, s->fd, &s->byte, 1);
    return NULL;
}

static void begin_read_on(void *arg)
{
    begin_beside(arg, read_byte_on);
}

static void write_on(struct scene *s, char what)
{
    char bytes[100];
    memset(bytes, what, sizeof(bytes));
    assert_int_equal(s->x.io->ops->write(s->x.io, s->fd, bytes, sizeof(bytes)), sizeof(bytes));
}

/* The bytes of a write and the offset after them are one: who seeks or reads comes before or after. */
static void sought_while_written(void **state)
{
    (void)state;
    struct scene s;
    start(&s);
    begin(&s);
    put(&s, '1', 300, 0);
    tb_open_of(s.x.engine, s.fd)->shared = true;
    meet("noted", begin_seek, &s);
    write_on(&s, '2');
    pthread_join(s.writer, NULL);
    assert_int_equal(s.x.io->ops->lseek(s.x.io, s.fd, 0, SEEK_CUR), 5);
    assert_int_equal(s.x.io->ops->lseek(s.x.io, s.fd, 0, SEEK_SET), 0);
    meet("noted", begin_read_on, &s);
    write_on(&s, '3');
    pthread_join(s.writer, NULL);
    assert_int_equal(s.read, 1);
    assert_int_equal(s.byte, '1');
    stop(&s);
}

/* What a flush put on the PFS, synced, is what a crash leaves: never older bytes. */
static void crash_and_expect(struct scene *s, char what)
{
    struct tb_error err;
    int errors = 0;
    assert_int_equal(s->x.io->ops->close(s->x.io, s->fd), 0);
    all_met();
    assert_true(tb_region_is_valid(s->x.engine));
    fixture_lose_region(&s->x);
    assert_true(tb_instance_recover(&s->x.config, tb_io_libc(), NULL, note_error, &errors, &err) >= 0);
    assert_int_equal(errors, 0);
    int fd = open(fixture_path(&s->x, "f"), O_RDONLY);
    expect(fd, by_kernel, s, what, 4096, 0);
    close(fd);
    fixture_stop(&s->x);
    sem_destroy(&s->waits);
}

static void write_between(void *arg)
{
    put(arg, '3', 4096, 0);
}

static void write_and_flush(void *arg)
{
    put(arg, '2', 4096, 0);
    meet("flush written", write_between, arg);
    flush_file(arg);
}

/* The fsync had put its bytes aside. A flush of newer ones made the records void before it wrote its own. */
static void fsynced_while_flushed(void **state)
{
    (void)state;
    struct scene s;
    start(&s);
    begin(&s);
    put(&s, '1', 4096, 0);
    meet("reserved", write_and_flush, &s);
    assert_int_equal(s.x.io->ops->fsync(s.x.io, s.fd, false), 0);
    crash_and_expect(&s, '3');
}

static void fsync_file(void *arg)
{
    struct scene *s = arg;
    assert_int_equal(s->x.io->ops->fsync(s->x.io, s->fd, false), 0);
}

/* The flush made the records void, and then an fsync wrote a new one of the same bytes: it must not outlive them. */
static void flushed_while_fsynced(void **state)
{
    (void)state;
    struct scene s;
    start(&s);
    s.x.config.tiers[0] = s.x.config.tiers[1]; /* one directory tier, so that nothing has to move down */
    s.x.config.n_tiers = 1;
    begin(&s);
    put(&s, '1', 4096, 0);
    fsync_file(&s);
    put(&s, '2', 4096, 0);
    meet("dropped records", fsync_file, &s);
    flush_file(&s);
    put(&s, '3', 4096, 0);
    flush_file(&s);
    crash_and_expect(&s, '3');
}

/* As `tierctl stop` does it, while the writer is at the meeting. */
static void end_instance(void *arg)
{
    struct scene *s = arg;
    assert_int_equal(tb_instance_retire(s->x.engine, true), 0);
    assert_int_equal(tb_instance_drain(s->x.engine, 1, NULL, NULL, NULL), 0);
    assert_int_equal(tb_instance_destroy(s->x.engine), 0);
    s->x.engine = NULL;
}

/*
 * A writer that is stopped where it holds no lock is not waited for. It has promised nothing
 * yet, and when it goes on, its bytes are on the PFS before the write returns.
 */
static void stopped_while_written(const char *where)
{
    struct scene s;
    tb_engine *client;
    char bytes[8] = "written", found[8] = "";
    start(&s);
    fixture_start(&s.x);
    assert_int_equal(tb_engine_attach(s.x.name, tb_io_libc(), &client), 0);
    struct tb_io *io = tb_engine_route(client, fixture_path(&s.x, "f"), NULL);
    int fd = io->ops->open(io, fixture_path(&s.x, "f"), O_RDWR | O_CREAT, 0600);
    assert_true(fd >= 0);
    meet(where, end_instance, &s);
    assert_int_equal(io->ops->pwrite(io, fd, bytes, sizeof(bytes), 0), sizeof(bytes));
    all_met();
    assert_int_equal(pread(fd, found, sizeof(found), 0), sizeof(found));
    assert_string_equal(found, "written");
    assert_int_equal(io->ops->close(io, fd), 0);
    tb_engine_detach(client);
    fixture_stop(&s.x);
}

static void ended_while_written(void **state)
{
    (void)state;
    stopped_while_written("write begins");
    stopped_while_written("bytes put");
    stopped_while_written("write settled");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(coherent_while_written),     cmocka_unit_test(coherent_while_read),
        cmocka_unit_test(coherent_while_moved),       cmocka_unit_test(flushed_while_moved),
        cmocka_unit_test(coherent_without_name),      cmocka_unit_test(copy_without_fragment),
        cmocka_unit_test(flush_while_room_is_wanted), cmocka_unit_test(unlinked_while_replaced),
        cmocka_unit_test(both_names_unlinked),        cmocka_unit_test(renamed_over_while_replaced),
        cmocka_unit_test(cut_while_fsynced),          cmocka_unit_test(fsynced_while_others_write),
        cmocka_unit_test(fsynced_while_others_cut),   cmocka_unit_test(written_while_cut),
        cmocka_unit_test(cut_while_written),          cmocka_unit_test(longer_before_cut),
        cmocka_unit_test(fsynced_while_flushed),      cmocka_unit_test(flushed_while_fsynced),
        cmocka_unit_test(sought_while_written),       cmocka_unit_test(ended_while_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
